// SPDX-License-Identifier: Apache-2.0
// The current device of a thread, behind c10's device guards. Hot: a thread-local integer.
#pragma once

#include <c10/core/Device.h>

namespace torch_tpu::device {

c10::DeviceIndex CurrentDevice();
// Throws when there is no such device.
void SetCurrentDevice(c10::DeviceIndex index);
c10::DeviceIndex ExchangeCurrentDevice(c10::DeviceIndex index);

// `index`, or the current device when it is negative; throws when there is no such device.
c10::DeviceIndex CheckedDevice(c10::DeviceIndex index);

}  // namespace torch_tpu::device
