// SPDX-License-Identifier: Apache-2.0
// Factories, views and storage surgery: metadata only, no program runs.
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/Stream.h>
#include <torch/library.h>

#include "csrc/device/guard.h"
#include "csrc/device/slot.h"
#include "csrc/eager/dtype.h"
#include "csrc/eager/wrap.h"

namespace torch_tpu::eager {
namespace {

using at::Tensor;
using c10::IntArrayRef;
using c10::SymIntArrayRef;

caffe2::TypeMeta CheckFactory(std::optional<c10::ScalarType> dtype,
                              std::optional<c10::Layout> layout, std::optional<bool> pin_memory,
                              const char* op) {
  TORCH_CHECK(layout.value_or(c10::Layout::Strided) == c10::Layout::Strided, "[", op,
              "] tpu tensors are strided, got layout ", *layout);
  TORCH_CHECK(!pin_memory.value_or(false), "[", op, "] only CPU tensors can be pinned");
  c10::ScalarType type = dtype.value_or(c10::get_default_dtype_as_scalartype());
  ToHloOrThrow(type, op);
  return c10::scalarTypeToTypeMeta(type);
}

int DeviceIndex(std::optional<c10::Device> device) {
  return device::CheckedDevice(device.has_value() ? device->index() : c10::DeviceIndex(-1));
}

Tensor Empty(IntArrayRef size, std::optional<c10::ScalarType> dtype,
             std::optional<c10::Layout> layout, std::optional<c10::Device> device,
             std::optional<bool> pin_memory, std::optional<c10::MemoryFormat> format) {
  caffe2::TypeMeta meta = CheckFactory(dtype, layout, pin_memory, "aten::empty");
  for (int64_t s : size)
    TORCH_CHECK(s >= 0, "Trying to create tensor with negative dimension ", s, ": ", size);
  at::detail::check_size_nonnegative(size);
  Tensor tensor = Wrap(nullptr, DeviceIndex(device), meta, size);
  if (format.has_value() && *format != c10::MemoryFormat::Contiguous) {
    tensor.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  }
  return tensor;
}

Tensor EmptyStrided(IntArrayRef size, IntArrayRef stride, std::optional<c10::ScalarType> dtype,
                    std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                    std::optional<bool> pin_memory) {
  caffe2::TypeMeta meta = CheckFactory(dtype, layout, pin_memory, "aten::empty_strided");
  at::detail::check_size_nonnegative(size);
  size_t bytes = at::detail::computeStorageNbytes(size, stride, meta.itemsize());
  OutputPlan plan;
  plan.dtype = meta;
  plan.sizes.assign(size.begin(), size.end());
  plan.strides.assign(stride.begin(), stride.end());
  plan.contiguous = false;
  plan.bytes = bytes;
  return Wrap(nullptr, DeviceIndex(device), plan);
}

// Sizes and strides of an existing tensor; the storage grows when they need more than it has.
void Restride(c10::TensorImpl* self, IntArrayRef size, std::optional<IntArrayRef> stride) {
  if (stride.has_value()) {
    self->set_sizes_and_strides(size, *stride);
  } else {
    self->set_sizes_contiguous(size);
  }
  size_t bytes = at::detail::computeStorageNbytes(self->sizes(), self->strides(), self->itemsize(),
                                                  self->storage_offset());
  c10::StorageImpl* storage = self->unsafe_storage().unsafeGetStorageImpl();
  if (self->numel() > 0 && bytes > storage->nbytes()) device::ResizeStorage(*storage, bytes);
}

const Tensor& Resize(const Tensor& self, IntArrayRef size,
                     std::optional<c10::MemoryFormat> format) {
  at::detail::check_size_nonnegative(size);
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  if (self.sizes() != size) Restride(impl, size, std::nullopt);
  if (format.has_value()) impl->empty_tensor_restride(*format);
  return self;
}

Tensor& SetStorage(Tensor& self, c10::Storage source, int64_t offset, IntArrayRef size,
                   IntArrayRef stride) {
  std::optional<IntArrayRef> strides =
      stride.data() != nullptr ? std::optional<IntArrayRef>(stride) : std::nullopt;
  at::native::checkSetStorage(self, std::move(source), offset, size, stride);
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  impl->set_storage_offset(offset);
  Restride(impl, size, strides);
  return self;
}

Tensor& SetSource(Tensor& self, c10::Storage source) {
  int64_t count = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return SetStorage(self, std::move(source), 0, {count}, {});
}

Tensor& SetTensor(Tensor& self, const Tensor& source) {
  if (self.unsafeGetTensorImpl() == source.unsafeGetTensorImpl()) return self;
  return SetStorage(self, source.storage(), source.storage_offset(), source.sizes(),
                    source.strides());
}

Tensor& SetEmpty(Tensor& self) {
  return SetStorage(self, device::MakeStorage(self.device().index(), 0, nullptr), 0, {0}, {});
}

Tensor AsStrided(const Tensor& self, SymIntArrayRef size, SymIntArrayRef stride,
                 std::optional<c10::SymInt> offset) {
  return at::native::as_strided_tensorimpl(
      self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
      offset.has_value() ? std::optional<int64_t>(offset->guard_int(__FILE__, __LINE__))
                         : std::nullopt);
}

// PJRT keeps a buffer alive until its last use is done, so there is nothing to record.
void RecordStream(Tensor&, c10::Stream) {}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", TORCH_FN(Empty));
  m.impl("empty_strided", TORCH_FN(EmptyStrided));
  m.impl("resize_", TORCH_FN(Resize));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(SetStorage));
  m.impl("set_.source_Storage", TORCH_FN(SetSource));
  m.impl("set_.source_Tensor", TORCH_FN(SetTensor));
  m.impl("set_", TORCH_FN(SetEmpty));
  m.impl("is_set_to", TORCH_FN(at::native::is_set_to));
  m.impl("record_stream", TORCH_FN(RecordStream));
  m.impl("as_strided", TORCH_FN(AsStrided));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  m.impl("view_as_real", TORCH_FN(at::native::view_as_real));
  m.impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
}

}  // namespace
}  // namespace torch_tpu::eager
