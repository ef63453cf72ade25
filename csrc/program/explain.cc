// SPDX-License-Identifier: Apache-2.0
#include "csrc/program/explain.h"

#include <chrono>
#include <mutex>

#include "csrc/base/counters.h"

namespace torch_tpu::program {
namespace {

constexpr size_t kMaxRecords = 100000;

std::mutex mutex;
std::vector<ExplainRecord>& Records() {
  static auto* records = new std::vector<ExplainRecord>();
  return *records;
}
std::atomic<std::string (*)()> line_hook{nullptr};

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

std::atomic<bool> Explain::on_{false};

void Explain::Start() {
  std::lock_guard<std::mutex> lock(mutex);
  Records().clear();
  on_.store(true);
}

std::vector<ExplainRecord> Explain::Stop() {
  std::lock_guard<std::mutex> lock(mutex);
  on_.store(false);
  return std::move(Records());
}

void Explain::Add(ExplainRecord record) {
  std::lock_guard<std::mutex> lock(mutex);
  if (Records().size() < kMaxRecords) Records().push_back(std::move(record));
}

std::string Explain::CurrentLine() {
  auto hook = line_hook.load();
  return hook == nullptr ? "" : hook();
}

void Explain::SetLineHook(std::string (*hook)()) { line_hook.store(hook); }

Outcome::Outcome()
    : compiles_(Get(Counter::kCompiles)),
      disk_hits_(Get(Counter::kDiskHits)),
      started_ns_(NowNs()) {}

const char* Outcome::name() const {
  if (Get(Counter::kCompiles) != compiles_) return "compiled";
  return Get(Counter::kDiskHits) != disk_hits_ ? "disk" : "memory";
}

double Outcome::milliseconds() const { return static_cast<double>(NowNs() - started_ns_) * 1e-6; }

}  // namespace torch_tpu::program
