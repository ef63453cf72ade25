// SPDX-License-Identifier: Apache-2.0
// Elementwise ops: which types each mnemonic takes, and the conversions.
#include <algorithm>
#include <iterator>

#include "csrc/hlo/builder_impl.h"

namespace torch_tpu::hlo {
namespace {

enum Category : uint8_t { kBool = 1, kUInt = 2, kSInt = 4, kFloat = 8, kCplx = 16 };
constexpr uint8_t kInts = kUInt | kSInt, kReals = kInts | kFloat, kNumbers = kReals | kCplx;
constexpr uint8_t kBits = kBool | kInts, kAny = kNumbers | kBool, kInexact = kFloat | kCplx;

enum class ResultRule : uint8_t { kSame, kPred, kReal };

struct Rule {
  std::string_view op;
  uint8_t takes;
  ResultRule gives = ResultRule::kSame;
};

constexpr Rule kUnary[] = {
    {"stablehlo.abs", kSInt | kInexact, ResultRule::kReal},
    {"stablehlo.cbrt", kFloat},
    {"stablehlo.ceil", kFloat},
    {"stablehlo.cosine", kInexact},
    {"stablehlo.count_leading_zeros", kInts},
    {"stablehlo.exponential", kInexact},
    {"stablehlo.exponential_minus_one", kInexact},
    {"stablehlo.floor", kFloat},
    {"stablehlo.imag", kInexact, ResultRule::kReal},
    {"stablehlo.is_finite", kFloat, ResultRule::kPred},
    {"stablehlo.log", kInexact},
    {"stablehlo.log_plus_one", kInexact},
    {"stablehlo.logistic", kInexact},
    {"stablehlo.negate", kNumbers},
    {"stablehlo.not", kBits},
    {"stablehlo.popcnt", kInts},
    {"stablehlo.real", kInexact, ResultRule::kReal},
    {"stablehlo.round_nearest_afz", kFloat},
    {"stablehlo.round_nearest_even", kFloat},
    {"stablehlo.rsqrt", kInexact},
    {"stablehlo.sign", kSInt | kInexact},
    {"stablehlo.sine", kInexact},
    {"stablehlo.sqrt", kInexact},
    {"stablehlo.tan", kInexact},
    {"stablehlo.tanh", kInexact},
    {"chlo.acos", kInexact},
    {"chlo.acosh", kInexact},
    {"chlo.asin", kInexact},
    {"chlo.asinh", kInexact},
    {"chlo.atan", kInexact},
    {"chlo.atanh", kInexact},
    {"chlo.bessel_i1e", kFloat},
    {"chlo.conj", kCplx},
    {"chlo.cosh", kInexact},
    {"chlo.digamma", kFloat},
    {"chlo.erf", kFloat},
    {"chlo.erf_inv", kFloat},
    {"chlo.erfc", kFloat},
    {"chlo.is_inf", kFloat, ResultRule::kPred},
    {"chlo.is_neg_inf", kFloat, ResultRule::kPred},
    {"chlo.is_pos_inf", kFloat, ResultRule::kPred},
    {"chlo.lgamma", kFloat},
    {"chlo.sinh", kInexact},
    {"chlo.tan", kInexact},
};

constexpr Rule kBinary[] = {
    {"stablehlo.add", kAny},
    {"stablehlo.and", kBits},
    {"stablehlo.atan2", kInexact},
    {"stablehlo.divide", kNumbers},
    {"stablehlo.maximum", kAny},
    {"stablehlo.minimum", kAny},
    {"stablehlo.multiply", kAny},
    {"stablehlo.or", kBits},
    {"stablehlo.power", kNumbers},
    {"stablehlo.remainder", kReals},
    {"stablehlo.shift_left", kInts},
    {"stablehlo.shift_right_arithmetic", kInts},
    {"stablehlo.shift_right_logical", kInts},
    {"stablehlo.subtract", kNumbers},
    {"stablehlo.xor", kBits},
    {"chlo.next_after", kFloat},
    {"chlo.polygamma", kFloat},
    {"chlo.zeta", kFloat},
};

uint8_t CategoryOf(DType dtype) {
  if (dtype == DType::kPred) return kBool;
  if (IsFloat(dtype)) return kFloat;
  if (IsComplex(dtype)) return kCplx;
  return IsSigned(dtype) ? kSInt : kUInt;
}

std::string CategoryNames(uint8_t takes) {
  std::string out;
  auto add = [&](Category c, const char* name) {
    if (takes & c) out += (out.empty() ? "" : ", ") + std::string(name);
  };
  add(kBool, "i1");
  add(kUInt, "unsigned");
  add(kSInt, "signed");
  add(kFloat, "float");
  add(kCplx, "complex");
  return out;
}

template <size_t n>
const Rule& FindRule(const Rule (&rules)[n], std::string_view op, DType dtype, const char* arity) {
  const auto* it =
      std::find_if(std::begin(rules), std::end(rules), [&](const Rule& r) { return r.op == op; });
  if (it == std::end(rules)) Fail(op, "expected the name of a ", arity, " StableHLO or CHLO op");
  if (!(it->takes & CategoryOf(dtype))) {
    Fail(op, "expected element types ", CategoryNames(it->takes), ", got ", Name(dtype),
         ". Try: convert first");
  }
  return *it;
}

// Broadcasts a rank-0 side to the other's dims.
void Match(std::string_view op, Value& a, Value& b) {
  if (a.dims() == b.dims()) return;
  if (a.rank() == 0) {
    a = a.builder().BroadcastInDim(a, b.dims(), {});
  } else if (b.rank() == 0) {
    b = b.builder().BroadcastInDim(b, a.dims(), {});
  } else {
    Fail(op, "expected equal shapes, got ", a.shape().ToString(), " and ", b.shape().ToString(),
         ". Try: BroadcastTo");
  }
}

void CheckSameType(std::string_view op, const Value& a, const Value& b) {
  if (a.dtype() != b.dtype()) {
    Fail(op, "expected equal element types, got ", a.shape().ToString(), " and ",
         b.shape().ToString(), ". Try: Convert one side");
  }
}

void CheckPred(std::string_view op, const Value& pred) {
  if (pred.dtype() != DType::kPred) {
    Fail(op, "expected an i1 predicate, got ", pred.shape().ToString(), ". Try: Ne(x, 0)");
  }
}

}  // namespace

std::string_view DirectionName(Direction direction) {
  constexpr std::string_view kNames[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
  return kNames[static_cast<int>(direction)];
}

Value Builder::Unary(std::string_view op, Value x) {
  Shape out = impl_->shape(op, x);
  const Rule& rule = FindRule(kUnary, op, out.dtype, "unary");
  if (rule.gives == ResultRule::kPred) out.dtype = DType::kPred;
  if (rule.gives == ResultRule::kReal) out.dtype = RealOf(out.dtype);
  return impl_->Emit(op, {x}, "", out);
}

Value Builder::Binary(std::string_view op, Value a, Value b) {
  impl_->shape(op, a), impl_->shape(op, b);
  CheckSameType(op, a, b);
  FindRule(kBinary, op, a.dtype(), "binary");
  Match(op, a, b);
  return impl_->Emit(op, {a, b}, "", a.shape());
}

Value Builder::Compare(Value a, Value b, Direction direction) {
  constexpr std::string_view op = "stablehlo.compare";
  impl_->shape(op, a), impl_->shape(op, b);
  CheckSameType(op, a, b);
  if (IsComplex(a.dtype()) && direction != Direction::kEq && direction != Direction::kNe) {
    Fail(op, "expected EQ or NE for complex numbers, got ", DirectionName(direction));
  }
  Match(op, a, b);
  return impl_->Emit(
      op, {a, b},
      "comparison_direction = " + EnumAttr("comparison_direction", DirectionName(direction)),
      {DType::kPred, a.dims()});
}

Value Builder::Select(Value pred, Value on_true, Value on_false) {
  constexpr std::string_view op = "stablehlo.select";
  impl_->shape(op, pred), impl_->shape(op, on_true), impl_->shape(op, on_false);
  CheckPred(op, pred);
  CheckSameType(op, on_true, on_false);
  Match(op, on_true, on_false);
  if (pred.rank() != 0 && on_true.rank() == 0) {
    on_true = BroadcastInDim(on_true, pred.dims(), {});
    on_false = BroadcastInDim(on_false, pred.dims(), {});
  }
  if (pred.rank() != 0 && pred.dims() != on_true.dims()) {
    Fail(op, "expected the predicate's dims to be those of the branches, got ",
         pred.shape().ToString(), " and ", on_true.shape().ToString(), ". Try: BroadcastTo");
  }
  return impl_->Emit(op, {pred, on_true, on_false}, "", on_true.shape());
}

Value Builder::Clamp(Value lo, Value x, Value hi) {
  constexpr std::string_view op = "stablehlo.clamp";
  impl_->shape(op, lo), impl_->shape(op, x), impl_->shape(op, hi);
  CheckSameType(op, lo, x);
  CheckSameType(op, hi, x);
  if (IsComplex(x.dtype())) Fail(op, "expected ordered numbers, got ", Name(x.dtype()));
  for (Value bound : {lo, hi}) {
    if (bound.rank() != 0 && bound.dims() != x.dims()) {
      Fail(op, "expected bounds of rank 0 or of the operand's dims, got ", bound.shape().ToString(),
           " for ", x.shape().ToString(), ". Try: BroadcastTo");
    }
  }
  if (x.rank() != 0 && (lo.rank() == 0) != (hi.rank() == 0)) {
    if (lo.rank() == 0) lo = BroadcastInDim(lo, x.dims(), {});
    if (hi.rank() == 0) hi = BroadcastInDim(hi, x.dims(), {});
  }
  return impl_->Emit(op, {lo, x, hi}, "", x.shape());
}

Value Builder::Convert(Value x, DType dtype) {
  constexpr std::string_view op = "stablehlo.convert";
  const DType from = impl_->shape(op, x).dtype;
  if (dtype == DType::kInvalid) Fail(op, "expected an element type, got none");
  if (from == dtype) return x;
  if (dtype == DType::kPred) {
    return Compare(x, ConstantInt(from, 0), Direction::kNe);
  }
  if (IsComplex(from) && !IsComplex(dtype)) return Convert(Unary("stablehlo.real", x), dtype);
  if (IsComplex(dtype) && !IsComplex(from)) {
    const Value re = Convert(x, RealOf(dtype));
    return Complex(re, Constant(RealOf(dtype), 0));
  }
  if (IsFloat(from) && ByteSize(from) == 1 && dtype != DType::kF32) {
    return Convert(Convert(x, DType::kF32), dtype);  // plugins know float8 to f32 best
  }
  // Narrow and unsigned integers wrap, as in torch; StableHLO leaves them open and XLA saturates.
  if (IsFloat(from) && IsInteger(dtype) && (ByteSize(dtype) < 4 || dtype == DType::kU32)) {
    const DType wide = ByteSize(dtype) < 4 ? DType::kS32 : DType::kS64;
    return Convert(Convert(x, wide), dtype);
  }
  return impl_->Emit(op, {x}, "", {dtype, x.dims()});
}

Value Builder::BitcastConvert(Value x, DType dtype) {
  constexpr std::string_view op = "stablehlo.bitcast_convert";
  const Shape& in = impl_->shape(op, x);
  if (in.dtype == dtype) return x;
  if (dtype == DType::kInvalid || IsComplex(dtype) || IsComplex(in.dtype)) {
    Fail(op, "expected real types, got ", in.ToString(), " to ", Name(dtype),
         ". Try: the real and imaginary parts");
  }
  // To StableHLO an i1 is one bit; in memory it is the byte 0 or 1.
  if (in.dtype == DType::kPred) return BitcastConvert(Convert(x, DType::kU8), dtype);
  if (dtype == DType::kPred) return Convert(BitcastConvert(x, DType::kU8), DType::kPred);
  Dims dims = in.dims;
  const int64_t from = ByteSize(in.dtype), to = ByteSize(dtype);
  if (from > to) dims.push_back(from / to);
  if (from < to) {
    if (dims.empty() || dims.back() != to / from) {
      Fail(op, "expected a last dim of ", to / from, " to join into ", Name(dtype), ", got ",
           in.ToString());
    }
    dims.pop_back();
  }
  return impl_->Emit(op, {x}, "", {dtype, dims});
}

Value Builder::ReducePrecision(Value x, int exponent_bits, int mantissa_bits) {
  constexpr std::string_view op = "stablehlo.reduce_precision";
  const Shape& in = impl_->shape(op, x);
  if (!IsFloat(in.dtype)) Fail(op, "expected a float type, got ", in.ToString());
  if (exponent_bits < 1 || mantissa_bits < 0) {
    Fail(op, "expected at least 1 exponent bit and 0 mantissa bits, got ", exponent_bits, " and ",
         mantissa_bits);
  }
  return impl_->Emit(op, {x},
                     StrCat("exponent_bits = ", exponent_bits,
                            " : i32, mantissa_bits = ", mantissa_bits, " : i32"),
                     in);
}

Value Builder::Complex(Value re, Value im) {
  constexpr std::string_view op = "stablehlo.complex";
  impl_->shape(op, re), impl_->shape(op, im);
  CheckSameType(op, re, im);
  if (re.dtype() != DType::kF32 && re.dtype() != DType::kF64) {
    Fail(op, "expected f32 or f64 parts, got ", re.shape().ToString(), ". Try: Convert to f32");
  }
  Match(op, re, im);
  return impl_->Emit(op, {re, im}, "", {ComplexOf(re.dtype()), re.dims()});
}

}  // namespace torch_tpu::hlo
