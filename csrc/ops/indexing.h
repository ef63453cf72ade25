// SPDX-License-Identifier: Apache-2.0
// Building blocks of the gather, scatter and compaction families. Free functions over hlo::Value;
// all of them accept zero-size operands. Indices may have any integer type.
#pragma once

#include <string_view>
#include <vector>

#include "csrc/hlo/builder.h"
#include "csrc/ops/op.h"
#include "csrc/ops/view.h"

namespace torch_tpu::ops {

Value AtLeast1d(Value x);  // rank 0 becomes [1]
Value Wide(Value x);       // in the compute type: accumulations of f16 and bf16 round once
Value Flat(Value x);       // rank 1, row-major

// The index as s32 (s64 when `bound` needs it). With `wrap`, negatives count from the end.
Value IndexValue(Value index, int64_t bound, bool wrap = true);

// The region of a scatter for "sum", "prod", "amax", "amin"; null (overwrite) for "".
hlo::Body Combiner(std::string_view reduce);
// The neutral element of that reduction, rank 0.
Value Neutral(hlo::Builder& b, std::string_view reduce, DType dtype);

// out[i][j][k] = operand[i][index[j]][k] for dim = 1; `index` has rank 1.
Value TakeRows(Value operand, Value index, int dim);
// operand[i][index[j]][k] = combine(old, updates[i][j][k]) for dim = 1. Out-of-range rows are
// dropped.
Value ScatterRows(Value operand, Value index, Value updates, int dim,
                  const hlo::Body& combiner = nullptr);

// torch.gather: out[i][j] = operand[i][index[i][j]] for dim = 1. Equal ranks, at least 1.
Value GatherAlong(Value operand, Value index, int dim);
// torch.scatter: operand[i][index[i][j]] = combine(old, updates[i][j]) for dim = 1.
Value ScatterAlong(Value operand, Value index, Value updates, int dim,
                   const hlo::Body& combiner = nullptr);

// Advanced indexing, resolved: which dims are indexed, and where the indices' dims go in the
// result.
struct AdvancedIndex {
  Value starts;    // [broadcast..., indexed dims], or [broadcast...] when one dim is indexed
  Dims indexed;    // operand dims, ascending
  Dims broadcast;  // common shape of the indices
  Dims offset;     // result dims that come from operand dims that are not indexed
  Dims result;     // shape of operand[indices]
};
// `indices` may hold absent values and be shorter than the rank; at least one must be present.
AdvancedIndex ResolveIndices(Value operand, const Values& indices);
Value GatherAdvanced(Value operand, const AdvancedIndex& index);
Value ScatterAdvanced(Value operand, const AdvancedIndex& index, Value updates,
                      const hlo::Body& combiner = nullptr);

// x[start:end:step] along a dim, as Python counts.
struct Slicing {
  int64_t start, limit, step, length;
};
Slicing ResolveSlice(int64_t size, int64_t start, int64_t end, int64_t step);

// A row-major view of all of `base`.
View ContiguousView(const Shape& base);

// `self` with its (dim1, dim2) diagonal replaced by `diagonal`, whose last dim runs along it.
Value WriteDiagonal(Value self, Value diagonal, int64_t offset, int dim1, int dim2);

// Inclusive count of true elements, s32 [n] for an i1 [n].
Value CountScan(Value flags);
// Positions of the true elements of an i1 [n] in order, as s32 [n]; n behind the last one. `scan`
// is CountScan(flags).
Value TruePositions(Value flags, Value scan);

// For a rank-1 `sorted` (NaN last), the first position whose element is not below each query: s32.
Value LowerBound(Value sorted, Value queries);
// a < b with NaN above everything, for sort regions.
Value TotalLess(Value a, Value b);

}  // namespace torch_tpu::ops
