// SPDX-License-Identifier: Apache-2.0
#include "csrc/program/store_queue.h"

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace torch_tpu::program {

StoreQueue& StoreQueue::Get() {
  static auto* queue = new StoreQueue();
  return *queue;
}

void StoreQueue::Add(std::function<void()> job) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!std::exchange(started_, true)) {
    // Signals are for the threads of the program.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread([this] { Run(); }).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  jobs_.push_back(std::move(job));
  ++added_;
  changed_.notify_all();
}

void StoreQueue::Drain() {
  std::unique_lock<std::mutex> lock(mutex_);
  uint64_t goal = added_;
  changed_.wait(lock, [&] { return done_ >= goal; });
}

void StoreQueue::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return !jobs_.empty(); });
    {
      std::function<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
    }  // what the job held is released before it counts as done
    lock.lock();
    ++done_;
    changed_.notify_all();
  }
}

}  // namespace torch_tpu::program
