// SPDX-License-Identifier: Apache-2.0
// The process's one PJRT client and program cache, opened at first use. Leaked by design: tensors
// may outlive every scope. Thread safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "csrc/base/status.h"
#include "csrc/pjrt/client.h"
#include "csrc/program/cache.h"

namespace torch_tpu::device {

class Runtime {
 public:
  // Opens the plugin on the first call; later calls give the same result, also the same error.
  static StatusOr<Runtime*> Get();
  // Get, or a torch exception.
  static Runtime& Require();
  // Null when not opened yet: for code that must not open it (count, memory figures, exit).
  static Runtime* IfOpen();
  // True in a process forked after the plugin was opened: its threads are gone, so every use fails.
  static bool InBadFork();
  // Folders in which plugin packages live; set once from Python before the first Get.
  static void SetSitePackages(std::vector<std::string> folders);

  // Devices without opening the plugin when the choice is the CPU runtime. Never throws: 0 on
  // error.
  static int DeviceCount();

  pjrt::Client& client() { return *client_; }
  pjrt::Device* device(int index) { return client_->devices()[index]; }
  int device_count() const { return static_cast<int>(client_->devices().size()); }
  program::ProgramCache& programs() { return program::ProgramCache::Get(); }
  bool host_is_device() const { return host_is_device_; }  // CPU runtime: buffers are host memory

 private:
  pjrt::Client* client_ = nullptr;
  bool host_is_device_ = false;
};

// The folder of the compile cache: the one set, else by TORCH_TPU_CACHE_DIR, XDG_CACHE_HOME and
// HOME;
// "" when off. Size cap in bytes likewise.
std::string CacheFolder();
int64_t CacheMaxBytes();
// Take effect at once, also before the runtime is open. "" turns the disk cache off, nullopt goes
// back to the environment's.
void SetCacheFolder(std::optional<std::string> folder);
void SetCacheMaxBytes(int64_t bytes);

}  // namespace torch_tpu::device
