// SPDX-License-Identifier: Apache-2.0
// The eager mode of the process: autograd's workers run in the mode of their caller. strict: each
// op runs as its own program. debug: and is waited for and checked, so that an error is raised at
// the line that caused it. defer_and_fuse: ops are recorded into a bounded window that runs as one
// program.
#pragma once

#include <atomic>
#include <string>
#include <string_view>

namespace torch_tpu::eager {

enum class Mode : unsigned char { kStrict, kDebug, kDeferAndFuse };

namespace internal {
extern std::atomic<Mode> mode;
}

inline Mode CurrentMode() { return internal::mode.load(std::memory_order_relaxed); }
// Reads TORCH_TPU_MODE and its kin; once, when the module loads. Throws on an unknown name, as
// SetMode.
void InitMode();
void SetMode(std::string_view name);
std::string_view ModeName();

}  // namespace torch_tpu::eager
