// SPDX-License-Identifier: Apache-2.0
#include "csrc/eager/precision.h"

#include <ATen/Context.h>

namespace torch_tpu::eager {

int MatmulPrecision() { return static_cast<int>(at::globalContext().float32MatmulPrecision()); }

const char* DotPrecision() {
  switch (at::globalContext().float32MatmulPrecision()) {
    case at::Float32MatmulPrecision::HIGHEST: return "HIGHEST";
    case at::Float32MatmulPrecision::HIGH: return "HIGH";
    case at::Float32MatmulPrecision::MEDIUM: return "DEFAULT";
  }
  return "HIGHEST";
}

}  // namespace torch_tpu::eager
