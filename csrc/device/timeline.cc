// SPDX-License-Identifier: Apache-2.0
#include "csrc/device/timeline.h"

#include <utility>

#include "csrc/program/window.h"

namespace torch_tpu::device {

Status Completion::Await() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return done(); });
  return status_;
}

void Completion::Arrive(const Status& status) {
  std::vector<std::shared_ptr<Completion>> followers;
  Status result;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!status.ok() && status_.ok()) status_ = status;
    time_ = std::chrono::steady_clock::now();
    if (pending_.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
    changed_.notify_all();
    followers.swap(followers_);
    result = status_;
  }
  for (auto& follower : followers) follower->Arrive(result);
}

bool Completion::Notify(std::shared_ptr<Completion> follower) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (done()) return false;
  followers_.push_back(std::move(follower));
  return true;
}

Timeline& Timeline::Of(int device) {
  // Leaked: values may be released after static destructors ran.
  static auto* timelines = [] {
    auto* made = new Timeline[kMaxDevices];
    for (int i = 0; i < kMaxDevices; ++i) made[i].device_ = i;
    program::Window::SetLaunchHook([](const Ref<program::Value>& value) {
      Timeline::Of(value->device()->index()).Launched(value);
    });
    return made;
  }();
  return timelines[device];
}

void Timeline::Launched(const Ref<program::Value>& value) {
  Ref<program::Value> previous;  // released after the lock
  std::lock_guard<std::mutex> lock(mutex_);
  mark_is_current_ = false;
  if (value->bytes() <= kHeldBytes) [[likely]] {
    previous = std::exchange(latest_, value);
    return;
  }
  PushReadyEvent(*value);
}

void Timeline::Forget(const program::Value* value) {
  Ref<program::Value> previous;
  std::lock_guard<std::mutex> lock(mutex_);
  if (latest_.get() == value) previous = std::move(latest_);
}

void Timeline::ReleaseValue() {
  Ref<program::Value> previous;
  std::lock_guard<std::mutex> lock(mutex_);
  if (!latest_) return;
  PushReadyEvent(*latest_);
  previous = std::move(latest_);
}

void Timeline::PushReadyEvent(const program::Value& value) {
  while (!outstanding_.empty() &&
         (outstanding_.size() >= kMaxOutstanding || outstanding_.front().IsReady())) {
    outstanding_.pop_front();
  }
  // Failing to get an event means the buffer is gone (donated): its consumer stands for it.
  StatusOr<pjrt::Event> ready = value.buffer().Ready();
  if (ready.ok()) outstanding_.push_back(std::move(ready).value());
}

std::shared_ptr<Completion> Timeline::Mark() {
  // What is still being recorded counts as launched.
  Status closed = program::Window::CloseIfOpen(device_, program::CloseReason::kSynchronize);
  Ref<program::Value> previous;
  std::lock_guard<std::mutex> lock(mutex_);
  if (mark_is_current_ && closed.ok()) return mark_;
  if (latest_) {
    PushReadyEvent(*latest_);
    previous = std::move(latest_);
  }
  auto mark = std::make_shared<Completion>();
  for (pjrt::Event& event : outstanding_) {
    mark->pending_.fetch_add(1, std::memory_order_relaxed);
    Status status = event.OnReady([mark](Status s) { mark->Arrive(s); });
    if (!status.ok()) mark->Arrive(status);
  }
  outstanding_.clear();
  if (mark_) {
    mark->pending_.fetch_add(1, std::memory_order_relaxed);
    if (!mark_->Notify(mark)) mark->Arrive(OkStatus());
  }
  mark->Arrive(closed);
  mark_ = mark;
  mark_is_current_ = true;
  return mark;
}

}  // namespace torch_tpu::device
