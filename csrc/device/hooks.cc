// SPDX-License-Identifier: Apache-2.0
#include "csrc/device/hooks.h"

#include <ATen/core/Tensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include "csrc/device/generator.h"
#include "csrc/device/guard.h"
#include "csrc/device/host_allocator.h"
#include "csrc/device/runtime.h"
#include "csrc/device/slot.h"

namespace torch_tpu::device {
namespace {

using c10::DeviceIndex;
constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;

struct Hooks final : public at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return Runtime::DeviceCount() > 0; }
  void init() const override { Runtime::Require(); }
  bool hasPrimaryContext(DeviceIndex) const override { return Runtime::IfOpen() != nullptr; }

  DeviceIndex deviceCount() const override {
    return static_cast<DeviceIndex>(Runtime::DeviceCount());
  }
  DeviceIndex getCurrentDevice() const override { return CurrentDevice(); }
  void setCurrentDevice(DeviceIndex index) const override { SetCurrentDevice(index); }
  DeviceIndex exchangeDevice(DeviceIndex index) const override {
    return ExchangeCurrentDevice(index);
  }
  // Making a device current costs nothing here, so there is no context to avoid.
  DeviceIndex maybeExchangeDevice(DeviceIndex index) const override {
    return ExchangeCurrentDevice(index);
  }

  const at::Generator& getDefaultGenerator(DeviceIndex index) const override {
    return DefaultGenerator(index);
  }
  at::Generator getNewGenerator(DeviceIndex index) const override {
    return at::make_generator<Generator>(CheckedDevice(index));
  }

  c10::Allocator* getPinnedMemoryAllocator() const override { return GetHostAllocator(); }
  bool isPinnedPtr(const void* data) const override { return IsPinned(data); }
  at::Device getDeviceFromPtr(void* data) const override {
    const int index = DeviceOfAddress(data);
    TORCH_CHECK(index >= 0, "tpu: expected the address of a tpu storage, got ", data);
    return at::Device(kType, static_cast<DeviceIndex>(index));
  }

  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    ResizeStorage(*storage.unsafeGetStorageImpl(), bytes);
  }
};

bool IsDense(const at::Tensor& tensor) {
  return tensor.layout() == at::kStrided && (tensor.is_cpu() || tensor.is_privateuseone());
}

// Module.to and `.data =` ask whether a tensor may take over another's content in place. Ours are
// plain strided tensors, so CPU and tpu mix as CPU and CUDA do, and parameters keep their identity.
bool HasCompatibleShallowCopyType(const at::Tensor& self, const at::Tensor& from) {
  if (IsDense(self) && IsDense(from)) return true;
  return self.unsafeGetTensorImpl()->has_compatible_shallow_copy_type(from.key_set());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_has_compatible_shallow_copy_type", HasCompatibleShallowCopyType);
}

}  // namespace

void RegisterHooks() {
  static auto* hooks = new Hooks();
  at::RegisterPrivateUse1HooksInterface(hooks);
}

}  // namespace torch_tpu::device
