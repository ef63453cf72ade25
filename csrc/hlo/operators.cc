// SPDX-License-Identifier: Apache-2.0
// Operator syntax and short names.
#include "csrc/hlo/operators.h"

#include <algorithm>

#include "csrc/hlo/builder_impl.h"

namespace torch_tpu::hlo {
namespace {

Value Binary(std::string_view op, Value a, Value b) {
  if (!a) Fail(op, "expected a value, got an absent one");
  return a.builder().Binary(op, a, b);
}

Value Unary(std::string_view op, Value x) {
  if (!x) Fail(op, "expected a value, got an absent one");
  return x.builder().Unary(op, x);
}

Value Compare(Value a, Value b, Direction direction) {
  if (!a) Fail("stablehlo.compare", "expected a value, got an absent one");
  return a.builder().Compare(a, b, direction);
}

// A rank-0 constant of x's type.
Value Number(Value x, double value) {
  const DType dtype = x.dtype();
  return x.builder().Constant(dtype, value);
}

bool IsUnsigned(DType dtype) { return !IsSigned(dtype); }

// Negative positions count from the end; duplicates throw; sorted.
Dims Positions(std::string_view op, const Dims& dims, int64_t rank) {
  Dims out = dims;
  for (int64_t& d : out) d += d < 0 ? rank : 0;
  CheckPositions(op, "the dims", out, rank);
  std::sort(out.begin(), out.end());
  return out;
}

Value KeepDims(Value reduced, const Dims& positions, bool keepdim) {
  return keepdim ? Unsqueeze(reduced, positions) : reduced;
}

Value ReduceNamed(std::string_view op, Value x, Value init, const Dims& dims, bool keepdim) {
  const Dims positions = Positions(op, dims, x.rank());
  if (positions.empty()) return x;
  return KeepDims(x.builder().Reduce(op, x, init, positions), positions, keepdim);
}

}  // namespace

Value operator+(Value a, Value b) { return Binary("stablehlo.add", a, b); }
Value operator-(Value a, Value b) { return Binary("stablehlo.subtract", a, b); }
Value operator*(Value a, Value b) { return Binary("stablehlo.multiply", a, b); }
Value operator/(Value a, Value b) { return Binary("stablehlo.divide", a, b); }
Value operator-(Value x) { return Unary("stablehlo.negate", x); }
Value operator+(Value a, double b) { return a + Number(a, b); }
Value operator-(Value a, double b) { return a - Number(a, b); }
Value operator*(Value a, double b) { return a * Number(a, b); }
Value operator/(Value a, double b) { return a / Number(a, b); }
Value operator+(double a, Value b) { return Number(b, a) + b; }
Value operator-(double a, Value b) { return Number(b, a) - b; }
Value operator*(double a, Value b) { return Number(b, a) * b; }
Value operator/(double a, Value b) { return Number(b, a) / b; }
Value operator&(Value a, Value b) { return Binary("stablehlo.and", a, b); }
Value operator|(Value a, Value b) { return Binary("stablehlo.or", a, b); }
Value operator^(Value a, Value b) { return Binary("stablehlo.xor", a, b); }
Value operator~(Value x) { return Unary("stablehlo.not", x); }

Value operator<(Value a, Value b) { return Compare(a, b, Direction::kLt); }
Value operator<=(Value a, Value b) { return Compare(a, b, Direction::kLe); }
Value operator>(Value a, Value b) { return Compare(a, b, Direction::kGt); }
Value operator>=(Value a, Value b) { return Compare(a, b, Direction::kGe); }
Value Eq(Value a, Value b) { return Compare(a, b, Direction::kEq); }
Value Ne(Value a, Value b) { return Compare(a, b, Direction::kNe); }
Value Eq(Value a, double b) { return Eq(a, Number(a, b)); }
Value Ne(Value a, double b) { return Ne(a, Number(a, b)); }
Value operator<(Value a, double b) { return a < Number(a, b); }
Value operator<=(Value a, double b) { return a <= Number(a, b); }
Value operator>(Value a, double b) { return a > Number(a, b); }
Value operator>=(Value a, double b) { return a >= Number(a, b); }

Value Abs(Value x) { return IsUnsigned(x.dtype()) ? x : Unary("stablehlo.abs", x); }
Value Sign(Value x) {
  // StableHLO has no sign of unsigned numbers.
  if (IsUnsigned(x.dtype())) return Convert(Ne(x, 0), x.dtype());
  return Unary("stablehlo.sign", x);
}
Value Exp(Value x) { return Unary("stablehlo.exponential", x); }
Value Expm1(Value x) { return Unary("stablehlo.exponential_minus_one", x); }
Value Log(Value x) { return Unary("stablehlo.log", x); }
Value Log1p(Value x) { return Unary("stablehlo.log_plus_one", x); }
Value Sqrt(Value x) { return Unary("stablehlo.sqrt", x); }
Value Rsqrt(Value x) { return Unary("stablehlo.rsqrt", x); }
Value Sin(Value x) { return Unary("stablehlo.sine", x); }
Value Cos(Value x) { return Unary("stablehlo.cosine", x); }
Value Tanh(Value x) { return Unary("stablehlo.tanh", x); }
Value Logistic(Value x) { return Unary("stablehlo.logistic", x); }
Value Floor(Value x) { return Unary("stablehlo.floor", x); }
Value Ceil(Value x) { return Unary("stablehlo.ceil", x); }
Value RoundEven(Value x) { return Unary("stablehlo.round_nearest_even", x); }
Value Erf(Value x) { return Unary("chlo.erf", x); }

Value IsNan(Value x) {
  if (IsFloat(x.dtype()) || IsComplex(x.dtype())) return Ne(x, x);
  return x.builder().Constant(DType::kPred, 0, x.dims());
}

Value IsFinite(Value x) {
  if (IsComplex(x.dtype())) {
    return IsFinite(Unary("stablehlo.real", x)) & IsFinite(Unary("stablehlo.imag", x));
  }
  if (IsFloat(x.dtype())) return Unary("stablehlo.is_finite", x);
  return x.builder().Constant(DType::kPred, 1, x.dims());
}

Value Pow(Value a, Value b) { return Binary("stablehlo.power", a, b); }
Value Rem(Value a, Value b) { return Binary("stablehlo.remainder", a, b); }
// StableHLO's extrema propagate NaN. The CPU plugins need xla_cpu_enable_fast_min_max=false for it.
Value Max(Value a, Value b) { return Binary("stablehlo.maximum", a, b); }
Value Min(Value a, Value b) { return Binary("stablehlo.minimum", a, b); }

Value Select(Value pred, Value on_true, Value on_false) {
  if (!pred) Fail("stablehlo.select", "expected a predicate, got an absent value");
  return pred.builder().Select(pred, on_true, on_false);
}
Value Convert(Value x, DType dtype) {
  if (!x) Fail("stablehlo.convert", "expected a value, got an absent one");
  return x.builder().Convert(x, dtype);
}
Value Reshape(Value x, const Dims& dims) {
  if (!x) Fail("stablehlo.reshape", "expected a value, got an absent one");
  return x.builder().Reshape(x, dims);
}
Value Transpose(Value x, const Dims& permutation) {
  if (!x) Fail("stablehlo.transpose", "expected a value, got an absent one");
  return x.builder().Transpose(x, permutation);
}
Value BroadcastTo(Value x, const Dims& dims) {
  if (!x) Fail("broadcast", "expected a value, got an absent one");
  return x.builder().BroadcastTo(x, dims);
}

Value Like(Value x, double value) {
  const Shape& s = x.shape();
  return x.builder().Constant(s.dtype, value, s.dims);
}
Value ZerosLike(Value x) { return Like(x, 0); }
Value OnesLike(Value x) { return Like(x, 1); }

Value Sum(Value x, const Dims& dims, bool keepdim) {
  x = Convert(x, ComputeType(x.dtype()));
  if (x.dtype() == DType::kPred) {
    Fail("sum", "expected numbers, got ", x.shape().ToString(), ". Try: Convert to i64");
  }
  return ReduceNamed("stablehlo.add", x, Number(x, 0), dims, keepdim);
}

Value MaxReduce(Value x, const Dims& dims, bool keepdim) {
  return ReduceNamed("stablehlo.maximum", x, x.builder().MinValue(x.dtype()), dims, keepdim);
}

Value MinReduce(Value x, const Dims& dims, bool keepdim) {
  return ReduceNamed("stablehlo.minimum", x, x.builder().MaxValue(x.dtype()), dims, keepdim);
}

Value AllReduceAnd(Value pred, const Dims& dims, bool keepdim) {
  if (pred.dtype() != DType::kPred) Fail("all", "expected i1, got ", pred.shape().ToString());
  return ReduceNamed("stablehlo.and", pred, Number(pred, 1), dims, keepdim);
}

Value AnyReduceOr(Value pred, const Dims& dims, bool keepdim) {
  if (pred.dtype() != DType::kPred) Fail("any", "expected i1, got ", pred.shape().ToString());
  return ReduceNamed("stablehlo.or", pred, Number(pred, 0), dims, keepdim);
}

Value Unsqueeze(Value x, const Dims& dims) {
  const auto rank = static_cast<int64_t>(x.rank() + dims.size());
  const Dims positions = Positions("unsqueeze", dims, rank);
  Dims out = x.dims();
  for (int64_t p : positions) out.insert(out.begin() + p, 1);
  return Reshape(x, out);
}

}  // namespace torch_tpu::hlo
