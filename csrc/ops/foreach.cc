// SPDX-License-Identifier: Apache-2.0
// Ops over lists of tensors: one program for the whole list.
#include <cmath>
#include <numeric>

#include "csrc/ops/math.h"
#include "csrc/ops/op.h"

namespace torch_tpu::ops {
namespace {

DType ComputeTypeOf(Lowering& x, int i) { return hlo::ComputeType(x.result(i).dtype); }

// The operand that goes with each result, in the result's compute type: the tensors of a list in
// the result's sizes; or rank-0 numbers, one for all, a list, or a 1-D tensor's elements.
Values Operands(Lowering& x, ArgRef a) {
  const int n = x.num_results();
  Values out;
  switch (x.kind(a)) {
    case ArgKind::kTensorList: {
      Values tensors = x.tensors(a);
      for (int i = 0; i < n; ++i) {
        Value v = Convert(tensors.at(i), ComputeTypeOf(x, i));
        out.push_back(BroadcastTo(v, x.result(i).dims));
      }
      return out;
    }
    case ArgKind::kTensor: {
      Value v = x.tensor(a);
      for (int i = 0; i < n; ++i) {
        Value one = v.numel() == 1 ? v : x.builder().SliceDim(v, 0, i, i + 1);
        out.push_back(Convert(Reshape(one, {}), ComputeTypeOf(x, i)));
      }
      return out;
    }
    case ArgKind::kScalar:
      for (int i = 0; i < n; ++i) out.push_back(x.scalar(a, ComputeTypeOf(x, i)));
      return out;
    default: {
      DType dtype = DType::kInvalid;
      Values numbers;
      for (int i = 0; i < n; ++i) {
        if (ComputeTypeOf(x, i) != dtype) numbers = x.scalars(a, dtype = ComputeTypeOf(x, i));
        out.push_back(numbers.at(i));
      }
      return out;
    }
  }
}

template <typename F>
Values Map(Lowering& x, F f) {
  Values out;
  for (const Value& v : Operands(x, "self")) out.push_back(f(v));
  return out;
}

// f(self, other); `other` is the argument at position 1 whatever its name.
template <typename F>
Values Map2(Lowering& x, F f) {
  Values self = Operands(x, 0), other = Operands(x, 1), out;
  for (size_t i = 0; i < self.size(); ++i) out.push_back(f(self[i], other[i]));
  return out;
}

template <typename F>
Values MapScaled(Lowering& x, F f) {
  Values self = Operands(x, 0), other = Operands(x, 1), out;
  const bool scaled = x.takes("alpha");
  Values alpha = scaled ? Operands(x, "alpha") : other;
  for (size_t i = 0; i < self.size(); ++i) {
    out.push_back(f(self[i], scaled ? Times(alpha[i], other[i]) : other[i]));
  }
  return out;
}

// f(self, tensor1, tensor2, value); `value` is the argument at position 3.
template <typename F>
Values Map4(Lowering& x, F f) {
  Values self = Operands(x, 0), a = Operands(x, 1), b = Operands(x, 2), value = Operands(x, 3), out;
  for (size_t i = 0; i < self.size(); ++i) out.push_back(f(self[i], a[i], b[i], value[i]));
  return out;
}

// Integers need no rounding.
template <typename F>
Values MapFloats(Lowering& x, F f) {
  return Map(
      x, [&](Value v) { return hlo::IsFloat(v.dtype()) || hlo::IsComplex(v.dtype()) ? f(v) : v; });
}

Values MapNamed(Lowering& x, const char* op) {
  return Map(x, [&](Value v) { return x.builder().Unary(op, v); });
}

Dims AllDims(Value v) {
  Dims dims(v.rank());
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

}  // namespace

// ---- arithmetic --------------------------------------------------------------------------------
OPS(({"aten::_foreach_add.Scalar", "aten::_foreach_add.List", "aten::_foreach_add.ScalarList",
      "aten::_foreach_add.Tensor"})) {
  return MapScaled(x, Plus);
}
OPS(({"aten::_foreach_sub.Scalar", "aten::_foreach_sub.List", "aten::_foreach_sub.ScalarList"})) {
  return MapScaled(x, [](Value a, Value b) { return a - b; });
}
OPS(({"aten::_foreach_mul.Scalar", "aten::_foreach_mul.List", "aten::_foreach_mul.ScalarList",
      "aten::_foreach_mul.Tensor"})) {
  return Map2(x, Times);
}
OPS(({"aten::_foreach_div.Scalar", "aten::_foreach_div.List", "aten::_foreach_div.ScalarList",
      "aten::_foreach_div.Tensor"})) {
  return Map2(x, [](Value a, Value b) { return a / b; });
}
OPS(({"aten::_foreach_addcmul.Scalar", "aten::_foreach_addcmul.ScalarList",
      "aten::_foreach_addcmul.Tensor"})) {
  return Map4(x, [](Value self, Value a, Value b, Value value) { return self + value * a * b; });
}
OPS(({"aten::_foreach_addcdiv.Scalar", "aten::_foreach_addcdiv.ScalarList",
      "aten::_foreach_addcdiv.Tensor"})) {
  return Map4(x, [](Value self, Value a, Value b, Value value) { return self + value * a / b; });
}
OPS(({"aten::_foreach_lerp.Scalar", "aten::_foreach_lerp.List",
      "aten::_foreach_lerp.ScalarList"})) {
  Values self = Operands(x, 0), end = Operands(x, 1), weight = Operands(x, 2), out;
  for (size_t i = 0; i < self.size(); ++i) out.push_back(Lerp(self[i], end[i], weight[i]));
  return out;
}
OPS(({"aten::_foreach_maximum.Scalar", "aten::_foreach_maximum.List",
      "aten::_foreach_maximum.ScalarList", "aten::_foreach_clamp_min.Scalar",
      "aten::_foreach_clamp_min.List", "aten::_foreach_clamp_min.ScalarList"})) {
  return Map2(x, Maximum);
}
OPS(({"aten::_foreach_minimum.Scalar", "aten::_foreach_minimum.List",
      "aten::_foreach_minimum.ScalarList", "aten::_foreach_clamp_max.Scalar",
      "aten::_foreach_clamp_max.List", "aten::_foreach_clamp_max.ScalarList"})) {
  return Map2(x, Minimum);
}
OPS(({"aten::_foreach_pow.List", "aten::_foreach_pow.ScalarList"})) { return Map2(x, Power); }
OP("aten::_foreach_pow.Scalar", {.constants = {"exponent"}}) {
  return Map(x, [&](Value v) { return PowerOf(v, x.number("exponent")); });
}
OP("aten::_foreach_pow.ScalarAndTensor") {
  Values out;
  for (const Value& exponent : Operands(x, "exponent")) {
    out.push_back(
        Power(BroadcastTo(x.scalar("self", exponent.dtype()), exponent.dims()), exponent));
  }
  return out;
}

// ---- functions of one tensor -------------------------------------------------------------------
OP("aten::_foreach_abs") {
  Values out = x.tensors("self");  // complex to real: not through the result's type
  for (Value& v : out) v = hlo::IsSigned(v.dtype()) ? Abs(v) : v;
  return out;
}
OP("aten::_foreach_neg") {
  return Map(x, [](Value v) { return -v; });
}
OP("aten::_foreach_sign") { return Map(x, SignOf); }
OP("aten::_foreach_reciprocal") {
  return Map(x, [](Value v) { return 1.0 / v; });
}
OP("aten::_foreach_sqrt") { return Map(x, hlo::Sqrt); }
OP("aten::_foreach_rsqrt") { return Map(x, hlo::Rsqrt); }
OP("aten::_foreach_exp") { return Map(x, hlo::Exp); }
OP("aten::_foreach_expm1") { return Map(x, hlo::Expm1); }
OP("aten::_foreach_log") { return Map(x, hlo::Log); }
OP("aten::_foreach_log1p") { return Map(x, hlo::Log1p); }
OP("aten::_foreach_log2") { return Map(x, Log2); }
OP("aten::_foreach_log10") { return Map(x, Log10); }
OP("aten::_foreach_sigmoid") { return Map(x, hlo::Logistic); }
OP("aten::_foreach_tanh") { return Map(x, hlo::Tanh); }
OP("aten::_foreach_sin") { return Map(x, hlo::Sin); }
OP("aten::_foreach_cos") { return Map(x, hlo::Cos); }
OP("aten::_foreach_tan") { return MapNamed(x, "chlo.tan"); }
OP("aten::_foreach_asin") { return MapNamed(x, "chlo.asin"); }
OP("aten::_foreach_acos") { return MapNamed(x, "chlo.acos"); }
OP("aten::_foreach_atan") { return MapNamed(x, "chlo.atan"); }
OP("aten::_foreach_sinh") { return MapNamed(x, "chlo.sinh"); }
OP("aten::_foreach_cosh") { return MapNamed(x, "chlo.cosh"); }
OP("aten::_foreach_erf") { return Map(x, hlo::Erf); }
OP("aten::_foreach_erfc") { return Map(x, Erfc); }
OP("aten::_foreach_lgamma") { return Map(x, Lgamma); }
OP("aten::_foreach_ceil") { return MapFloats(x, hlo::Ceil); }
OP("aten::_foreach_floor") { return MapFloats(x, hlo::Floor); }
OP("aten::_foreach_round") { return MapFloats(x, hlo::RoundEven); }
OP("aten::_foreach_trunc") { return Map(x, Trunc); }
OP("aten::_foreach_frac") {
  return Map(x, [](Value v) { return v - Trunc(v); });
}
OP("aten::_foreach_zero") {
  return Map(x, [](Value v) { return ZerosLike(v); });
}
OPS(({"aten::_foreach_clone"})) {
  return Map(x, [](Value v) { return v; });
}
OP("aten::_foreach_copy") { return Operands(x, "src"); }

// ---- reductions, each tensor to one number -----------------------------------------------------
namespace {

// sum |v|^order, or with order infinite the extreme of |v|.
Value PowerSum(Value v, double order) {
  const Dims dims = AllDims(v);
  Value size = Abs(v);
  if (order == INFINITY) return MaxReduce(size, dims);
  if (order == -INFINITY) return MinReduce(size, dims);
  if (order == 0) return Sum(Convert(Ne(size, 0), size.dtype()), dims);
  return Sum(PowerOf(size, order), dims);
}

Values PowerSums(Lowering& x) {
  Values tensors = x.tensors("self"), out;
  for (int i = 0; i < x.num_results(); ++i) {
    DType dtype = ComputeTypeOf(x, i);
    if (hlo::IsComplex(tensors[i].dtype())) dtype = hlo::ComplexOf(dtype);
    out.push_back(PowerSum(Convert(tensors[i], dtype), x.number("ord")));
  }
  return out;
}

}  // namespace

OP("aten::_foreach_powsum.Scalar", {.constants = {"ord"}, .tolerance = Tolerance::kAccumulate}) {
  return PowerSums(x);
}
OP("aten::_foreach_norm.Scalar", {.constants = {"ord"}, .tolerance = Tolerance::kAccumulate}) {
  const double order = x.number("ord");
  Values out = PowerSums(x);
  if (std::isinf(order) || order == 0) return out;
  for (Value& v : out) v = PowerOf(v, 1 / order);
  return out;
}
OP("aten::_foreach_max", {.tolerance = Tolerance::kExact}) {
  Values out;
  for (const Value& v : x.tensors("self")) out.push_back(MaxReduce(v, AllDims(v)));
  return out;
}

}  // namespace torch_tpu::ops
