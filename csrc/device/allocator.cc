// SPDX-License-Identifier: Apache-2.0
#include "csrc/device/allocator.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <unistd.h>

#include <algorithm>

#include "csrc/device/guard.h"
#include "csrc/device/runtime.h"
#include "csrc/device/slot.h"
#include "csrc/device/timeline.h"

namespace torch_tpu::device {
namespace {

using c10::CachingAllocator::StatType;

class Allocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    c10::impl::VirtualGuardImpl guard(c10::DeviceType::PrivateUse1);
    return MakeSlot(guard.getDevice().index(), bytes);
  }
  // A raw pointer cannot carry a slot: callers of raw_allocate get torch's own error.
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void*, const void*, std::size_t) const override {
    TORCH_CHECK(false, "tpu: raw copies between storages are not possible. Try: Tensor.copy_().");
  }

  bool initialized() override { return Runtime::IfOpen() != nullptr; }
  void emptyCache(c10::MempoolId_t) override {}  // nothing is cached on our side
  // Values are reference counted by PJRT until their last use is done.
  void recordStream(const c10::DataPtr&, c10::Stream) override {}

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    c10::CachingDeviceAllocator::DeviceStats stats;
    Runtime* runtime = Runtime::IfOpen();
    if (runtime == nullptr) return stats;
    index = CheckedDevice(index);
    Timeline::Of(index).ReleaseValue();
    pjrt::MemoryStats now = runtime->device(index)->memory_stats();
    auto fill = [](c10::CachingAllocator::StatArray& array, int64_t current, int64_t peak,
                   int64_t allocated, int64_t freed) {
      for (auto type : {StatType::AGGREGATE, StatType::LARGE_POOL}) {
        auto& stat = array[static_cast<size_t>(type)];
        stat.current = current;
        stat.peak = peak;
        stat.allocated = allocated;
        stat.freed = freed;
      }
    };
    int64_t live = now.num_allocs - now.num_frees;
    fill(stats.allocated_bytes, now.bytes_in_use, now.peak_bytes_in_use, 0, 0);
    fill(stats.active_bytes, now.bytes_in_use, now.peak_bytes_in_use, 0, 0);
    fill(stats.reserved_bytes, now.bytes_in_use, now.peak_bytes_in_use, 0, 0);
    fill(stats.requested_bytes, now.bytes_in_use, now.peak_bytes_in_use, 0, 0);
    fill(stats.allocation, live, live, now.num_allocs, now.num_frees);
    stats.num_ooms = now.num_ooms;
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex index) override {
    Runtime* runtime = Runtime::IfOpen();
    if (runtime == nullptr) return;
    index = CheckedDevice(index);
    Timeline::Of(index).ReleaseValue();
    runtime->device(index)->ResetPeak();
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override {
    Runtime& runtime = Runtime::Require();
    index = CheckedDevice(index);
    Timeline::Of(index).ReleaseValue();
    pjrt::MemoryStats now = runtime.device(index)->memory_stats();
    if (now.bytes_limit == 0 && runtime.host_is_device()) {
      const size_t page = static_cast<size_t>(sysconf(_SC_PAGE_SIZE));
      return {static_cast<size_t>(sysconf(_SC_AVPHYS_PAGES)) * page,
              static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * page};
    }
    size_t total = static_cast<size_t>(now.bytes_limit);
    size_t used = static_cast<size_t>(std::max(now.bytes_in_use, now.plugin_bytes_in_use));
    return {total > used ? total - used : 0, total};
  }
};

}  // namespace

c10::DeviceAllocator* GetAllocator() {
  static auto* allocator = new Allocator();
  return allocator;
}

REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, GetAllocator())

}  // namespace torch_tpu::device
