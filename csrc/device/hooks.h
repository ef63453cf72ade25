// SPDX-License-Identifier: Apache-2.0
// What generic torch code asks of the device: availability, generators, pinned memory, storage
// resize.
#pragma once

namespace torch_tpu::device {

// Once, when the library loads.
void RegisterHooks();

}  // namespace torch_tpu::device
