// SPDX-License-Identifier: Apache-2.0
// What torch.tpu.explain() shows: one record per closed window or compiled single op, kept while
// on. Thread safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace torch_tpu::program {

struct ExplainRecord {
  std::string reason;   // why the window closed; "strict" for an op that ran at once
  std::string outcome;  // "memory", "disk" or "compiled"
  int ops = 0, inputs = 0, outputs = 0;
  double milliseconds = 0;                             // to find or compile, and to launch
  std::vector<std::pair<std::string, int>> op_counts;  // in order of first use
  std::string first_line, last_line;  // "file.py:12", or "backward"; empty when unknown
};

class Explain {
 public:
  static bool on() { return on_.load(std::memory_order_relaxed); }
  static void Start();
  // Ends it and gives the records.
  static std::vector<ExplainRecord> Stop();
  static void Add(ExplainRecord record);
  // The user's line that is running now, by the hook that the Python binding sets.
  static std::string CurrentLine();
  static void SetLineHook(std::string (*hook)());

 private:
  static std::atomic<bool> on_;
};

// Which way the cache answered between the making and the asking; by the process's counters, so
// exact only while one thread works.
class Outcome {
 public:
  Outcome();
  const char* name() const;
  double milliseconds() const;

 private:
  int64_t compiles_, disk_hits_, started_ns_;
};

}  // namespace torch_tpu::program
