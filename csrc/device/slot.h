// SPDX-License-Identifier: Apache-2.0
// The mutable cell behind one torch storage: the context of its DataPtr. Holds the current Value; a
// write puts a new Value in and leaves the old one to its readers.
#pragma once

#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>

#include <atomic>
#include <cstdint>
#include <utility>

#include "csrc/program/value.h"

namespace torch_tpu::device {

class Slot {
 public:
  Slot(int device, size_t bytes, void* address)
      : bytes_(bytes), address_(address), device_(device) {}

  int device() const { return device_; }
  size_t bytes() const { return bytes_; }  // of the storage; the value may cover fewer
  void* address() const { return address_; }

  // Null: never written; reads as zeros.
  Ref<program::Value> Get() const {
    Lock();
    Ref<program::Value> value = value_;
    Unlock();
    return value;
  }
  void Set(Ref<program::Value> value) {
    Lock();
    std::swap(value_, value);
    Unlock();
    // The old value is released here, outside the lock.
  }

 private:
  // Readers and writers on different threads may race as in any torch storage, but must not crash.
  void Lock() const {
    while (busy_.test_and_set(std::memory_order_acquire)) {
    }
  }
  void Unlock() const { busy_.clear(std::memory_order_release); }

  Ref<program::Value> value_;
  size_t bytes_;
  void* address_;
  int device_;
  mutable std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
};

// A DataPtr that owns a new Slot. Its pointer is a made-up address in a reserved, unmapped range.
c10::DataPtr MakeSlot(int device, size_t bytes);
// A storage with a slot that holds `value` (may be null).
c10::Storage MakeStorage(int device, size_t bytes, Ref<program::Value> value);

// The slot of a storage of ours, or null for foreign memory.
Slot* SlotOf(const c10::StorageImpl& storage);
// The slot behind a tensor on our device; a clear error when its storage is not ours.
Slot& SlotOf(const c10::TensorImpl& tensor);

// Grows or shrinks the storage to `bytes`, keeping its content; new bytes read as zeros.
void ResizeStorage(c10::StorageImpl& storage, size_t bytes);

// True for addresses of live or dead slots: never dereferenceable.
bool IsSlotAddress(const void* address);
// The device whose slot owns `address`, or -1.
int DeviceOfAddress(const void* address);

}  // namespace torch_tpu::device
