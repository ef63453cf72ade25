// SPDX-License-Identifier: Apache-2.0
// One background thread for what a miss need not wait for: serializing a program and writing it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>

namespace torch_tpu::program {

class StoreQueue {
 public:
  // The process's; leaked, since its thread runs until the process ends. Not for forked children.
  static StoreQueue& Get();

  // Jobs run in order. They must not call Add or Drain.
  void Add(std::function<void()> job);
  // Blocks until all jobs added before are done. The caller must not hold the GIL.
  void Drain();

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  uint64_t added_ = 0, done_ = 0;
  bool started_ = false;
};

}  // namespace torch_tpu::program
