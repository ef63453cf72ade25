// SPDX-License-Identifier: Apache-2.0
// An immutable array on one device. Ready (owns a PJRT buffer), pending (an output of a recorded
// call whose window is still open) or failed. Slots and programs share it; its content never
// changes.
#pragma once

#include <atomic>
#include <memory>

#include "csrc/base/ref.h"
#include "csrc/base/status.h"
#include "csrc/hlo/type.h"
#include "csrc/pjrt/client.h"

namespace torch_tpu::program {

// One address per distinct shape, for the life of the process: compare shapes by pointer first.
const hlo::Shape* InternShape(const hlo::Shape& shape);

// Why a window closed; counted and shown by torch.tpu.metrics()["flushes"].
enum class CloseReason : uint8_t {
  kHostRead,       // a value was read on the host
  kSize,           // as many ops as a window may hold
  kBytes,          // as many output bytes
  kRepeat,         // the same run of ops came again: cut where it recurs
  kOtherThread,    // another thread recorded or read
  kSynchronize,    // an event or synchronize
  kOtherDevice,    // a copy between devices
  kMode,           // an op that runs at once took a pending value
  kDeterministic,  // deterministic algorithms turn fusion off
  kCount,
};
const char* CloseReasonName(CloseReason reason);

class Value : public RefCounted<Value> {
 public:
  // Ready.
  Value(const hlo::Shape* shape, pjrt::Buffer buffer)
      : shape_(shape),
        device_(buffer.device()),
        bytes_(shape->bytes()),
        buffer_(std::move(buffer)) {}
  // Pending. `bytes` is the shape's.
  Value(const hlo::Shape* shape, int64_t bytes, pjrt::Device* device)
      : shape_(shape), device_(device), bytes_(bytes), state_(State::kPending) {}

  const hlo::Shape& shape() const { return *shape_; }
  const hlo::Shape* interned_shape() const { return shape_; }
  pjrt::Device* device() const { return device_; }
  int64_t bytes() const { return bytes_; }

  bool pending() const { return state_.load(std::memory_order_acquire) == State::kPending; }
  // Makes the value ready: closes its window when pending. Gives the error of a failed one. After
  // success buffer() may be used. Must not hold the GIL.
  Status Resolve(CloseReason reason = CloseReason::kHostRead) const;
  // Only when resolved.
  const pjrt::Buffer& buffer() const { return buffer_; }
  // Resolves, then blocks until computed; the error of the program that failed to make it.
  Status Await() const;

 private:
  friend class Window;
  enum class State : uint8_t { kReady, kPending, kFailed };

  const hlo::Shape* shape_;
  pjrt::Device* device_;
  int64_t bytes_;
  pjrt::Buffer buffer_;
  std::atomic<State> state_{State::kReady};
  std::unique_ptr<Status> error_;  // set before the state becomes kFailed
  // The window's: which of its values this is, valid for the window of that serial number.
  uint64_t window_ = 0;
  int32_t number_ = -1;
};

}  // namespace torch_tpu::program
