// SPDX-License-Identifier: Apache-2.0
// Inclusive prefix scans along one dimension.
#pragma once

#include <string_view>

#include "csrc/ops/op.h"

namespace torch_tpu::ops {

// out[i] = x[0] . x[1] ... x[i] along `dim`. `op` is an associative binary mnemonic, `init` its
// neutral element (rank 0). One reduce-window: XLA splits it into blocks, so it is not quadratic.
Value Scan(std::string_view op, Value x, Value init, int dim);
Value CumulativeSum(Value x, int dim);

}  // namespace torch_tpu::ops
