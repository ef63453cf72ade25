// SPDX-License-Identifier: Apache-2.0
#include "csrc/device/guard.h"

#include <c10/core/DeviceCapability.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>

#include "csrc/device/event.h"
#include "csrc/device/runtime.h"
#include "csrc/device/stream.h"

namespace torch_tpu::device {
namespace {

using c10::DeviceIndex;
constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;

thread_local DeviceIndex current_device = 0;

void CheckExists(DeviceIndex index) {
  const int count = Runtime::DeviceCount();
  if (index >= 0 && index < count) [[likely]]
    return;
  if (count == 0) Runtime::Require();  // throws why there is none
  TORCH_CHECK(false, "tpu: expected a device index below ", count,
              ", got tpu:", static_cast<int>(index),
              ". Try: TORCH_TPU_CPU_DEVICES=", static_cast<int>(index) + 1,
              " when the runtime is the CPU.");
}

struct Guard final : public c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kType; }

  c10::Device exchangeDevice(c10::Device device) const override {
    return c10::Device(kType, ExchangeCurrentDevice(device.index()));
  }
  c10::Device getDevice() const override { return c10::Device(kType, current_device); }
  void setDevice(c10::Device device) const override { SetCurrentDevice(device.index()); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.has_index()) current_device = device.index();
  }
  DeviceIndex deviceCount() const noexcept override {
    return static_cast<DeviceIndex>(Runtime::DeviceCount());
  }

  c10::Stream getStream(c10::Device device) const override {
    return CurrentStream(CheckedDevice(device.index()));
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return DefaultStream(CheckedDevice(device.index()));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority) const override {
    return NextPoolStream(CheckedDevice(device.index()), high_priority ? -1 : 0);
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    return NextPoolStream(CheckedDevice(device.index()), priority);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    CheckedDevice(stream.device_index());
    return ExchangeStream(stream);
  }
  // PJRT has no stream to hand out; the identity is all there is.
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return reinterpret_cast<void*>(stream.id());
  }
  bool queryStream(const c10::Stream& stream) const override {
    CheckedDevice(stream.device_index());
    return QueryStream(stream);
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    SynchronizeDevice(CheckedDevice(stream.device_index()));
  }
  void synchronizeDevice(const DeviceIndex index) const override {
    SynchronizeDevice(CheckedDevice(index));
  }

  void record(void** event, const c10::Stream& stream, const DeviceIndex index,
              const c10::EventFlag) const override {
    TORCH_CHECK(index == -1 || index == stream.device_index(),
                "tpu: expected a stream of tpu:", static_cast<int>(index),
                " for this event, got one of tpu:", static_cast<int>(stream.device_index()),
                ". Try: a new event.");
    CheckedDevice(stream.device_index());
    if (*event == nullptr) *event = new Event();
    static_cast<Event*>(*event)->Record(stream.device_index());
  }
  // Values are immutable and PJRT orders each program after those that make its inputs, on any
  // device: later work needs no edge to see what came before the event.
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void* event) const override {
    return event == nullptr || static_cast<Event*>(event)->Query();
  }
  void synchronizeEvent(void* event) const override { static_cast<Event*>(event)->Synchronize(); }
  double elapsedTime(void* start, void* end, const DeviceIndex) const override {
    return static_cast<Event*>(start)->ElapsedTime(*static_cast<Event*>(end));
  }
  void destroyEvent(void* event, const DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
  }
  // Values are counted by PJRT until their last use is done.
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}

  c10::DeviceCapability getDeviceCapability(c10::Device) const override {
    c10::DeviceCapability capability;
    auto& has = capability.capability_data;
    has.capability_bits = 0;
    auto& types = has.supported_scalar_types;
    types.has_Byte = types.has_Char = types.has_Short = types.has_Int = types.has_Long = 1;
    types.has_Half = types.has_Float = types.has_Double = types.has_BFloat16 = 1;
    types.has_Bool = types.has_ComplexFloat = 1;
    types.has_Float8_e4m3fn = types.has_Float8_e5m2 = 1;
    return capability;
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

}  // namespace

c10::DeviceIndex CurrentDevice() { return current_device; }

void SetCurrentDevice(c10::DeviceIndex index) {
  if (index == current_device || index < 0) return;
  CheckExists(index);
  current_device = index;
}

c10::DeviceIndex ExchangeCurrentDevice(c10::DeviceIndex index) {
  const c10::DeviceIndex previous = current_device;
  SetCurrentDevice(index);
  return previous;
}

c10::DeviceIndex CheckedDevice(c10::DeviceIndex index) {
  if (index < 0) return current_device;
  CheckExists(index);
  return index;
}

}  // namespace torch_tpu::device
