// SPDX-License-Identifier: Apache-2.0
#include "csrc/device/slot.h"

#include <c10/core/StorageImpl.h>
#include <c10/util/Exception.h>

#include "csrc/device/address_space.h"
#include "csrc/device/allocator.h"

namespace torch_tpu::device {
namespace {

void DeleteSlot(void* context) {
  auto* slot = static_cast<Slot*>(context);
  SetOwner(slot->device(), slot->address(), nullptr);
  FreeAddress(slot->device(), slot->address(), slot->bytes());
  delete slot;
}

}  // namespace

c10::DataPtr MakeSlot(int device, size_t bytes) {
  void* address = AllocateAddress(device, bytes);
  auto* slot = new Slot(device, bytes, address);
  SetOwner(device, address, slot);
  return {address, slot, &DeleteSlot,
          c10::Device(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(device))};
}

c10::Storage MakeStorage(int device, size_t bytes, Ref<program::Value> value) {
  c10::DataPtr data = MakeSlot(device, bytes);
  static_cast<Slot*>(data.get_context())->Set(std::move(value));
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(),
                                                            bytes, std::move(data), GetAllocator(),
                                                            /*resizable=*/true));
}

Slot* SlotOf(const c10::StorageImpl& storage) {
  const c10::DataPtr& data = storage.data_ptr();
  if (data.get_deleter() == &DeleteSlot) [[likely]]
    return static_cast<Slot*>(data.get_context());
  // A tensor that torch made from the bare address of a live storage.
  return static_cast<Slot*>(OwnerOf(data.get()));
}

Slot& SlotOf(const c10::TensorImpl& tensor) {
  Slot* slot =
      tensor.has_storage() ? SlotOf(*tensor.unsafe_storage().unsafeGetStorageImpl()) : nullptr;
  TORCH_CHECK(slot != nullptr,
              "tpu: expected a tensor with tpu storage, got one whose memory belongs to something "
              "else. Try: tensor.cpu().to('tpu').");
  return *slot;
}

void ResizeStorage(c10::StorageImpl& storage, size_t bytes) {
  Slot* slot = SlotOf(storage);
  int device = slot ? slot->device() : storage.device().index();
  c10::DataPtr data = MakeSlot(device, bytes);
  // Freed storage (FSDP resizes to 0 and back) must not keep its old value alive.
  if (slot && bytes > 0) static_cast<Slot*>(data.get_context())->Set(slot->Get());
  storage.set_data_ptr_noswap(std::move(data));
  storage.set_nbytes(bytes);
}

bool IsSlotAddress(const void* address) { return DeviceOfReservedAddress(address) >= 0; }

int DeviceOfAddress(const void* address) { return DeviceOfReservedAddress(address); }

}  // namespace torch_tpu::device
