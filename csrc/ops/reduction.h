// SPDX-License-Identifier: Apache-2.0
// What the reduction, order, softmax, norm and loss families share.
#pragma once

#include <string_view>

#include "csrc/hlo/builder.h"
#include "csrc/ops/indexing.h"
#include "csrc/ops/op.h"

namespace torch_tpu::ops {

// The input of a reduction that takes `dtype=`: rounded to result 0's dtype as torch does, then in
// its compute type; at least 1-d.
Value ReductionInput(Lowering& x, ArgRef self);
// Whether the overload called has an argument of this name.
bool Takes(Lowering& x, std::string_view name);
// The dims an int[]? (or int?) argument names; none, None or empty means all. `rank` is at least 1.
Dims ReducedDims(Lowering& x, const char* dim, int rank);
int64_t CountOver(Value v, const Dims& dims);
// `v`, which lacks `dims` after a reduction, with them back as ones.
Value KeepDims(Value v, const Dims& dims);
// s64 number of true elements.
Value CountTrue(Value pred, const Dims& dims);
// s32 positions along `dim`, shaped like `v`.
Value Positions(Value v, int dim);
// numpy's rule.
Dims BroadcastDims(const Dims& a, const Dims& b);
// All of them broadcast to their common shape; absent ones stay absent.
Values BroadcastTogether(Values vs);
// (|v|^p summed over dims)^(1/p), with torch's special cases. `v` in its compute type; real result.
Value VectorNorm(Value v, double p, const Dims& dims);

struct Extreme {
  Value value, index;  // `dim` dropped; index s64
};
// First index of the maximum (or minimum); a NaN wins, the first one.
Extreme ArgExtreme(Value v, int dim, bool maximum);

}  // namespace torch_tpu::ops
