// SPDX-License-Identifier: Apache-2.0
// What a device still has to do: stands for "all work launched so far" behind streams, events and
// synchronize. PJRT has no user streams, so a device has one timeline. Thread safe; knows no torch.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "csrc/base/ref.h"
#include "csrc/base/status.h"
#include "csrc/pjrt/client.h"
#include "csrc/program/value.h"

namespace torch_tpu::device {

// Becomes done once, when a set of PJRT events is. Shared by all who wait for the same work.
class Completion {
 public:
  using Time = std::chrono::steady_clock::time_point;

  bool done() const { return pending_.load(std::memory_order_acquire) == 0; }
  // Blocks; must not hold the GIL. The first error among the awaited programs.
  Status Await();
  // When the last event fired. Call only when done.
  Time time() const { return time_; }

 private:
  friend class Timeline;
  void Arrive(const Status& status);
  // False when already done; otherwise `follower` gets an arrival when this is.
  bool Notify(std::shared_ptr<Completion> follower);

  std::atomic<int> pending_{1};  // the creator's own arrival comes last
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Completion>> followers_;
  Status status_;
  Time time_;
};

class Timeline {
 public:
  static constexpr int kMaxDevices = 64;
  static Timeline& Of(int device);

  // `value` is an output of the program launched last. Hot: a lock and a pointer. Values up to
  // kHeldBytes are kept alive until the next launch; of larger ones only the ready event is kept.
  void Launched(const Ref<program::Value>& value);
  // Drops the timeline's reference to `value`, when it has one: call before asking whether a value
  // may be donated. The program that takes the donation reports its own output next.
  void Forget(const program::Value* value);
  // Trades the kept value for its ready event, so that memory figures count live tensors only.
  void ReleaseValue();

  // All work launched so far.
  std::shared_ptr<Completion> Mark();
  // Blocks until it is done; must not hold the GIL.
  Status Synchronize() { return Mark()->Await(); }

 private:
  static constexpr int64_t kHeldBytes = int64_t{1} << 20;
  static constexpr size_t kMaxOutstanding = 64;

  void PushReadyEvent(const program::Value& value);  // mutex_ held

  int device_ = 0;
  std::mutex mutex_;
  Ref<program::Value> latest_;  // launched after all of outstanding_
  // A CPU plugin may finish programs out of order, so each large one is remembered; on a TPU the
  // newest alone would do.
  std::deque<pjrt::Event> outstanding_;
  std::shared_ptr<Completion> mark_;  // the last one; stands for the events it took
  bool mark_is_current_ = false;      // nothing was launched after it
};

}  // namespace torch_tpu::device
