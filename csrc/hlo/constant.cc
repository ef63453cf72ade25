// SPDX-License-Identifier: Apache-2.0
// Constants. Literals are canonical: equal values give equal text, and every float is exact.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "csrc/hlo/builder_impl.h"

namespace torch_tpu::hlo {
namespace {

struct FloatFormat {
  int exponent_bits, mantissa_bits;
  bool has_inf;
};

FloatFormat FormatOf(DType dtype) {
  switch (dtype) {
    case DType::kF16: return {5, 10, true};
    case DType::kBF16: return {8, 7, true};
    case DType::kF32: return {8, 23, true};
    case DType::kF8E4M3FN: return {4, 3, false};
    case DType::kF8E5M2: return {5, 2, true};
    default: return {11, 52, true};
  }
}

struct Encoded {
  uint64_t bits;
  double value;  // what the bits mean
};

// Rounds to nearest even. Without infinities, overflow is NaN (as torch's float8_e4m3fn).
Encoded Encode(DType dtype, double x) {
  const FloatFormat f = FormatOf(dtype);
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  const uint64_t all_ones = ((uint64_t{1} << f.exponent_bits) - 1) << f.mantissa_bits;
  const uint64_t sign = static_cast<uint64_t>(std::signbit(x))
                        << (f.exponent_bits + f.mantissa_bits);
  // One canonical NaN, positive and quiet.
  const uint64_t nan_bits = f.has_inf ? all_ones | (uint64_t{1} << (f.mantissa_bits - 1))
                                      : all_ones | ((uint64_t{1} << f.mantissa_bits) - 1);
  const Encoded nan = {nan_bits, std::numeric_limits<double>::quiet_NaN()};
  if (std::isnan(x)) return nan;
  const int max_exponent = f.has_inf ? bias : bias + 1;
  const double max_mantissa = f.has_inf ? 2.0 - std::ldexp(1.0, -f.mantissa_bits)
                                        : 2.0 - std::ldexp(1.0, 1 - f.mantissa_bits);
  const double largest = std::ldexp(max_mantissa, max_exponent);
  const double a = std::fabs(x);
  double rounded = a;
  int exponent = 1 - bias;  // subnormals share the smallest normal exponent
  if (a != 0 && !std::isinf(a)) {
    exponent = std::max(std::ilogb(a), 1 - bias);
    const double ulp_scale = std::ldexp(1.0, f.mantissa_bits - exponent);
    rounded = std::isinf(ulp_scale) ? a : std::nearbyint(a * ulp_scale) / ulp_scale;
  }
  if (rounded > largest) {
    if (!f.has_inf) return nan;
    return {sign | all_ones, std::copysign(std::numeric_limits<double>::infinity(), x)};
  }
  if (rounded == 0) return {sign, std::copysign(0.0, x)};
  exponent = std::max(std::ilogb(rounded), 1 - bias);
  const auto mantissa =
      static_cast<uint64_t>(std::ldexp(rounded, f.mantissa_bits - exponent));  // with hidden bit
  const uint64_t hidden = uint64_t{1} << f.mantissa_bits;
  const uint64_t biased = mantissa >= hidden ? exponent + bias : 0;
  return {sign | (biased << f.mantissa_bits) | (mantissa & (hidden - 1)),
          std::copysign(rounded, x)};
}

Encoded EncodeExact(DType dtype, double x) {
  if (dtype != DType::kF64 || std::isnan(x)) return Encode(dtype, x);
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return {bits, x};
}

// Short decimals when they are exact, the bit pattern otherwise.
std::string FloatLiteral(DType dtype, double x) {
  const Encoded e = EncodeExact(dtype, x);
  char buffer[40];
  if (std::isfinite(e.value)) {
    std::snprintf(buffer, sizeof buffer, "%.6e", e.value);
    double back = 0;
    std::sscanf(buffer, "%lf", &back);
    if (back == e.value) return buffer;
  }
  const int digits = static_cast<int>(ByteSize(dtype)) * 2;
  std::snprintf(buffer, sizeof buffer, "0x%0*llX", digits, static_cast<unsigned long long>(e.bits));
  return buffer;
}

int64_t Bits(DType dtype) { return 8 * ByteSize(dtype); }

std::string IntLiteral(DType dtype, int64_t value) {
  if (dtype == DType::kPred) return value ? "true" : "false";
  const auto raw = static_cast<uint64_t>(value);
  const uint64_t mask = Bits(dtype) == 64 ? ~uint64_t{0} : (uint64_t{1} << Bits(dtype)) - 1;
  const uint64_t low = raw & mask;
  if (!IsSigned(dtype)) return std::to_string(low);
  const uint64_t sign = uint64_t{1} << (Bits(dtype) - 1);
  return std::to_string(static_cast<int64_t>((low ^ sign) - sign));
}

std::string Literal(DType dtype, double value) {
  if (dtype == DType::kPred) return value != 0 ? "true" : "false";
  if (IsFloat(dtype)) return FloatLiteral(dtype, value);
  if (IsComplex(dtype)) {
    return "(" + FloatLiteral(RealOf(dtype), value) + ", " + FloatLiteral(RealOf(dtype), 0) + ")";
  }
  if (!IsInteger(dtype)) Fail("constant", "expected an element type, got none");
  if (std::trunc(value) != value || std::fabs(value) > 9007199254740992.0) {
    Fail("constant", "expected a whole number for ", Name(dtype), ", got ", value,
         ". Try: ConstantInt, or convert the tensor first");
  }
  return IntLiteral(dtype, static_cast<int64_t>(value));
}

}  // namespace

Value Builder::Impl::Constant(const Shape& type, const std::string& literal) {
  const std::string value =
      "dense<" + (type.numel() == 0 ? "" : literal) + "> : " + type.ToString();
  auto& known = regions.back().constants;
  if (auto it = known.find(value); it != known.end()) return Value(self, it->second);
  const Value v = Emit("stablehlo.constant", {}, "value = " + value, type);
  nodes[v.id()].literal = literal;
  known.emplace(value, v.id());
  return v;
}

Value Builder::Constant(DType dtype, double value, const Dims& dims) {
  return impl_->Constant({dtype, dims}, Literal(dtype, value));
}

Value Builder::ConstantInt(DType dtype, int64_t value, const Dims& dims) {
  if (IsInteger(dtype) || dtype == DType::kPred) {
    return impl_->Constant({dtype, dims}, IntLiteral(dtype, value));
  }
  return Constant(dtype, static_cast<double>(value), dims);
}

Value Builder::ConstantArray(DType dtype, const std::vector<int64_t>& values) {
  if (!IsInteger(dtype) && dtype != DType::kPred) {
    Fail("constant", "expected integers or bools, got ", Name(dtype));
  }
  std::string literal;
  if (!values.empty()) {
    literal = "[";
    for (size_t i = 0; i < values.size(); ++i) {
      if (i) literal += ", ";
      literal += IntLiteral(dtype, values[i]);
    }
    literal += "]";
  }
  return impl_->Constant({dtype, {static_cast<int64_t>(values.size())}}, literal);
}

Value Builder::Iota(DType dtype, const Dims& dims, int dim) {
  CheckPositions("stablehlo.iota", "the dim", {dim}, static_cast<int64_t>(dims.size()));
  if (dtype == DType::kPred) Fail("stablehlo.iota", "expected a number type, got i1");
  return impl_->Emit("stablehlo.iota", {}, I64Attr("iota_dimension", dim), {dtype, dims});
}

Value Builder::MinValue(DType dtype, const Dims& dims) {
  if (dtype == DType::kF8E4M3FN) return Constant(dtype, -448, dims);  // has no infinity
  if (IsFloat(dtype)) return Constant(dtype, -std::numeric_limits<double>::infinity(), dims);
  if (IsComplex(dtype)) Fail("constant", "expected an ordered type, got ", Name(dtype));
  if (!IsSigned(dtype)) return ConstantInt(dtype, 0, dims);
  return ConstantInt(dtype, static_cast<int64_t>(uint64_t{1} << (Bits(dtype) - 1)), dims);
}

Value Builder::MaxValue(DType dtype, const Dims& dims) {
  if (dtype == DType::kF8E4M3FN) return Constant(dtype, 448, dims);
  if (IsFloat(dtype)) return Constant(dtype, std::numeric_limits<double>::infinity(), dims);
  if (IsComplex(dtype)) Fail("constant", "expected an ordered type, got ", Name(dtype));
  if (!IsSigned(dtype)) return ConstantInt(dtype, -1, dims);
  return ConstantInt(dtype, static_cast<int64_t>((uint64_t{1} << (Bits(dtype) - 1)) - 1), dims);
}

}  // namespace torch_tpu::hlo
