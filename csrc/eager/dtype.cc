// SPDX-License-Identifier: Apache-2.0
#include "csrc/eager/dtype.h"

#include <c10/util/Exception.h>

namespace torch_tpu::eager {

hlo::DType ToHlo(c10::ScalarType dtype) {
  using T = c10::ScalarType;
  switch (dtype) {
    case T::Bool: return hlo::DType::kPred;
    case T::Byte: return hlo::DType::kU8;
    case T::Char: return hlo::DType::kS8;
    case T::Short: return hlo::DType::kS16;
    case T::Int: return hlo::DType::kS32;
    case T::Long: return hlo::DType::kS64;
    case T::UInt16: return hlo::DType::kU16;
    case T::UInt32: return hlo::DType::kU32;
    case T::UInt64: return hlo::DType::kU64;
    case T::Half: return hlo::DType::kF16;
    case T::BFloat16: return hlo::DType::kBF16;
    case T::Float: return hlo::DType::kF32;
    case T::Double: return hlo::DType::kF64;
    case T::ComplexFloat: return hlo::DType::kC64;
    case T::ComplexDouble: return hlo::DType::kC128;
    case T::Float8_e4m3fn: return hlo::DType::kF8E4M3FN;
    case T::Float8_e5m2: return hlo::DType::kF8E5M2;
    default: return hlo::DType::kInvalid;
  }
}

c10::ScalarType FromHlo(hlo::DType dtype) {
  using T = c10::ScalarType;
  for (T type : {T::Bool, T::Byte, T::Char, T::Short, T::Int, T::Long, T::UInt16, T::UInt32,
                 T::UInt64, T::Half, T::BFloat16, T::Float, T::Double, T::ComplexFloat,
                 T::ComplexDouble, T::Float8_e4m3fn, T::Float8_e5m2}) {
    if (ToHlo(type) == dtype) return type;
  }
  return T::Undefined;
}

hlo::DType ToHloOrThrow(c10::ScalarType dtype, const char* op) {
  hlo::DType result = ToHlo(dtype);
  TORCH_CHECK_NOT_IMPLEMENTED(result != hlo::DType::kInvalid, "[", op, "] tpu has no dtype ", dtype,
                              ". Try: convert to float32, bfloat16 or an integer type.");
  return result;
}

}  // namespace torch_tpu::eager
