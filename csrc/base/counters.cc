// SPDX-License-Identifier: Apache-2.0
#include "csrc/base/counters.h"

#include <mutex>

namespace torch_tpu {

namespace internal {
std::atomic<int64_t> counters[static_cast<int>(Counter::kCount)];
}

namespace {
std::mutex fallback_mutex;
std::map<std::string, int64_t>& FallbackMap() {
  static auto* map = new std::map<std::string, int64_t>();
  return *map;
}
}  // namespace

const char* CounterName(Counter c) {
  switch (c) {
    case Counter::kDispatches: return "dispatches";
    case Counter::kCompiles: return "compiles";
    case Counter::kMemoryHits: return "memory_hits";
    case Counter::kDiskHits: return "disk_hits";
    case Counter::kExecutions: return "executions";
    case Counter::kHostReads: return "host_reads";
    case Counter::kBytesToDevice: return "bytes_to_device";
    case Counter::kBytesToHost: return "bytes_to_host";
    case Counter::kCompileMicros: return "compile_micros";
    case Counter::kCount: break;
  }
  return "";
}

int64_t Get(Counter c) {
  return internal::counters[static_cast<int>(c)].load(std::memory_order_relaxed);
}

void CountFallback(const std::string& op) {
  std::lock_guard<std::mutex> lock(fallback_mutex);
  ++FallbackMap()[op];
}

std::map<std::string, int64_t> Fallbacks() {
  std::lock_guard<std::mutex> lock(fallback_mutex);
  return FallbackMap();
}

void ResetCounters() {
  for (auto& counter : internal::counters) counter.store(0, std::memory_order_relaxed);
  std::lock_guard<std::mutex> lock(fallback_mutex);
  FallbackMap().clear();
}

}  // namespace torch_tpu
