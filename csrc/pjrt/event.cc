// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <utility>

#include "csrc/pjrt/api.h"
#include "csrc/pjrt/client.h"

namespace torch_tpu::pjrt {
namespace {

struct Pending {
  const Plugin* plugin;
  std::function<void(Status)> callback;
};

void RunPending(PJRT_Error* error, void* user_arg) {
  std::unique_ptr<Pending> pending(static_cast<Pending*>(user_arg));
  pending->callback(pending->plugin->ToStatus(error));
}

}  // namespace

Event::~Event() {
  if (raw_ == nullptr) return;
  Args<PJRT_Event_Destroy_Args> args;
  args.event = raw_;
  // Destruction has nobody to report to; the status only frees the error.
  (void)client_->plugin().ToStatus(client_->plugin().api()->PJRT_Event_Destroy(&args));
}

Event::Event(Event&& o) noexcept : client_(o.client_), raw_(std::exchange(o.raw_, nullptr)) {}

Event& Event::operator=(Event&& o) noexcept {
  std::swap(client_, o.client_);
  std::swap(raw_, o.raw_);
  return *this;
}

bool Event::IsReady() const {
  if (raw_ == nullptr) return true;
  Args<PJRT_Event_IsReady_Args> args;
  args.event = raw_;
  Status status = client_->plugin().ToStatus(client_->plugin().api()->PJRT_Event_IsReady(&args));
  return !status.ok() || args.is_ready;
}

Status Event::Await() const {
  if (raw_ == nullptr) return OkStatus();
  Args<PJRT_Event_Await_Args> args;
  args.event = raw_;
  return client_->plugin().ToStatus(client_->plugin().api()->PJRT_Event_Await(&args));
}

Status Event::OnReady(std::function<void(Status)> callback) {
  if (raw_ == nullptr) {
    callback(OkStatus());
    return OkStatus();
  }
  auto pending = std::make_unique<Pending>(Pending{&client_->plugin(), std::move(callback)});
  Args<PJRT_Event_OnReady_Args> args;
  args.event = raw_;
  args.callback = RunPending;
  args.user_arg = pending.get();
  Status status = client_->plugin().ToStatus(client_->plugin().api()->PJRT_Event_OnReady(&args));
  if (status.ok()) pending.release();  // RunPending owns it now
  return status;
}

}  // namespace torch_tpu::pjrt
