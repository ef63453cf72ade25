// SPDX-License-Identifier: Apache-2.0
#include "csrc/device/stream.h"

#include <atomic>

#include "csrc/device/error.h"
#include "csrc/device/runtime.h"
#include "csrc/device/timeline.h"

namespace torch_tpu::device {
namespace {

thread_local c10::StreamId current[Timeline::kMaxDevices];  // zero: the default stream

c10::Stream Make(c10::DeviceIndex device, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::DeviceType::PrivateUse1, device), id);
}

}  // namespace

c10::Stream DefaultStream(c10::DeviceIndex device) { return Make(device, 0); }

c10::Stream NextPoolStream(c10::DeviceIndex device, int priority) {
  static std::atomic<uint32_t> next[Timeline::kMaxDevices][2];
  const int high = priority < 0 ? 1 : 0;
  uint32_t turn = next[device][high].fetch_add(1, std::memory_order_relaxed);
  return Make(device, 1 + high * kStreamsPerPriority + turn % kStreamsPerPriority);
}

c10::Stream CurrentStream(c10::DeviceIndex device) { return Make(device, current[device]); }

c10::Stream ExchangeStream(c10::Stream stream) {
  const c10::DeviceIndex device = stream.device_index();
  c10::Stream previous = CurrentStream(device);
  current[device] = stream.id();
  return previous;
}

bool QueryStream(c10::Stream stream) {
  if (Runtime::IfOpen() == nullptr) return true;
  return Timeline::Of(stream.device_index()).Mark()->done();
}

void SynchronizeDevice(c10::DeviceIndex device) {
  if (Runtime::IfOpen() == nullptr) return;
  ThrowIfError(Timeline::Of(device).Synchronize());
}

}  // namespace torch_tpu::device
