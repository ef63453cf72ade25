// SPDX-License-Identifier: Apache-2.0
#include "csrc/eager/copy.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DispatchKey.h>
#include <torch/library.h>

#include "csrc/base/counters.h"
#include "csrc/device/error.h"
#include "csrc/device/runtime.h"
#include "csrc/device/slot.h"
#include "csrc/device/timeline.h"
#include "csrc/eager/dtype.h"
#include "csrc/eager/table_op.h"
#include "csrc/eager/wrap.h"

namespace torch_tpu::eager {
namespace {

using at::Tensor;
using device::ThrowIfError;
using device::ValueOrThrow;

device::Slot& SlotOf(const Tensor& tensor) { return device::SlotOf(*tensor.unsafeGetTensorImpl()); }
bool Covers(const Tensor& tensor) { return CoversStorage(*tensor.unsafeGetTensorImpl()); }

// The table's aten::copy, run as copy_.
void CopyOnDevice(const Tensor& self, const Tensor& src) {
  static auto* kernel = new TableOp(
      ops::FindOp("aten::copy"), c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", ""),
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy", ""));
  static auto* op =
      new c10::OperatorHandle(c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", ""));
  torch::jit::Stack stack{self, src, false};
  (*kernel)(*op, {}, &stack);
}

bool SameLayout(const Tensor& a, const Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() && a.strides() == b.strides();
}

// A tensor that is its whole storage and holds the same elements.
Tensor Dense(const Tensor& tensor) {
  if (Covers(tensor)) return tensor;
  Tensor dense = at::empty(tensor.sizes(), tensor.options());
  CopyOnDevice(dense, tensor);
  return dense;
}

// Raw bytes of a value to host memory. Blocks.
void ReadBytes(const program::Value& value, void* dst, int64_t bytes) {
  Count(Counter::kHostReads);
  Count(Counter::kBytesToHost, bytes);
  if (bytes == 0) return ThrowIfError(value.Await());
  if (device::Runtime::Require().host_is_device()) {
    ThrowIfError(value.Await());
    const void* host = ValueOrThrow(value.buffer().HostPointer());
    if (host != nullptr) {
      std::memcpy(dst, host, static_cast<size_t>(bytes));
      return;
    }
  }
  ThrowIfError(value.Resolve());
  pjrt::Event done = ValueOrThrow(value.buffer().ToHost(dst, bytes));
  ThrowIfError(done.Await());
}

// A view of a small value, or of one that lies in host memory anyway: the host applies the view,
// and x[i].item() for changing i compiles nothing. Undefined when that does not apply.
Tensor ReadThroughBase(const Tensor& tensor) {
  constexpr int64_t kSmallBytes = 1 << 16;
  if (Covers(tensor) || tensor.numel() == 0) return Tensor();
  Ref<program::Value> value = SlotOf(tensor).Get();
  if (!value) return Tensor();
  size_t needed = at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(),
                                                   tensor.itemsize(), tensor.storage_offset());
  int64_t bytes = value->bytes();
  if (static_cast<size_t>(bytes) < needed) return Tensor();
  Tensor base;
  if (device::Runtime::Require().host_is_device()) {
    ThrowIfError(value->Await());
    const void* host = ValueOrThrow(value->buffer().HostPointer());
    if (host == nullptr) return Tensor();
    Count(Counter::kHostReads);
    Count(Counter::kBytesToHost, static_cast<int64_t>(tensor.nbytes()));
    base = at::from_blob(const_cast<void*>(host), {bytes}, at::TensorOptions(at::kByte));
  } else if (bytes <= kSmallBytes) {
    ThrowIfError(value->Resolve());
    base = at::empty({bytes}, at::TensorOptions(at::kByte));
    ReadBytes(*value, base.mutable_data_ptr(), bytes);
  } else {
    return Tensor();
  }
  Tensor view = at::empty({0}, tensor.options().device(at::kCPU));
  view.set_(base.storage(), tensor.storage_offset(), tensor.sizes(), tensor.strides());
  if (tensor.is_conj()) view = view.conj();
  if (tensor.is_neg()) view = view._neg_view();
  return view.clone().resolve_conj().resolve_neg();
}

void FromHost(const Tensor& self, const Tensor& src) {
  if (!Covers(self)) {
    Tensor staged = at::empty(self.sizes(), self.options());
    FromHost(staged, src);
    return CopyOnDevice(self, staged);
  }
  // The bytes as the storage wants them: converting and reordering is the host's work.
  Tensor host = src;
  if (!SameLayout(self, src) || src.is_conj() || src.is_neg()) {
    host = at::empty_strided(self.sizes(), self.strides(), self.options().device(at::kCPU));
    host.copy_(src);
  }
  hlo::Shape shape{ToHloOrThrow(self.scalar_type(), "aten::copy_"), self.sizes().vec()};
  hlo::Dims order = StorageOrder(self.sizes(), self.strides());
  for (size_t i = 0; i < order.size(); ++i) shape.dims[i] = self.size(order[i]);
  device::Slot& slot = SlotOf(self);
  pjrt::Device* dev = device::Runtime::Require().device(slot.device());
  Count(Counter::kBytesToDevice, shape.bytes());
  pjrt::Buffer buffer = ValueOrThrow(dev->client().FromHost(
      host.const_data_ptr(), shape, nullptr, pjrt::HostSemantics::kCopy, dev, nullptr));
  slot.Set(Ref<program::Value>(new program::Value(program::InternShape(shape), std::move(buffer))));
}

void BetweenDevices(const Tensor& self, const Tensor& src) {
  Tensor converted = src;
  if (src.scalar_type() != self.scalar_type()) {
    converted = at::empty(src.sizes(), self.options().device(src.device()));
    CopyOnDevice(converted, src);
  }
  converted = Dense(converted);
  Ref<program::Value> value = SlotOf(converted).Get();
  Tensor staged = at::empty_strided(converted.sizes(), converted.strides(), self.options());
  if (value) {
    pjrt::Device* dev = device::Runtime::Require().device(self.device().index());
    ThrowIfError(value->Resolve(program::CloseReason::kOtherDevice));
    SlotOf(staged).Set(Ref<program::Value>(
        new program::Value(value->interned_shape(), ValueOrThrow(value->buffer().CopyTo(dev)))));
  }
  Tensor target = self;
  Copy(target, staged, false);
}

void WithinDevice(const Tensor& self, const Tensor& src) {
  if (self.unsafeGetTensorImpl() == src.unsafeGetTensorImpl()) return;
  // Values are immutable: a copy of a whole storage is one more reference.
  if (SameLayout(self, src) && Covers(self) && Covers(src)) {
    Ref<program::Value> value = SlotOf(src).Get();
    if (!value || value->bytes() == static_cast<int64_t>(SlotOf(self).bytes())) {
      return SlotOf(self).Set(std::move(value));
    }
  }
  CopyOnDevice(self, src);
}

Tensor& CopyKernel(Tensor& self, const Tensor& src, bool non_blocking) {
  return Copy(self, src, non_blocking);
}

// The device side of CPU.copy_(tpu) and of torch's own copies: writes `self` into `dst`.
Tensor CopyFrom(const Tensor& self, const Tensor& dst, bool non_blocking) {
  Tensor target = dst;
  return Copy(target, self, non_blocking);
}

Tensor CopyFromAndResize(const Tensor& self, const Tensor& dst) {
  if (dst.sizes() != self.sizes()) dst.resize_(self.sizes());
  return CopyFrom(self, dst, false);
}

at::Scalar LocalScalarDense(const Tensor& self) {
  return at::_local_scalar_dense(ReadToHost(self));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("copy_", TORCH_FN(CopyKernel));
  m.impl("_copy_from", TORCH_FN(CopyFrom));
  m.impl("_copy_from_and_resize", TORCH_FN(CopyFromAndResize));
  m.impl("_local_scalar_dense", TORCH_FN(LocalScalarDense));
}

}  // namespace

Tensor ReadToHost(const Tensor& tensor) {
  if (Tensor host = ReadThroughBase(tensor); host.defined()) return host;
  Tensor dense = Dense(tensor);
  Tensor host = at::empty_strided(dense.sizes(), dense.strides(), dense.options().device(at::kCPU));
  Ref<program::Value> value = SlotOf(dense).Get();
  if (!value) return host.zero_();
  int64_t bytes = std::min<int64_t>(value->bytes(), static_cast<int64_t>(host.nbytes()));
  if (bytes < static_cast<int64_t>(host.nbytes())) host.zero_();
  if (value->bytes() <= static_cast<int64_t>(host.nbytes())) {
    ReadBytes(*value, host.mutable_data_ptr(), bytes);
    return host;
  }
  // The storage shrank below its value.
  Tensor exact = at::empty(tensor.sizes(), tensor.options());
  CopyOnDevice(exact, tensor);
  return ReadToHost(exact);
}

Tensor& Copy(Tensor& self, const Tensor& src, bool) {
  TORCH_CHECK(self.defined() && src.defined(), "[aten::copy_] expected two tensors");
  if (self.is_privateuseone() && src.is_privateuseone()) {
    if (self.device() == src.device()) {
      WithinDevice(self, src);
    } else {
      BetweenDevices(self, src);
    }
  } else if (self.is_privateuseone()) {
    TORCH_CHECK(src.is_cpu(), "[aten::copy_] expected a CPU or tpu source, got ", src.device(),
                ". Try: src.cpu() first.");
    FromHost(self, src);
  } else {
    TORCH_CHECK(self.is_cpu(), "[aten::copy_] expected a CPU or tpu destination, got ",
                self.device(), ". Try: src.cpu() first.");
    self.copy_(ReadToHost(src));
  }
  return self;
}

}  // namespace torch_tpu::eager
