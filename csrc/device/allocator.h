// SPDX-License-Identifier: Apache-2.0
// The torch allocator of the device. Allocation gives a slot, not memory: PJRT buffers come with
// values. Byte figures are those of live PJRT buffers.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

namespace torch_tpu::device {

c10::DeviceAllocator* GetAllocator();

}  // namespace torch_tpu::device
