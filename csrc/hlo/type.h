// SPDX-License-Identifier: Apache-2.0
// Element types and shapes, as StableHLO has them. Knows neither PyTorch nor PJRT.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace torch_tpu::hlo {

// In the order of torch's ScalarType where there is a twin, so the eager shim can map by table.
// Never persist the number: persist Name().
enum class DType : uint8_t {
  kInvalid,
  kPred,
  kU8,
  kS8,
  kS16,
  kS32,
  kS64,
  kU16,
  kU32,
  kU64,
  kF16,
  kBF16,
  kF32,
  kF64,
  kC64,
  kC128,
  kF8E4M3FN,
  kF8E5M2,
};

std::string_view Name(
    DType dtype);               // StableHLO spelling: "i1", "ui8", "i64", "bf16", "complex<f32>"
int64_t ByteSize(DType dtype);  // bytes of one element; i1 is one byte, as in torch
bool IsFloat(DType dtype);      // f8, f16, bf16, f32, f64
bool IsComplex(DType dtype);
bool IsInteger(DType dtype);   // signed and unsigned, not i1
bool IsSigned(DType dtype);    // signed integers, floats, complex
DType RealOf(DType dtype);     // c64 -> f32, c128 -> f64, else itself
DType ComplexOf(DType dtype);  // f64/c128 -> c128, else c64
// The type torch computes in ("opmath"): f16, bf16 and f8 -> f32, else itself.
DType ComputeType(DType dtype);
// torch.result_type of two tensors of equal category (no wrapped numbers).
DType Promote(DType a, DType b);

using Dims = std::vector<int64_t>;

struct Shape {
  DType dtype = DType::kInvalid;
  Dims dims;

  int rank() const { return static_cast<int>(dims.size()); }
  int64_t numel() const;
  int64_t bytes() const { return numel() * ByteSize(dtype); }
  std::string ToString() const;  // "tensor<2x3xf32>"
  bool operator==(const Shape& o) const { return dtype == o.dtype && dims == o.dims; }
  bool operator!=(const Shape& o) const { return !(*this == o); }
};

std::string ToString(const Dims& dims);  // "[2, 3]"

}  // namespace torch_tpu::hlo
