// SPDX-License-Identifier: Apache-2.0
#include "csrc/device/address_space.h"

#include <c10/util/Exception.h>
#include <sys/mman.h>

#include <atomic>
#include <bit>
#include <cstdint>
#include <mutex>
#include <vector>

#include "csrc/program/cache.h"

namespace torch_tpu::device {
namespace {

constexpr size_t kMinBytes = 512;
constexpr int kClasses = 64 * 4;

// Four size classes per octave keep waste under a quarter.
int ClassOf(size_t bytes) {
  if (bytes <= kMinBytes) return 0;
  int octave = std::bit_width(bytes - 1) - 1;
  size_t base = size_t{1} << octave;
  int quarter = static_cast<int>((bytes - 1 - base) / (base / 4));
  return (octave - 9) * 4 + quarter + 1;
}

size_t ClassBytes(int size_class) {
  if (size_class == 0) return kMinBytes;
  size_t base = size_t{1} << ((size_class - 1) / 4 + 9);
  return base + base / 4 * static_cast<size_t>((size_class - 1) % 4 + 1);
}

class Range {
 public:
  void* Allocate(size_t bytes) {
    int size_class = ClassOf(bytes);
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<uintptr_t>& free = free_[size_class];
    if (!free.empty()) {
      uintptr_t address = free.back();
      free.pop_back();
      return reinterpret_cast<void*>(address);
    }
    size_t take = (ClassBytes(size_class) + kMinBytes - 1) / kMinBytes * kMinBytes;
    if (begin_ == 0) Reserve();
    TORCH_CHECK(take <= begin_ + size_ - next_, "tpu: cannot reserve address space for ", bytes,
                " bytes: ", size_ >> 40, " TiB are in use. Try: free tensors.");
    uintptr_t address = next_;
    next_ += take;
    return reinterpret_cast<void*>(address);
  }

  void Free(void* address, size_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    free_[ClassOf(bytes)].push_back(reinterpret_cast<uintptr_t>(address));
  }

  void SetOwner(uintptr_t address, void* owner) {
    if (owners_ != nullptr) owners_[(address - begin_) / kMinBytes] = owner;
  }

  void* Owner(uintptr_t address) const {
    return owners_ != nullptr ? owners_[(address - begin_) / kMinBytes] : nullptr;
  }

  bool Contains(uintptr_t address) const {
    uintptr_t begin = published_.load(std::memory_order_acquire);
    return begin != 0 && address >= begin && address < begin + size_;
  }

 private:
  void Reserve() {
    // Less when a limit on virtual memory forbids more.
    for (size_ = size_t{1} << 43; size_ >= size_t{1} << 32; size_ >>= 1) {
      void* p =
          ::mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (p == MAP_FAILED) continue;
      begin_ = next_ = reinterpret_cast<uintptr_t>(p);
      // Pages come as they are touched. Without the table (a limit on memory) only OwnerOf fails.
      void* table = ::mmap(nullptr, size_ / kMinBytes * sizeof(void*), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (table != MAP_FAILED) owners_ = static_cast<void**>(table);
      published_.store(begin_, std::memory_order_release);
      return;
    }
    TORCH_CHECK(false,
                "tpu: cannot reserve address space (mmap). Try: raise the limit on virtual memory "
                "(ulimit -v unlimited).");
  }

  std::mutex mutex_;
  uintptr_t begin_ = 0, next_ = 0;
  size_t size_ = 0;
  void** owners_ = nullptr;  // one per kMinBytes of the range
  std::atomic<uintptr_t> published_{0};
  std::vector<uintptr_t> free_[kClasses];
};

Range& RangeOf(int device) {
  static auto* ranges = new Range[program::CompiledProgram::kMaxDevices];
  return ranges[device];
}

}  // namespace

void* AllocateAddress(int device, size_t bytes) { return RangeOf(device).Allocate(bytes); }

void FreeAddress(int device, void* address, size_t bytes) { RangeOf(device).Free(address, bytes); }

void SetOwner(int device, void* address, void* owner) {
  RangeOf(device).SetOwner(reinterpret_cast<uintptr_t>(address), owner);
}

void* OwnerOf(const void* address) {
  const int device = DeviceOfReservedAddress(address);
  return device < 0 ? nullptr : RangeOf(device).Owner(reinterpret_cast<uintptr_t>(address));
}

int DeviceOfReservedAddress(const void* address) {
  for (int device = 0; device < program::CompiledProgram::kMaxDevices; ++device) {
    if (RangeOf(device).Contains(reinterpret_cast<uintptr_t>(address))) return device;
  }
  return -1;
}

}  // namespace torch_tpu::device
