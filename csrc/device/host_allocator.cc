// SPDX-License-Identifier: Apache-2.0
#include "csrc/device/host_allocator.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "csrc/device/timeline.h"

namespace torch_tpu::device {
namespace {

constexpr size_t kPage = 4096;

struct Block {
  void* address;
  size_t bytes;
  std::vector<std::shared_ptr<Completion>> uses;  // transfers that may still read or write it

  bool busy() const {
    return std::any_of(uses.begin(), uses.end(), [](const auto& use) { return !use->done(); });
  }
};

class HostAllocator final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override { return &Delete; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }

  bool record_event(void* address, void* context, c10::Stream stream) override;
  void empty_cache() override;
  at::HostStats get_stats() override;
  void reset_accumulated_stats() override;
  void reset_peak_stats() override;

  bool Contains(const void* address) const;

 private:
  static void Delete(void* context);
  // The live block that holds the address; null when there is none.
  Block* Find(const void* address) const;
  void Free(Block* block);
  void Reuse(Block* block) { free_[block->bytes].push_back(block); }
  void Sweep();

  mutable std::shared_mutex mutex_;
  std::map<uintptr_t, Block*> live_;                      // by first address
  std::vector<Block*> waiting_;                           // freed while busy
  std::unordered_map<size_t, std::vector<Block*>> free_;  // by size
  at::HostStats stats_;
};

HostAllocator& Instance() {
  static auto* allocator = new HostAllocator();
  return *allocator;
}

c10::DataPtr HostAllocator::allocate(size_t bytes) {
  const c10::Device cpu(c10::DeviceType::CPU);
  if (bytes == 0) return {nullptr, nullptr, &Delete, cpu};
  const size_t size = std::max(kPage, std::bit_ceil(bytes));
  std::unique_lock lock(mutex_);
  Sweep();
  Block* block = nullptr;
  if (auto found = free_.find(size); found != free_.end() && !found->second.empty()) {
    block = found->second.back();
    found->second.pop_back();
  } else {
    void* address = std::aligned_alloc(kPage, size);
    TORCH_CHECK_WITH(OutOfMemoryError, address != nullptr,
                     "tpu: no host memory for a pinned block of ", size,
                     " bytes. Try: smaller batches, or pin_memory=False.");
    block = new Block{address, size, {}};
    stats_.allocations.increase(1);
    stats_.allocated_bytes.increase(size);
    ++stats_.num_host_alloc;
  }
  stats_.active_requests.increase(1);
  stats_.active_bytes.increase(size);
  live_[reinterpret_cast<uintptr_t>(block->address)] = block;
  return {block->address, block, &Delete, cpu};
}

void HostAllocator::Delete(void* context) {
  if (context != nullptr) Instance().Free(static_cast<Block*>(context));
}

void HostAllocator::Free(Block* block) {
  std::unique_lock lock(mutex_);
  live_.erase(reinterpret_cast<uintptr_t>(block->address));
  stats_.active_requests.decrease(1);
  stats_.active_bytes.decrease(block->bytes);
  if (block->busy()) {
    waiting_.push_back(block);
  } else {
    block->uses.clear();
    Reuse(block);
  }
}

void HostAllocator::Sweep() {
  std::erase_if(waiting_, [this](Block* block) {
    if (block->busy()) return false;
    block->uses.clear();
    Reuse(block);
    return true;
  });
}

Block* HostAllocator::Find(const void* address) const {
  const auto key = reinterpret_cast<uintptr_t>(address);
  auto next = live_.upper_bound(key);
  if (next == live_.begin()) return nullptr;
  Block* block = std::prev(next)->second;
  return key - reinterpret_cast<uintptr_t>(block->address) < block->bytes ? block : nullptr;
}

bool HostAllocator::Contains(const void* address) const {
  std::shared_lock lock(mutex_);
  return Find(address) != nullptr;
}

bool HostAllocator::record_event(void* address, void*, c10::Stream stream) {
  std::shared_ptr<Completion> use = Timeline::Of(stream.device_index()).Mark();
  std::unique_lock lock(mutex_);
  Block* block = Find(address);
  if (block == nullptr) return false;
  std::erase_if(block->uses, [](const auto& old) { return old->done(); });
  block->uses.push_back(std::move(use));
  return true;
}

void HostAllocator::empty_cache() {
  std::unique_lock lock(mutex_);
  Sweep();
  for (auto& [size, blocks] : free_) {
    for (Block* block : blocks) {
      stats_.allocations.decrease(1);
      stats_.allocated_bytes.decrease(size);
      ++stats_.num_host_free;
      std::free(block->address);
      delete block;
    }
  }
  free_.clear();
}

at::HostStats HostAllocator::get_stats() {
  std::shared_lock lock(mutex_);
  return stats_;
}

void HostAllocator::reset_accumulated_stats() {
  std::unique_lock lock(mutex_);
  for (auto* stat : {&stats_.active_requests, &stats_.active_bytes, &stats_.allocations,
                     &stats_.allocated_bytes}) {
    stat->reset_accumulated();
  }
  stats_.num_host_alloc = stats_.num_host_free = 0;
}

void HostAllocator::reset_peak_stats() {
  std::unique_lock lock(mutex_);
  for (auto* stat : {&stats_.active_requests, &stats_.active_bytes, &stats_.allocations,
                     &stats_.allocated_bytes}) {
    stat->reset_peak();
  }
}

}  // namespace

at::HostAllocator* GetHostAllocator() { return &Instance(); }

bool IsPinned(const void* address) { return Instance().Contains(address); }

REGISTER_HOST_ALLOCATOR(at::kPrivateUse1, GetHostAllocator())

}  // namespace torch_tpu::device
