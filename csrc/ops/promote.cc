// SPDX-License-Identifier: Apache-2.0
// torch.result_type: tensors with dims outrank 0-dim tensors, which outrank Python numbers, unless
// the lower one is of a higher category (bool < integer < float < complex).
#include "csrc/ops/op.h"

namespace torch_tpu::ops {
namespace {

DType PromoteIfAny(DType a, DType b) {
  if (a == DType::kInvalid) return b;
  return b == DType::kInvalid ? a : hlo::Promote(a, b);
}

DType Combine(DType higher, DType lower) {
  if (hlo::IsComplex(higher)) return higher;
  if (hlo::IsFloat(higher)) return hlo::IsComplex(lower) ? hlo::ComplexOf(higher) : higher;
  if (higher == DType::kPred || hlo::IsFloat(lower) || hlo::IsComplex(lower)) {
    return PromoteIfAny(higher, lower);
  }
  return higher != DType::kInvalid ? higher : lower;
}

}  // namespace

DType Lowering::common_dtype() {
  DType with_dims = DType::kInvalid, zero_dim = DType::kInvalid, wrapped = DType::kInvalid;
  for (const Arg& arg : call_.args) {
    for (const TensorArg& t : arg.tensors) {
      if (t.value < 0) continue;
      DType& category = t.view.sizes.empty() ? zero_dim : with_dims;
      category = PromoteIfAny(category, t.view.dtype);
    }
    for (const ScalarArg& s : arg.scalars) {
      if (!s.wrapped) {
        zero_dim = PromoteIfAny(zero_dim, s.dtype);
        continue;
      }
      DType number = s.dtype;
      if (hlo::IsFloat(number)) number = call_.default_dtype;
      if (hlo::IsComplex(number)) number = hlo::ComplexOf(call_.default_dtype);
      wrapped = PromoteIfAny(wrapped, number);
    }
  }
  return Combine(with_dims, Combine(zero_dim, wrapped));
}

}  // namespace torch_tpu::ops
