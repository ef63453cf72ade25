// SPDX-License-Identifier: Apache-2.0
// The eager mode of this thread. strict: each op runs as its own program. debug: and is waited for and
// checked, so that an error is raised at the line that caused it.
#pragma once

#include <string>
#include <string_view>

namespace torch_tpu::eager {

enum class Mode : unsigned char { kStrict, kDebug };

namespace internal {
extern thread_local Mode mode;
}

inline Mode CurrentMode() { return internal::mode; }
// Throws on an unknown name. The process default serves threads that set nothing.
void SetMode(std::string_view name);
std::string_view ModeName();

}  // namespace torch_tpu::eager
