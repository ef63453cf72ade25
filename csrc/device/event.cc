// SPDX-License-Identifier: Apache-2.0
#include "csrc/device/event.h"

#include <algorithm>

#include "csrc/device/error.h"

namespace torch_tpu::device {

void Event::Record(int device) {
  completion_ = Timeline::Of(device).Mark();
  recorded_ = std::chrono::steady_clock::now();
}

void Event::Synchronize() const { ThrowIfError(completion_->Await()); }

Completion::Time Event::ReadyTime() const { return std::max(recorded_, completion_->time()); }

double Event::ElapsedTime(const Event& end) const {
  return std::chrono::duration<double, std::milli>(end.ReadyTime() - ReadyTime()).count();
}

}  // namespace torch_tpu::device
