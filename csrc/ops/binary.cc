// SPDX-License-Identifier: Apache-2.0
// Arithmetic of two tensors, and the three-operand forms.
#include <cmath>
#include <numbers>

#include "csrc/ops/math.h"
#include "csrc/ops/op.h"

namespace torch_tpu::ops {

// ---- add, subtract, multiply, divide -----------------------------------------------------------
OPS(({"aten::add.Tensor", "aten::add.Scalar"})) {
  return Plus(x.arg("self"), Times(x.scalar("alpha"), x.arg("other")));
}
OPS(({"aten::sub.Tensor", "aten::sub.Scalar"})) {
  return x.arg("self") - x.scalar("alpha") * x.arg("other");
}
OPS(({"aten::rsub.Tensor", "aten::rsub.Scalar"})) {
  return x.arg("other") - x.scalar("alpha") * x.arg("self");
}
OPS(({"aten::mul.Tensor", "aten::mul.Scalar"})) { return Times(x.arg("self"), x.arg("other")); }
OPS(({"aten::div.Tensor", "aten::div.Scalar"})) { return x.arg("self") / x.arg("other"); }
OPS(({"aten::div.Tensor_mode", "aten::div.Scalar_mode"})) {
  const auto mode = x.string("rounding_mode");
  if (mode == "floor") return FloorDivide(x.arg("self"), x.arg("other"));
  Value quotient = x.arg("self") / x.arg("other");
  // torch rounds to the dtype before it truncates.
  return mode == "trunc" ? Trunc(Convert(quotient, x.result().dtype)) : quotient;
}
OPS(({"aten::floor_divide", "aten::floor_divide.Scalar", "aten::floor_divide_.Tensor"})) {
  return FloorDivide(x.arg("self"), x.arg("other"));
}
OPS(({"aten::remainder.Tensor", "aten::remainder.Scalar", "aten::remainder.Scalar_Tensor"})) {
  return Remainder(x.arg("self"), x.arg("other"));
}
OPS(({"aten::fmod.Tensor", "aten::fmod.Scalar"})) { return Rem(x.arg("self"), x.arg("other")); }
OP("aten::addcmul") {
  return x.arg("self") + x.scalar("value") * x.arg("tensor1") * x.arg("tensor2");
}
OP("aten::addcdiv") {
  return x.arg("self") + x.scalar("value") * x.arg("tensor1") / x.arg("tensor2");
}
OPS(({"aten::lerp.Scalar", "aten::lerp.Tensor"})) {
  return Lerp(x.arg("self"), x.arg("end"), x.arg("weight"));
}

// ---- powers and logarithms ---------------------------------------------------------------------
OPS(({"aten::pow.Tensor_Tensor", "aten::pow.Scalar", "aten::pow_.Tensor"})) {
  return Power(x.arg("self"), x.arg("exponent"));
}
// The exponent decides the lowering: a square is a product, not a call of pow.
OPS(({"aten::pow.Tensor_Scalar", "aten::pow_.Scalar"}), {.constants = {"exponent"}}) {
  return PowerOf(x.arg("self"), x.number("exponent"));
}
OP("aten::hypot") {
  Value a = Abs(x.arg("self")), b = Abs(x.arg("other"));
  Value big = Max(a, b), small = Min(a, b);
  Value ratio = Select(Eq(big, 0), ZerosLike(big), small / big);
  Value length = big * Sqrt(1.0 + ratio * ratio);
  return Select(Eq(a, INFINITY) | Eq(b, INFINITY), Like(big, INFINITY), length);
}
OP("aten::logaddexp", {.limitation = "complex tensors"}) {
  Value a = x.arg("self"), b = x.arg("other");
  if (hlo::IsComplex(a.dtype())) x.Unsupported("logaddexp of complex tensors");
  Value sum = Max(a, b) + Log1p(Exp(-Abs(a - b)));
  return Select(IsInfinite(a) & Eq(a, b), a, sum);
}
OP("aten::logaddexp2") {
  Value a = x.arg("self"), b = x.arg("other");
  Value sum = Max(a, b) + Log1p(Exp2(-Abs(a - b))) / std::numbers::ln2;
  return Select(IsInfinite(a) & Eq(a, b), a, sum);
}
OPS(({"aten::xlogy.Tensor", "aten::xlogy.Scalar_Self", "aten::xlogy.Scalar_Other"})) {
  Value a = x.arg("self"), b = x.arg("other");
  return Select(IsNan(b), b, Select(Eq(a, 0), ZerosLike(a), a * Log(b)));
}
OPS(({"aten::special_xlog1py", "aten::special_xlog1py.self_scalar",
      "aten::special_xlog1py.other_scalar"})) {
  Value a = x.arg("self"), b = x.arg("other");
  return Select(IsNan(b), b, Select(Eq(a, 0), ZerosLike(a), a * Log1p(b)));
}

// ---- extremes and bounds -----------------------------------------------------------------------
OP("aten::maximum", {.tolerance = Tolerance::kExact}) {
  return Maximum(x.arg("self"), x.arg("other"));
}
OP("aten::minimum", {.tolerance = Tolerance::kExact}) {
  return Minimum(x.arg("self"), x.arg("other"));
}
OP("aten::fmax", {.tolerance = Tolerance::kExact}) {
  Value a = x.arg("self"), b = x.arg("other");
  return Select(IsNan(a), b, Select(IsNan(b), a, Maximum(a, b)));
}
OP("aten::fmin", {.tolerance = Tolerance::kExact}) {
  Value a = x.arg("self"), b = x.arg("other");
  return Select(IsNan(a), b, Select(IsNan(b), a, Minimum(a, b)));
}
OPS(({"aten::clamp", "aten::clamp.Tensor"}), {.tolerance = Tolerance::kExact}) {
  return ClampTo(x.arg("self"), x.has("min") ? x.arg("min") : Value(),
                 x.has("max") ? x.arg("max") : Value());
}
OPS(({"aten::clamp_min", "aten::clamp_min.Tensor"}), {.tolerance = Tolerance::kExact}) {
  return ClampTo(x.arg("self"), x.arg("min"), Value());
}
OPS(({"aten::clamp_max", "aten::clamp_max.Tensor"}), {.tolerance = Tolerance::kExact}) {
  return ClampTo(x.arg("self"), Value(), x.arg("max"));
}

// ---- signs, angles, neighbours -----------------------------------------------------------------
OPS(({"aten::copysign.Tensor", "aten::copysign.Scalar"}), {.tolerance = Tolerance::kExact}) {
  return CopySign(x.arg("self"), x.arg("other"));
}
OP("aten::atan2") { return x.builder().Binary("stablehlo.atan2", x.arg("self"), x.arg("other")); }
OP("aten::heaviside", {.tolerance = Tolerance::kExact}) {
  Value self = x.arg("self");
  return Select(Eq(self, 0), x.arg("values"), Convert(self > 0, self.dtype()));
}
OP("aten::nextafter", {.tolerance = Tolerance::kExact}) {
  // One step in the bits of the tensor's own dtype: away from zero adds one.
  const DType dtype = x.result().dtype;
  Value from = Convert(x.arg("self"), dtype), to = Convert(x.arg("other"), dtype);
  DType bits_type = DType::kS16;
  if (dtype == DType::kF32) bits_type = DType::kS32;
  if (dtype == DType::kF64) bits_type = DType::kS64;
  hlo::Builder& b = x.builder();
  Value bits = b.BitcastConvert(from, bits_type);
  Value one = OnesLike(bits);
  Value away = Eq(from > 0, from < to);
  Value stepped = b.BitcastConvert(Select(away, bits + one, bits - one), dtype);
  Value smallest = CopySign(b.BitcastConvert(one, dtype), to);
  stepped = Select(Eq(from, 0), smallest, stepped);
  stepped = Select(Eq(from, to), to, stepped);
  return Select(IsNan(from) | IsNan(to), from + to, stepped);
}

// ---- integers ----------------------------------------------------------------------------------
namespace {

// Euclid, all elements until the last one is done.
Value Gcd(Value a, Value b) {
  if (hlo::IsSigned(a.dtype())) a = Abs(a), b = Abs(b);
  if (a.numel() == 0) return a;
  Dims all(a.rank());
  for (int i = 0; i < a.rank(); ++i) all[i] = i;
  Values last = a.builder().While(
      {a, b}, [&](const Values& v) { return Values{AnyReduceOr(Ne(v[1], 0), all)}; },
      [](const Values& v) {
        Value done = Eq(v[1], 0);
        Value divisor = Select(done, OnesLike(v[1]), v[1]);
        return Values{Select(done, v[0], v[1]), Select(done, v[1], Rem(v[0], divisor))};
      });
  return last[0];
}

}  // namespace

OP("aten::gcd", {.tolerance = Tolerance::kExact}) { return Gcd(x.arg("self"), x.arg("other")); }
OP("aten::lcm", {.tolerance = Tolerance::kExact}) {
  Value a = x.arg("self"), b = x.arg("other");
  Value gcd = Gcd(a, b);
  Value product = a / Select(Eq(gcd, 0), OnesLike(gcd), gcd) * b;
  return hlo::IsSigned(product.dtype()) ? Abs(product) : product;
}

}  // namespace torch_tpu::ops
