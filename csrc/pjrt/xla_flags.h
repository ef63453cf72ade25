// SPDX-License-Identifier: Apache-2.0
// XLA ends the process when XLA_FLAGS (libtpu: LIBTPU_INIT_ARGS) holds a flag it does not know.
#pragma once

#include <string>

#include "csrc/base/status.h"

namespace torch_tpu::pjrt {

// An error when a flag's name occurs nowhere in the constants of the library that holds `symbol`.
// Costs nothing when the variables are unset. Bad values of known flags are not found.
Status CheckXlaFlags(const void* symbol, const std::string& path);

}  // namespace torch_tpu::pjrt
