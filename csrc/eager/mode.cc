// SPDX-License-Identifier: Apache-2.0
#include "csrc/eager/mode.h"

#include <c10/util/Exception.h>

#include <atomic>

#include "csrc/base/env.h"

namespace torch_tpu::eager {
namespace {

Mode Parse(std::string_view name) {
  if (name == "strict") return Mode::kStrict;
  if (name == "debug") return Mode::kDebug;
  TORCH_CHECK_VALUE(false, "torch.tpu eager mode: expected 'strict' or 'debug', got '",
                    std::string(name), "'");
}

Mode FromEnvironment() {
  if (GetEnv("TORCH_TPU_LAUNCH_BLOCKING") == "1") return Mode::kDebug;
  return Parse(GetEnv("TORCH_TPU_MODE"));
}

// Threads that come later (autograd workers, DataLoader pinning) start in the last mode set.
std::atomic<Mode>& ProcessMode() {
  static std::atomic<Mode> mode{FromEnvironment()};
  return mode;
}

}  // namespace

namespace internal {
thread_local Mode mode = ProcessMode().load();
}

void SetMode(std::string_view name) {
  internal::mode = Parse(name);
  ProcessMode().store(internal::mode);
}

std::string_view ModeName() { return CurrentMode() == Mode::kDebug ? "debug" : "strict"; }

}  // namespace torch_tpu::eager
