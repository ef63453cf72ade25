// SPDX-License-Identifier: Apache-2.0
#include "csrc/device/runtime.h"

#include <malloc.h>
#include <pthread.h>
#include <torch/version.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "csrc/base/env.h"
#include "csrc/device/error.h"

namespace torch_tpu::device {
namespace {

std::mutex mutex;
std::atomic<Runtime*> opened{nullptr};
Status* failure = nullptr;
std::atomic<bool> bad_fork{false};

std::mutex cache_mutex;
std::optional<std::string> chosen_folder;  // instead of the environment's
std::atomic<int64_t> max_bytes{-1};        // instead of the environment's, when not negative

// The child inherits the client but none of the plugin's threads.
void PoisonForkedChildren() {
  pthread_atfork([] { mutex.lock(); }, [] { mutex.unlock(); },
                 [] {
                   opened.store(nullptr);
                   bad_fork.store(true);
                   failure = new Status(FailedPrecondition(
                       "Cannot use tpu in a process forked after tpu was initialized. Try: the "
                       "'spawn' start method (torch.multiprocessing.set_start_method), or keep "
                       "tensors of DataLoader workers on the CPU."));
                   mutex.unlock();
                 });
}

std::vector<std::string>& SitePackages() {
  static auto* folders = new std::vector<std::string>();
  return *folders;
}

int CpuDevices() {
  return static_cast<int>(std::clamp<int64_t>(GetEnvInt("TORCH_TPU_CPU_DEVICES"), 1,
                                              program::CompiledProgram::kMaxDevices));
}

// The CPU plugin takes its buffers from malloc, which gives large ones back to the system at once:
// each large output would pay its page faults anew (measured: 2x on 1024 x 1024 ops).
void KeepFreedPages() {
  ::mallopt(M_MMAP_THRESHOLD, 1 << 30);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

}  // namespace

StatusOr<Runtime*> Runtime::Get() {
  if (Runtime* runtime = opened.load(std::memory_order_acquire)) return runtime;
  std::lock_guard<std::mutex> lock(mutex);
  if (Runtime* runtime = opened.load(std::memory_order_acquire)) return runtime;
  if (failure != nullptr) return *failure;
  // CPU plugins greet on stderr; they read this once, as they load.
  setenv("TF_CPP_MIN_LOG_LEVEL", "1", /*overwrite=*/0);
  auto open = []() -> StatusOr<Runtime*> {
    TT_ASSIGN_OR_RETURN(pjrt::RuntimeChoice choice, pjrt::ChooseRuntime(SitePackages()));
    TT_ASSIGN_OR_RETURN(pjrt::Plugin * plugin, pjrt::Plugin::Load(choice.path));
    auto runtime = std::make_unique<Runtime>();
    // A plugin given by path is asked for CPU devices too; Client drops what does not apply.
    bool cpu = choice.kind == pjrt::RuntimeKind::kCpu || choice.kind == pjrt::RuntimeKind::kPath;
    TT_ASSIGN_OR_RETURN(runtime->client_, pjrt::Client::Create(plugin, cpu ? CpuDevices() : 0));
    runtime->host_is_device_ = runtime->client_->platform() == "cpu";
    if (runtime->host_is_device_) KeepFreedPages();
    TT_ASSIGN_OR_RETURN(std::string print, program::Fingerprint(*runtime->client_, TORCH_VERSION));
    program::ProgramCache::Set(new program::ProgramCache(
        std::move(print), std::make_unique<program::DiskCache>(CacheFolder(), CacheMaxBytes())));
    return runtime.release();
  };
  StatusOr<Runtime*> runtime = open();
  if (runtime.ok()) {
    PoisonForkedChildren();
    opened.store(*runtime, std::memory_order_release);
  } else {
    failure = new Status(runtime.status());
  }
  return runtime;
}

Runtime& Runtime::Require() {
  if (Runtime* runtime = opened.load(std::memory_order_acquire)) return *runtime;
  StatusOr<Runtime*> runtime = Get();
  ThrowIfError(runtime.status());
  return **runtime;
}

bool Runtime::InBadFork() { return bad_fork.load(std::memory_order_relaxed); }

Runtime* Runtime::IfOpen() { return opened.load(std::memory_order_acquire); }

void Runtime::SetSitePackages(std::vector<std::string> folders) {
  SitePackages() = std::move(folders);
}

int Runtime::DeviceCount() {
  if (Runtime* runtime = IfOpen()) return runtime->device_count();
  static const bool cpu = [] {
    StatusOr<pjrt::RuntimeChoice> choice = pjrt::ChooseRuntime(SitePackages());
    return choice.ok() && choice->kind == pjrt::RuntimeKind::kCpu;
  }();
  if (cpu) return CpuDevices();
  StatusOr<Runtime*> runtime = Get();
  return runtime.ok() ? (*runtime)->device_count() : 0;
}

std::string CacheFolder() {
  {
    std::lock_guard<std::mutex> lock(cache_mutex);
    if (chosen_folder) return *chosen_folder;
  }
  if (GetEnv("TORCH_TPU_CACHE") == "0") return "";
  std::string folder = GetEnv("TORCH_TPU_CACHE_DIR");
  if (!folder.empty()) return folder;
  std::string base = GetEnv("XDG_CACHE_HOME");
  if (base.empty()) {
    std::string home = GetEnv("HOME");
    if (home.empty()) return "";
    base = home + "/.cache";
  }
  return base + "/torch_tpu";
}

int64_t CacheMaxBytes() {
  int64_t bytes = max_bytes.load();
  if (bytes < 0) bytes = GetEnvInt("TORCH_TPU_CACHE_MAX_BYTES");
  return std::max<int64_t>(bytes, 0);
}

void SetCacheFolder(std::optional<std::string> folder) {
  {
    std::lock_guard<std::mutex> lock(cache_mutex);
    chosen_folder = std::move(folder);
  }
  if (Runtime* runtime = Runtime::IfOpen()) {
    runtime->programs().SetDisk(
        std::make_unique<program::DiskCache>(CacheFolder(), CacheMaxBytes()));
  }
}

void SetCacheMaxBytes(int64_t bytes) {
  max_bytes.store(bytes);
  if (Runtime* runtime = Runtime::IfOpen()) runtime->programs().disk()->set_max_bytes(bytes);
}

}  // namespace torch_tpu::device
