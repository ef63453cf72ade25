// SPDX-License-Identifier: Apache-2.0
#include "csrc/eager/mode.h"

#include <c10/util/Exception.h>

#include "csrc/base/env.h"

namespace torch_tpu::eager {
namespace {

Mode Parse(std::string_view name) {
  if (name == "strict") return Mode::kStrict;
  if (name == "debug") return Mode::kDebug;
  if (name == "defer_and_fuse") return Mode::kDeferAndFuse;
  TORCH_CHECK_VALUE(false,
                    "torch.tpu eager mode: expected 'strict', 'debug' or 'defer_and_fuse', got '",
                    std::string(name), "'");
}

Mode FromEnvironment() {
  if (GetEnv("TORCH_TPU_LAUNCH_BLOCKING") == "1") return Mode::kDebug;
  if (GetEnv("TORCH_TPU_DEFER_AND_FUSE") == "1") return Mode::kDeferAndFuse;
  return Parse(GetEnv("TORCH_TPU_MODE"));
}

}  // namespace

namespace internal {
std::atomic<Mode> mode{Mode::kStrict};
}

void InitMode() { internal::mode.store(FromEnvironment(), std::memory_order_relaxed); }

void SetMode(std::string_view name) {
  internal::mode.store(Parse(name), std::memory_order_relaxed);
}

std::string_view ModeName() {
  switch (CurrentMode()) {
    case Mode::kStrict: return "strict";
    case Mode::kDebug: return "debug";
    case Mode::kDeferAndFuse: return "defer_and_fuse";
  }
  return "";
}

}  // namespace torch_tpu::eager
