// SPDX-License-Identifier: Apache-2.0
// Functions of one tensor. Integers arrive already converted when the result is a float.
#include <cmath>
#include <limits>
#include <numbers>

#include "csrc/ops/math.h"
#include "csrc/ops/op.h"

namespace torch_tpu::ops {
namespace {

constexpr double kPi = std::numbers::pi;

Value Chlo(Lowering& x, const char* op) { return x.builder().Unary(op, x.arg("self")); }

// To the result's dtype and back, where torch has no wider intermediate.
Value Rounded(Lowering& x, Value v) { return Convert(Convert(v, x.result().dtype), v.dtype()); }

bool IsFloating(Value v) { return hlo::IsFloat(v.dtype()) || hlo::IsComplex(v.dtype()); }

}  // namespace

// ---- sign and parts ----------------------------------------------------------------------------
OP("aten::abs", {.tolerance = Tolerance::kExact}) {
  Value self = x.tensor("self");
  return hlo::IsSigned(self.dtype()) ? Abs(self) : self;
}
OP("aten::neg", {.tolerance = Tolerance::kExact}) { return -x.arg("self"); }
OP("aten::sign", {.tolerance = Tolerance::kExact}) { return SignOf(x.arg("self")); }
OP("aten::sgn") { return SignOf(x.arg("self")); }
OP("aten::signbit", {.tolerance = Tolerance::kExact}) { return SignBit(x.tensor("self")); }
OP("aten::angle") {
  Value self = x.tensor("self");
  if (hlo::IsComplex(self.dtype())) {
    Value re = x.builder().Unary("stablehlo.real", self);
    Value im = x.builder().Unary("stablehlo.imag", self);
    return x.builder().Binary("stablehlo.atan2", im, re);
  }
  self = x.arg("self");
  return Select(IsNan(self), self, Select(self < 0, Like(self, kPi), ZerosLike(self)));
}
OPS(({"aten::_conj_physical", "aten::conj_physical_", "aten::conj_physical.out"}),
    {.tolerance = Tolerance::kExact}) {
  return Conj(x.tensor("self"));
}

// ---- rounding: integers stay as they are -------------------------------------------------------
OP("aten::ceil", {.tolerance = Tolerance::kExact}) {
  Value self = x.arg("self");
  return IsFloating(self) ? Ceil(self) : self;
}
OP("aten::floor", {.tolerance = Tolerance::kExact}) {
  Value self = x.arg("self");
  return IsFloating(self) ? Floor(self) : self;
}
OP("aten::trunc", {.tolerance = Tolerance::kExact}) { return Trunc(x.arg("self")); }
OP("aten::frac") { return x.arg("self") - Trunc(x.arg("self")); }
OP("aten::round", {.tolerance = Tolerance::kExact}) {
  Value self = x.arg("self");
  return IsFloating(self) ? RoundEven(self) : self;
}
OP("aten::round.decimals") {
  Value self = x.arg("self");
  const int64_t decimals = x.integer("decimals");
  if (!IsFloating(self)) return self;
  if (decimals == 0) return RoundEven(self);
  Value scale = Like(self, std::pow(10.0, std::abs(static_cast<double>(decimals))));
  return decimals < 0 ? RoundEven(self / scale) * scale : RoundEven(self * scale) / scale;
}

// ---- powers, exponentials, logarithms ----------------------------------------------------------
OP("aten::reciprocal") { return 1.0 / x.arg("self"); }
OP("aten::sqrt") { return Sqrt(x.arg("self")); }
OP("aten::rsqrt") { return Rsqrt(x.arg("self")); }
OP("aten::exp") { return Exp(x.arg("self")); }
OP("aten::exp2") { return Exp2(x.arg("self")); }
OP("aten::expm1") { return Expm1(x.arg("self")); }
OP("aten::log") { return Log(x.arg("self")); }
OP("aten::log2") { return Log2(x.arg("self")); }
OP("aten::log10") { return Log10(x.arg("self")); }
OP("aten::log1p") { return Log1p(x.arg("self")); }
OP("aten::sigmoid") { return Logistic(x.arg("self")); }
OP("aten::logit") {
  Value self = x.arg("self");
  if (x.has("eps")) {
    Value low = Rounded(x, x.scalar("eps")), high = Rounded(x, 1.0 - low);
    self = Select(self < low, low, Select(self > high, high, self));
  }
  return Log(self / (1.0 - self));
}
OP("aten::logit_backward") {
  Value grad = x.arg("grad_output"), self = x.arg("self");
  Value inside = grad / (self * (1.0 - self));
  if (!x.has("eps")) return Select((self < 0) | (self > 1), Like(self, NAN), inside);
  Value low = Rounded(x, x.scalar("eps"));
  return Select((self < low) | (self > Rounded(x, 1.0 - low)), ZerosLike(self), inside);
}

// ---- trigonometric and hyperbolic --------------------------------------------------------------
OP("aten::sin") { return Sin(x.arg("self")); }
OP("aten::cos") { return Cos(x.arg("self")); }
OP("aten::tan") { return Chlo(x, "chlo.tan"); }
OP("aten::asin") { return Chlo(x, "chlo.asin"); }
OP("aten::acos") { return Chlo(x, "chlo.acos"); }
OP("aten::atan") { return Chlo(x, "chlo.atan"); }
OP("aten::sinh") { return Chlo(x, "chlo.sinh"); }
OP("aten::cosh") { return Chlo(x, "chlo.cosh"); }
OP("aten::tanh") { return Tanh(x.arg("self")); }
OP("aten::asinh") { return Chlo(x, "chlo.asinh"); }
OP("aten::acosh") { return Chlo(x, "chlo.acosh"); }
OP("aten::atanh") { return Chlo(x, "chlo.atanh"); }
OP("aten::sinc") {
  Value self = x.arg("self");
  Value scaled = self * kPi;
  return Select(Eq(self, 0), OnesLike(self), Sin(scaled) / scaled);
}
OP("aten::deg2rad") { return x.arg("self") * (kPi / 180); }
OP("aten::rad2deg") { return x.arg("self") * (180 / kPi); }

// ---- tests and repairs -------------------------------------------------------------------------
OP("aten::isnan", {.tolerance = Tolerance::kExact}) {
  Value self = x.tensor("self");
  return hlo::IsComplex(self.dtype()) ? Ne(self, self) : IsNan(self);
}
OP("aten::isinf", {.tolerance = Tolerance::kExact}) { return IsInfinite(x.tensor("self")); }
OP("aten::isposinf", {.tolerance = Tolerance::kExact}) {
  Value self = x.tensor("self");
  return IsFloating(self) ? Eq(self, INFINITY) : IsInfinite(self);
}
OP("aten::isneginf", {.tolerance = Tolerance::kExact}) {
  Value self = x.tensor("self");
  return IsFloating(self) ? Eq(self, -INFINITY) : IsInfinite(self);
}
OP("aten::nan_to_num", {.tolerance = Tolerance::kExact}) {
  Value self = x.tensor("self");
  if (!IsFloating(self)) return self;
  hlo::Builder& b = x.builder();
  const DType dtype = hlo::RealOf(self.dtype());
  const bool f64 = dtype == DType::kF64;
  double largest = f64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
  if (dtype == DType::kF16) largest = 65504;
  if (dtype == DType::kBF16) largest = 0x1.fep127;
  Value nan = x.has("nan") ? x.scalar("nan", dtype) : b.Constant(dtype, 0);
  Value high = x.has("posinf") ? x.scalar("posinf", dtype) : b.Constant(dtype, largest);
  Value low = x.has("neginf") ? x.scalar("neginf", dtype) : b.Constant(dtype, -largest);
  auto repaired = [&](Value v) {
    Value finite = Select(Eq(v, INFINITY), high, Select(Eq(v, -INFINITY), low, v));
    return Select(IsNan(v), nan, finite);
  };
  if (!hlo::IsComplex(self.dtype())) return repaired(self);
  return b.Complex(repaired(b.Unary("stablehlo.real", self)),
                   repaired(b.Unary("stablehlo.imag", self)));
}
OP("aten::frexp.Tensor", {.tolerance = Tolerance::kExact}) {
  // Reads the exponent's bits. Subnormals are scaled up first.
  Value self = hlo::Convert(x.tensor("self"), x.compute_type());
  hlo::Builder& b = x.builder();
  const bool f64 = self.dtype() == DType::kF64;
  const DType bits_type = f64 ? DType::kS64 : DType::kS32;
  const int64_t mantissa_bits = f64 ? 52 : 23, bias = f64 ? 1022 : 126, ones = f64 ? 2047 : 255;
  Value small = Abs(self) < (f64 ? 0x1p-1022 : 0x1p-126);
  Value scaled = Select(small, self * (f64 ? 0x1p54 : 0x1p25), self);
  Value bits = b.BitcastConvert(scaled, bits_type);
  auto constant = [&](int64_t value) { return b.ConstantInt(bits_type, value, bits.dims()); };
  Value exponent = b.Binary("stablehlo.shift_right_logical", bits, constant(mantissa_bits));
  exponent = (exponent & constant(ones)) - constant(bias);
  exponent = Select(small, exponent - constant(f64 ? 54 : 25), exponent);
  Value kept = bits & constant(~(ones << mantissa_bits));
  Value mantissa = b.BitcastConvert(kept | constant(bias << mantissa_bits), self.dtype());
  Value whole = Eq(self, 0) | ~IsFinite(self);
  return {Select(whole, self, mantissa), Select(whole, ZerosLike(exponent), exponent)};
}

}  // namespace torch_tpu::ops
