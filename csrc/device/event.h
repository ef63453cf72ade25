// SPDX-License-Identifier: Apache-2.0
// What a torch.Event of the device points at: the work launched before it was recorded.
#pragma once

#include <memory>

#include "csrc/device/timeline.h"

namespace torch_tpu::device {

// Recording again replaces the earlier record. Not thread safe, as torch.Event is not.
class Event {
 public:
  void Record(int device);
  bool Query() const { return completion_->done(); }
  // Throws the error of a program that failed. Blocks; must not hold the GIL.
  void Synchronize() const;
  // Milliseconds from this event to `end`. Both must be done.
  double ElapsedTime(const Event& end) const;

 private:
  // Work that was done before the record counts as done at the record.
  Completion::Time ReadyTime() const;

  std::shared_ptr<Completion> completion_;
  Completion::Time recorded_;
};

}  // namespace torch_tpu::device
