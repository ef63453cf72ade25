// SPDX-License-Identifier: Apache-2.0
#include "plugins/fake_pjrt/objects.h"

#include <chrono>
#include <cstring>
#include <thread>

namespace fake_pjrt {

void Future::Complete(const Outcome& outcome) {
  std::vector<std::function<void(const Outcome&)>> callbacks;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (done_) return;
    done_ = true;
    outcome_ = outcome;
    callbacks.swap(callbacks_);
    changed_.notify_all();
  }
  for (auto& callback : callbacks) callback(outcome);
}

void Future::CompleteLater(const std::shared_ptr<Future>& future, const Outcome& outcome) {
  int delay = 0;
  {
    std::lock_guard<std::mutex> lock(GlobalState().mutex);
    delay = GlobalState().config.delay_ms;
  }
  if (delay <= 0) return future->Complete(outcome);
  std::thread([future, outcome, delay] {
    std::this_thread::sleep_for(std::chrono::milliseconds(delay));
    future->Complete(outcome);
  }).detach();
}

bool Future::done() {
  std::lock_guard<std::mutex> lock(mutex_);
  return done_;
}

Outcome Future::Wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return done_; });
  return outcome_;
}

void Future::Then(std::function<void(const Outcome&)> callback) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!done_) {
      callbacks_.push_back(std::move(callback));
      return;
    }
  }
  callback(outcome_);
}

PJRT_Error* Fail(int code, const std::string& message) { return new PJRT_Error{code, message}; }

PJRT_Error* Reserve(PJRT_Device* device, int64_t bytes) {
  int64_t limit = 0;
  {
    std::lock_guard<std::mutex> lock(GlobalState().mutex);
    limit = GlobalState().config.memory_limit;
  }
  int64_t now = device->bytes_in_use += bytes;
  if (limit < 0 || now <= limit) return nullptr;
  device->bytes_in_use -= bytes;
  return Fail(PJRT_Error_Code_RESOURCE_EXHAUSTED,
              "Out of memory allocating " + std::to_string(bytes) + " bytes.");
}

PJRT_Error* CheckAlive(const PJRT_Buffer* buffer) {
  if (!buffer->deleted) return nullptr;
  ++GlobalState().violations;
  return Fail(PJRT_Error_Code_INVALID_ARGUMENT, "Buffer has been deleted or donated.");
}

PJRT_Error* Execute(PJRT_LoadedExecutable* executable, PJRT_Buffer* const* arguments, size_t count,
                    PJRT_Buffer** outputs) {
  const Signature& signature = executable->signature;
  if (count != signature.arguments.size()) {
    return Fail(PJRT_Error_Code_INVALID_ARGUMENT, "Execution supplied " + std::to_string(count) +
                                                      " buffers but the program expected " +
                                                      std::to_string(signature.arguments.size()));
  }
  for (size_t i = 0; i < count; ++i) {
    if (PJRT_Error* error = CheckAlive(arguments[i])) return error;
    const bool alike = arguments[i]->type == signature.arguments[i].type;
    if (!alike || arguments[i]->device != executable->device) {
      return Fail(PJRT_Error_Code_INVALID_ARGUMENT,
                  "argument " + std::to_string(i) + " has the wrong type or device");
    }
    for (size_t k = 0; k < count; ++k) {
      if (k != i && arguments[k] == arguments[i] && signature.arguments[i].donated) {
        ++GlobalState().violations;
        return Fail(PJRT_Error_Code_INVALID_ARGUMENT, "a donated buffer was passed twice");
      }
    }
  }
  std::vector<std::unique_ptr<PJRT_Buffer>> made;
  for (const Type& type : signature.results) {
    if (PJRT_Error* error = Reserve(executable->device, type.bytes())) return error;
    made.push_back(std::make_unique<PJRT_Buffer>(executable->device, type));
    for (size_t i = 0; i < count; ++i) {
      if (!(arguments[i]->type == type)) continue;
      std::memcpy(made.back()->data, arguments[i]->data, static_cast<size_t>(type.bytes()));
      break;
    }
  }
  // Outputs are ready after all inputs, with the first error among them.
  struct Join {
    std::mutex mutex;
    size_t waiting;
    Outcome outcome;
    std::vector<std::shared_ptr<Future>> outputs;
  };
  auto join = std::make_shared<Join>();
  join->waiting = count + 1;
  for (auto& buffer : made) join->outputs.push_back(buffer->ready);
  auto arrive = [join](const Outcome& outcome) {
    std::lock_guard<std::mutex> lock(join->mutex);
    if (join->outcome.code == 0) join->outcome = outcome;
    if (--join->waiting > 0) return;
    for (auto& output : join->outputs) Future::CompleteLater(output, join->outcome);
  };
  for (size_t i = 0; i < count; ++i) arguments[i]->ready->Then(arrive);
  Outcome own;
  {
    State& state = GlobalState();
    std::lock_guard<std::mutex> lock(state.mutex);
    const int64_t call = state.calls["PJRT_LoadedExecutable_Execute"];
    for (const Failure& late : state.config.late) {
      if (late.nth == 0 || late.nth == call) own = {late.code, late.message};
    }
  }
  arrive(own);
  for (size_t i = 0; i < count; ++i) {
    if (signature.arguments[i].donated) arguments[i]->Delete();
  }
  for (size_t i = 0; i < made.size(); ++i) outputs[i] = made[i].release();
  return nullptr;
}

}  // namespace fake_pjrt

PJRT_Buffer::PJRT_Buffer(PJRT_Device* d, fake_pjrt::Type t) : device(d), type(std::move(t)) {
  owned = std::make_unique<char[]>(static_cast<size_t>(type.bytes()) + 1);
  data = owned.get();
}

void PJRT_Buffer::Delete() {
  if (deleted) return;
  deleted = true;
  device->bytes_in_use -= type.bytes();
  owned.reset();
  data = nullptr;
  if (host_done) host_done->Complete({});
}
