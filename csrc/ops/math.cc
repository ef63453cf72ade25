// SPDX-License-Identifier: Apache-2.0
#include "csrc/ops/math.h"

#include <cmath>
#include <numbers>

namespace torch_tpu::ops {
namespace {

bool IsBool(Value x) { return x.dtype() == DType::kPred; }

// The quotient's remainder is off by one divisor when the signs differ: torch and Python floor.
Value SignsDiffer(Value remainder, Value divisor) {
  return Ne(remainder, 0) & ((remainder < 0) ^ (divisor < 0));
}

}  // namespace

Value Plus(Value a, Value b) { return IsBool(a) ? a | b : a + b; }
Value Times(Value a, Value b) { return IsBool(a) ? a & b : a * b; }
Value Maximum(Value a, Value b) { return IsBool(a) ? a | b : Max(a, b); }
Value Minimum(Value a, Value b) { return IsBool(a) ? a & b : Min(a, b); }

Value Trunc(Value x) {
  if (!hlo::IsFloat(x.dtype())) return x;
  return Select(x < 0, Ceil(x), Floor(x));
}

Value SignOf(Value x) {
  if (IsBool(x)) return x;
  if (hlo::IsComplex(x.dtype())) return Sign(x);
  if (!hlo::IsFloat(x.dtype())) return Convert(x > 0, x.dtype()) - Convert(x < 0, x.dtype());
  return Select(IsNan(x), ZerosLike(x), Sign(x));
}

Value SignBit(Value x) {
  if (!hlo::IsSigned(x.dtype())) return x.builder().Constant(DType::kPred, 0, x.dims());
  if (!hlo::IsFloat(x.dtype())) return x < 0;
  DType bits = DType::kS32;
  if (hlo::ByteSize(x.dtype()) == 1) bits = DType::kS8;
  if (hlo::ByteSize(x.dtype()) == 2) bits = DType::kS16;
  if (hlo::ByteSize(x.dtype()) == 8) bits = DType::kS64;
  return x.builder().BitcastConvert(x, bits) < 0;
}

Value CopySign(Value x, Value sign) {
  Value magnitude = Abs(x);
  return Select(SignBit(sign), -magnitude, magnitude);
}

Value IsInfinite(Value x) {
  if (hlo::IsComplex(x.dtype())) {
    return IsInfinite(x.builder().Unary("stablehlo.real", x)) |
           IsInfinite(x.builder().Unary("stablehlo.imag", x));
  }
  if (!hlo::IsFloat(x.dtype())) return x.builder().Constant(DType::kPred, 0, x.dims());
  return Eq(Abs(x), INFINITY);
}

Value Remainder(Value a, Value b) {
  Value r = Rem(a, b);
  if (!hlo::IsSigned(a.dtype())) return r;
  return Select(SignsDiffer(r, b), r + b, r);
}

Value FloorDivide(Value a, Value b) {
  Value r = Rem(a, b);
  if (!hlo::IsFloat(a.dtype())) {
    Value q = a / b;
    return hlo::IsSigned(a.dtype()) ? Select(SignsDiffer(r, b), q - 1, q) : q;
  }
  // a - r is a multiple of b up to rounding: round the quotient to the nearest integer.
  Value quotient = a / b;
  Value exact = (a - r) / b;
  exact = Select(SignsDiffer(r, b), exact - 1, exact);
  Value floor = Floor(exact);
  floor = Select((exact - floor) > 0.5, floor + 1, floor);
  floor = Select(Eq(exact, 0), CopySign(ZerosLike(floor), quotient), floor);
  return Select(Eq(b, 0), quotient, floor);
}

Value Power(Value a, Value b) {
  if (!hlo::IsComplex(a.dtype())) return Pow(a, b);
  // Zero's logarithm makes NaN of what is 0 to a power with a positive real part.
  Value power = Pow(a, b);
  return Select(Eq(a, 0) & (b.builder().Unary("stablehlo.real", b) > 0), ZerosLike(power), power);
}

Value PowerOf(Value x, double exponent) {
  if (exponent == 0) return OnesLike(x);
  if (exponent == 1) return x;
  if (exponent == 2) return Times(x, x);
  if (exponent == 3) return Times(Times(x, x), x);
  if (hlo::IsFloat(x.dtype())) {
    if (exponent == 0.5) return Sqrt(x);
    if (exponent == -0.5) return Rsqrt(x);
    if (exponent == -1) return 1.0 / x;
    if (exponent == -2) return 1.0 / (x * x);
  }
  return Power(x, Like(x, exponent));
}

Value Lerp(Value start, Value end, Value weight) {
  // From the nearer end, so that weight 1 gives `end` exactly.
  Value difference = end - start;
  Value near_start = start + weight * difference;
  Value near_end = end - difference * (OnesLike(weight) - weight);
  return Select(Abs(weight) < 0.5, near_start, near_end);
}

Value ClampTo(Value x, Value lo, Value hi) {
  if (lo) x = Maximum(x, lo);
  return hi ? Minimum(x, hi) : x;
}

Value Exp2(Value x) {
  if (hlo::IsComplex(x.dtype())) return Exp(x * std::numbers::ln2);
  return Pow(Like(x, 2), x);
}
Value Conj(Value x) {
  if (!hlo::IsComplex(x.dtype())) return x;
  hlo::Builder& b = x.builder();
  return b.Complex(b.Unary("stablehlo.real", x), -b.Unary("stablehlo.imag", x));
}

namespace {

Value LogOver(Value x, double divisor) {
  Value log = Log(x);
  if (!hlo::IsComplex(x.dtype())) return log / divisor;
  hlo::Builder& b = x.builder();  // by parts: complex division makes NaN of infinities
  return b.Complex(b.Unary("stablehlo.real", log) / divisor,
                   b.Unary("stablehlo.imag", log) / divisor);
}

}  // namespace

Value Log2(Value x) { return LogOver(x, std::numbers::ln2); }
Value Log10(Value x) { return LogOver(x, std::numbers::ln10); }

Value Log1pExp(Value x) { return Max(x, ZerosLike(x)) + Log1p(Exp(-Abs(x))); }

}  // namespace torch_tpu::ops
