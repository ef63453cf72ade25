// SPDX-License-Identifier: Apache-2.0
// Made-up addresses for slots: a range that is reserved and never mapped, so that a mistaken host
// read traps. Two live ranges never overlap. Thread safe.
#pragma once

#include <cstddef>

namespace torch_tpu::device {

// At least `bytes` of address space, aligned to 512.
void* AllocateAddress(int device, size_t bytes);
void FreeAddress(int device, void* address, size_t bytes);
// What was said to live at an address from AllocateAddress (null: nothing). Torch makes tensors
// from a bare address where it writes storages to a file; this finds the slot again.
void SetOwner(int device, void* address, void* owner);
void* OwnerOf(const void* address);
// The device that owns the address, or -1 when it is none of ours.
int DeviceOfReservedAddress(const void* address);

}  // namespace torch_tpu::device
