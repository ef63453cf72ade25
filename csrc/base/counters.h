// SPDX-License-Identifier: Apache-2.0
// Process-wide counters behind torch.tpu.metrics(). Relaxed atomics: exact totals, no ordering.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>

namespace torch_tpu {

enum class Counter : int {
  kDispatches,  // calls of a table op that reached us
  kCompiles,    // programs compiled by the plugin
  kMemoryHits,  // programs found in memory
  kDiskHits,    // programs loaded from the disk cache
  kExecutions,  // PJRT executions
  kHostReads,   // reads that waited for the device
  kBytesToDevice,
  kBytesToHost,
  kCompileMicros,  // wall time spent compiling, microseconds
  kCount,
};

const char* CounterName(Counter c);  // "dispatches", ...

namespace internal {
extern std::atomic<int64_t> counters[static_cast<int>(Counter::kCount)];
}

inline void Count(Counter c, int64_t n = 1) {
  internal::counters[static_cast<int>(c)].fetch_add(n, std::memory_order_relaxed);
}
int64_t Get(Counter c);

// Fallbacks by aten overload name.
void CountFallback(const std::string& op);
std::map<std::string, int64_t> Fallbacks();
void ResetCounters();

}  // namespace torch_tpu
