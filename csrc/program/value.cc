// SPDX-License-Identifier: Apache-2.0
#include "csrc/program/value.h"

#include <map>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "csrc/program/window.h"

namespace torch_tpu::program {

const hlo::Shape* InternShape(const hlo::Shape& shape) {
  static auto* mutex = new std::shared_mutex();
  static auto* table = new std::map<std::pair<hlo::DType, hlo::Dims>, const hlo::Shape*>();
  auto key = std::make_pair(shape.dtype, shape.dims);
  {
    std::shared_lock lock(*mutex);
    auto it = table->find(key);
    if (it != table->end()) return it->second;
  }
  std::unique_lock lock(*mutex);
  auto [it, inserted] = table->try_emplace(std::move(key), nullptr);
  if (inserted) it->second = new hlo::Shape(shape);
  return it->second;
}

const char* CloseReasonName(CloseReason reason) {
  switch (reason) {
    case CloseReason::kHostRead: return "host_read";
    case CloseReason::kSize: return "size";
    case CloseReason::kBytes: return "bytes";
    case CloseReason::kRepeat: return "repeat";
    case CloseReason::kOtherThread: return "other_thread";
    case CloseReason::kSynchronize: return "synchronize";
    case CloseReason::kOtherDevice: return "other_device";
    case CloseReason::kMode: return "mode";
    case CloseReason::kDeterministic: return "deterministic";
    case CloseReason::kCount: break;
  }
  return "";
}

Status Value::Resolve(CloseReason reason) const {
  if (state_.load(std::memory_order_acquire) == State::kReady) [[likely]]
    return OkStatus();
  if (pending()) {
    Status closed = Window::Of(device_).Close(reason);
    // Another thread may have closed it first; then the state tells.
    if (!closed.ok() && pending()) return closed;
  }
  if (state_.load(std::memory_order_acquire) == State::kFailed) return *error_;
  return pending() ? Internal("a pending value without a window") : OkStatus();
}

Status Value::Await() const {
  TT_RETURN_IF_ERROR(Resolve());
  TT_ASSIGN_OR_RETURN(pjrt::Event ready, buffer_.Ready());
  return ready.Await();
}

}  // namespace torch_tpu::program
