// SPDX-License-Identifier: Apache-2.0
// torch dtypes and ours. A lookup by name, so that a new entry in torch's enum cannot shift it.
#pragma once

#include <c10/core/ScalarType.h>

#include "csrc/hlo/type.h"

namespace torch_tpu::eager {

// kInvalid when the device has no such dtype.
hlo::DType ToHlo(c10::ScalarType dtype);
c10::ScalarType FromHlo(hlo::DType dtype);
// A clear error naming the op when the device has no such dtype.
hlo::DType ToHloOrThrow(c10::ScalarType dtype, const char* op);

}  // namespace torch_tpu::eager
