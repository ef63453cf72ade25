// SPDX-License-Identifier: Apache-2.0
// Streams as identities. A device runs its programs in the order they were launched, whatever
// stream is current, so `wait` needs no edge; data dependencies are PJRT's. Each device has the
// default stream (id 0) and a pool of 32 per priority, handed out in turn. The current stream is
// per thread.
#pragma once

#include <c10/core/Stream.h>

namespace torch_tpu::device {

constexpr int kStreamsPerPriority = 32;

c10::Stream DefaultStream(c10::DeviceIndex device);
// Negative priorities share one pool, zero and positive ones the other.
c10::Stream NextPoolStream(c10::DeviceIndex device, int priority);

c10::Stream CurrentStream(c10::DeviceIndex device);
// Gives the previous one.
c10::Stream ExchangeStream(c10::Stream stream);

bool QueryStream(c10::Stream stream);
// Throws the error of a program that failed. Blocks; must not hold the GIL.
void SynchronizeDevice(c10::DeviceIndex device);

}  // namespace torch_tpu::device
