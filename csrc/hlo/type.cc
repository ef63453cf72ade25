// SPDX-License-Identifier: Apache-2.0
#include "csrc/hlo/type.h"

#include <array>

#include "csrc/base/status.h"
#include "csrc/hlo/builder.h"

namespace torch_tpu::hlo {
namespace {

enum Kind : uint8_t { kNone, kBool, kUnsigned, kInt, kFloat, kCplx };

struct Row {
  std::string_view name;
  int8_t bytes;
  Kind kind;
};

// Indexed by DType.
constexpr std::array<Row, 18> kRows = {{
    {"invalid", 0, kNone},
    {"i1", 1, kBool},
    {"ui8", 1, kUnsigned},
    {"i8", 1, kInt},
    {"i16", 2, kInt},
    {"i32", 4, kInt},
    {"i64", 8, kInt},
    {"ui16", 2, kUnsigned},
    {"ui32", 4, kUnsigned},
    {"ui64", 8, kUnsigned},
    {"f16", 2, kFloat},
    {"bf16", 2, kFloat},
    {"f32", 4, kFloat},
    {"f64", 8, kFloat},
    {"complex<f32>", 8, kCplx},
    {"complex<f64>", 16, kCplx},
    {"f8E4M3FN", 1, kFloat},
    {"f8E5M2", 1, kFloat},
}};

const Row& RowOf(DType dtype) { return kRows[static_cast<size_t>(dtype)]; }

[[noreturn]] void NoPromotion(DType a, DType b) {
  throw Error(StrCat("[promote] expected types that torch promotes, got ", Name(a), " and ",
                     Name(b), ". Try: convert one of them explicitly"));
}

}  // namespace

std::string_view Name(DType dtype) { return RowOf(dtype).name; }
int64_t ByteSize(DType dtype) { return RowOf(dtype).bytes; }
bool IsFloat(DType dtype) { return RowOf(dtype).kind == kFloat; }
bool IsComplex(DType dtype) { return RowOf(dtype).kind == kCplx; }
bool IsInteger(DType dtype) { return RowOf(dtype).kind == kInt || RowOf(dtype).kind == kUnsigned; }
bool IsSigned(DType dtype) { return RowOf(dtype).kind >= kInt; }

DType RealOf(DType dtype) {
  if (dtype == DType::kC64) return DType::kF32;
  if (dtype == DType::kC128) return DType::kF64;
  return dtype;
}

DType ComplexOf(DType dtype) {
  return dtype == DType::kF64 || dtype == DType::kC128 ? DType::kC128 : DType::kC64;
}

DType ComputeType(DType dtype) {
  return IsFloat(dtype) && ByteSize(dtype) < 4 ? DType::kF32 : dtype;
}

DType Promote(DType a, DType b) {
  if (a == b) return a;
  const Row &ra = RowOf(a), &rb = RowOf(b);
  if (ra.kind == kNone || rb.kind == kNone) NoPromotion(a, b);
  if (ra.kind == kCplx || rb.kind == kCplx) {
    const bool wide = RealOf(a) == DType::kF64 || RealOf(b) == DType::kF64;
    return wide ? DType::kC128 : DType::kC64;
  }
  if (ra.kind == kFloat || rb.kind == kFloat) {
    // torch refuses to promote float8 with anything but itself, bool included.
    if ((ra.kind == kFloat && ra.bytes == 1) || (rb.kind == kFloat && rb.bytes == 1)) {
      NoPromotion(a, b);
    }
    if (ra.kind != kFloat) return b;
    if (rb.kind != kFloat) return a;
    if (ra.bytes == rb.bytes) return DType::kF32;  // f16 with bf16
    return ra.bytes > rb.bytes ? a : b;
  }
  auto barebones = [](DType t) { return RowOf(t).kind == kUnsigned && t != DType::kU8; };
  if (barebones(a) || barebones(b)) NoPromotion(a, b);
  if (ra.kind == kBool) return b;
  if (rb.kind == kBool) return a;
  if (ra.bytes == rb.bytes) return DType::kS16;  // u8 with s8
  return ra.bytes > rb.bytes ? a : b;
}

int64_t Shape::numel() const {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

std::string Shape::ToString() const {
  std::string out = "tensor<";
  for (int64_t d : dims) {
    out += std::to_string(d);
    out += 'x';
  }
  out += Name(dtype);
  out += '>';
  return out;
}

std::string ToString(const Dims& dims) {
  std::string out = "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i) out += ", ";
    out += std::to_string(dims[i]);
  }
  out += ']';
  return out;
}

}  // namespace torch_tpu::hlo
