// SPDX-License-Identifier: Apache-2.0
#include "csrc/eager/wrap.h"

#include <ATen/EmptyTensor.h>

#include "csrc/device/slot.h"

namespace torch_tpu::eager {
namespace {

at::Tensor Make(Ref<program::Value> value, int index, caffe2::TypeMeta dtype, size_t bytes) {
  return at::detail::make_tensor_base<c10::TensorImpl>(
      device::MakeStorage(index, bytes, std::move(value)),
      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), dtype);
}

}  // namespace

at::Tensor Wrap(Ref<program::Value> value, int index, const OutputPlan& plan) {
  at::Tensor tensor = Make(std::move(value), index, plan.dtype, plan.bytes);
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (!plan.contiguous) {
    impl->set_sizes_and_strides(plan.sizes, plan.strides);
  } else if (plan.sizes.size() != 1 || plan.sizes[0] != 0) {
    impl->set_sizes_contiguous(plan.sizes);
  }
  return tensor;
}

at::Tensor Wrap(Ref<program::Value> value, int index, caffe2::TypeMeta dtype,
                c10::IntArrayRef sizes) {
  size_t bytes = dtype.itemsize();
  for (int64_t size : sizes) bytes *= static_cast<size_t>(size);
  at::Tensor tensor = Make(std::move(value), index, dtype, bytes);
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return tensor;
}

}  // namespace torch_tpu::eager
