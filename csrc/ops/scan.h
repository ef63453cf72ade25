// SPDX-License-Identifier: Apache-2.0
// Inclusive prefix scans along one dimension.
#pragma once

#include <functional>

#include "csrc/ops/op.h"

namespace torch_tpu::ops {

// Combines two equally shaped operands, the left one from earlier positions. Associative.
using Combine = std::function<Values(const Values& earlier, const Values& later)>;

// out[i] = x[0] . x[1] ... x[i] along `dim` for several arrays of one shape scanned together. O(n)
// work in blocks and O(log n) depth; the order of rounding differs from a sequential loop.
Values Scan(const Values& xs, int dim, const Combine& combine);
Value CumulativeSum(Value x, int dim);

}  // namespace torch_tpu::ops
