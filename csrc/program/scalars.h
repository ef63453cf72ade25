// SPDX-License-Identifier: Apache-2.0
// Run-time numbers as rank-0 device values, in a bounded cache per thread: a new learning rate
// costs one small transfer and no compile.
#pragma once

#include <cstdint>

#include "csrc/program/value.h"

namespace torch_tpu::program {

// `bits` holds the element's bytes, little end first (16 for c128).
struct ScalarBits {
  uint64_t lo = 0, hi = 0;
};

StatusOr<Ref<Value>> ScalarValue(pjrt::Device* device, hlo::DType dtype, ScalarBits bits);

}  // namespace torch_tpu::program
