// SPDX-License-Identifier: Apache-2.0
// Inclusive prefix scans along one dimension.
#pragma once

#include <functional>

#include "csrc/ops/op.h"

namespace torch_tpu::ops {

// Combines two equally shaped operands, the left one from earlier positions. Associative.
using Combine = std::function<Value(Value earlier, Value later)>;

// out[i] = x[0] . x[1] ... x[i] along `dim`. Blocks of log steps: the order of rounding differs
// from a sequential loop. A prefix reduce-window would be one op, but takes libtpu minutes to
// compile at 1M elements.
Value Scan(Value x, int dim, const Combine& combine);
Value CumulativeSum(Value x, int dim);

}  // namespace torch_tpu::ops
