// SPDX-License-Identifier: Apache-2.0
// Pinned host memory: page-aligned blocks, kept in a table so that is_pinned can ask, and reused by
// size class. On the CPU runtime it is plain memory. Thread safe; never takes the GIL.
#pragma once

#include <ATen/core/CachingHostAllocator.h>

namespace torch_tpu::device {

// A block whose transfer may still run (record_event) is reused or freed only when that is done.
at::HostAllocator* GetHostAllocator();

// True for every address inside a live block.
bool IsPinned(const void* address);

}  // namespace torch_tpu::device
