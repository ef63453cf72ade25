// SPDX-License-Identifier: Apache-2.0
// Ops whose result size depends on the data. A program has fixed shapes, so these blocks give
// results padded to their largest size with the true count; the eager layer reads the count and
// slices. The table names are ours ("tpu::"), and x.result is not available in them.
#include "csrc/ops/indexing.h"
#include "csrc/ops/op.h"
#include "csrc/ops/scan.h"

namespace torch_tpu::ops {
namespace {

// Rank-0 s64 number of true elements, from their scan.
Value Count(Value scan) {
  auto& b = scan.builder();
  int64_t n = scan.numel();
  if (n == 0) return b.ConstantInt(DType::kS64, 0);
  return Convert(Reshape(b.SliceDim(scan, 0, n - 1, n), {}), DType::kS64);
}

// Row-major positions of nonzero elements [numel] (numel behind the last) and their count.
struct Nonzero {
  Value positions, count;
};

Nonzero FindNonzero(Value self) {
  Value flags = Flat(self.dtype() == DType::kPred ? self : Ne(self, ZerosLike(self)));
  Value scan = CountScan(flags);
  return {TruePositions(flags, scan), Count(scan)};
}

// Splits flat positions [n] into coordinates [n, rank], s64.
Value Coordinates(Value positions, const Dims& dims) {
  auto& b = positions.builder();
  int64_t n = positions.numel(), inner = 1;
  if (dims.empty()) return b.ConstantInt(DType::kS64, 0, {n, 0});
  Values columns(dims.size());
  for (int i = static_cast<int>(dims.size()) - 1; i >= 0; --i) {
    Value coordinate = positions / b.ConstantInt(positions.dtype(), std::max<int64_t>(inner, 1));
    coordinate =
        Rem(coordinate, b.ConstantInt(positions.dtype(), std::max<int64_t>(dims[i], 1), {n}));
    columns[i] = Reshape(Convert(coordinate, DType::kS64), {n, 1});
    inner *= dims[i];
  }
  return b.Concatenate(columns, 1);
}

// Where a run of equal neighbours (rows, from rank 2 on) starts. NaNs differ from each other, as in
// torch.
Value RunStarts(Value x) {
  auto& b = x.builder();
  int64_t n = x.dim(0);
  Value first = b.ConstantInt(DType::kPred, 1, {n == 0 ? 0 : 1});
  if (n < 2) return first;
  Value differs = Ne(b.SliceDim(x, 0, 1, n), b.SliceDim(x, 0, 0, n - 1));
  Dims within;
  for (int i = 1; i < x.rank(); ++i) within.push_back(i);
  if (!within.empty()) differs = AnyReduceOr(differs, within);
  return b.Concatenate({first, differs}, 0);
}

struct Runs {
  Value values, counts, run_of, number;  // padded, padded, [n] s32, rank 0
};

Runs FindRuns(Value x) {
  auto& b = x.builder();
  int64_t n = x.dim(0);
  Value starts = RunStarts(x), scan = CountScan(starts);
  Value positions = TruePositions(starts, scan);
  Value ends = n == 0
                   ? positions
                   : b.Pad(b.SliceDim(positions, 0, 1, n), b.ConstantInt(DType::kS32, n), {0}, {1});
  return {TakeRows(x, positions, 0), Convert(ends - positions, DType::kS64),
          n == 0 ? scan : scan - 1.0, Count(scan)};
}

}  // namespace

// (self) -> coordinates [numel, rank] s64, count
OP("tpu::nonzero_padded", {.tolerance = Tolerance::kExact}) {
  Value self = x.tensor(0);
  Nonzero found = FindNonzero(self);
  return {Coordinates(found.positions, self.dims()), found.count};
}

// (self, mask) of one shape -> values [numel], count
OP("tpu::masked_select_padded", {.tolerance = Tolerance::kExact}) {
  Value self = x.tensor(0);
  Nonzero found = FindNonzero(x.tensor(1));
  return {TakeRows(Flat(self), found.positions, 0), found.count};
}

// (self) -> sorted distinct values [numel], inverse (shape of self) s64, counts [numel] s64, count
OP("tpu::unique_padded", {.tolerance = Tolerance::kExact}) {
  Value self = x.tensor(0);
  auto& b = x.builder();
  Value flat = Flat(self);
  int64_t n = flat.numel();
  Values sorted = b.Sort({flat, b.Iota(DType::kS32, {n}, 0)}, 0, true,
                         [](const Values& v) -> Values { return {TotalLess(v[0], v[1])}; });
  Runs runs = FindRuns(sorted[0]);
  Value inverse = ScatterRows(b.ConstantInt(DType::kS32, 0, {n}), sorted[1], runs.run_of, 0);
  return {runs.values, Reshape(Convert(inverse, DType::kS64), self.dims()), runs.counts,
          runs.number};
}

// The same without the sort: runs of equal neighbours of the flattened tensor.
OP("tpu::unique_consecutive_padded", {.tolerance = Tolerance::kExact}) {
  Value self = x.tensor(0);
  Runs runs = FindRuns(Flat(self));
  return {runs.values, Reshape(Convert(runs.run_of, DType::kS64), self.dims()), runs.counts,
          runs.number};
}

namespace {

// The order that sorts rows [n, m] lexicographically, s32 [n]: one stable sort per column, last to
// first.
Value RowOrder(Value rows) {
  auto& b = rows.builder();
  int64_t n = rows.dim(0), m = rows.dim(1);
  if (rows.numel() == 0) return b.Iota(DType::kS32, {n}, 0);
  auto more = [&b](const Values& v) -> Values { return {v[0] >= 0.0}; };
  auto pass = [&](const Values& v) -> Values {
    Value column = b.DynamicSlice(rows, {b.ConstantInt(DType::kS32, 0), v[0]}, {n, 1});
    Values sorted = b.Sort({TakeRows(Flat(column), v[1], 0), v[1]}, 0, true,
                           [](const Values& k) -> Values { return {TotalLess(k[0], k[1])}; });
    return {v[0] - 1.0, sorted[1]};
  };
  Values init = {b.ConstantInt(DType::kS32, m - 1), b.Iota(DType::kS32, {n}, 0)};
  return b.While(init, more, pass)[1];
}

}  // namespace

// (self [n, m]) -> sorted distinct rows [n, m], inverse [n] s64, counts [n] s64, count
OP("tpu::unique_rows_padded", {.tolerance = Tolerance::kExact}) {
  Value self = x.tensor(0);
  Value order = RowOrder(self);
  Runs runs = FindRuns(TakeRows(self, order, 0));
  Value inverse = ScatterRows(ZerosLike(order), order, runs.run_of, 0);
  return {runs.values, Convert(inverse, DType::kS64), runs.counts, runs.number};
}

// The same without the sort.
OP("tpu::unique_rows_consecutive_padded", {.tolerance = Tolerance::kExact}) {
  Runs runs = FindRuns(x.tensor(0));
  return {runs.values, Convert(runs.run_of, DType::kS64), runs.counts, runs.number};
}

// (repeats [n], int output_size) -> [output_size]: i, repeats[i] times. The caller has summed
// repeats.
OP("tpu::repeat_interleave_sized", {.tolerance = Tolerance::kExact}) {
  Value repeats = x.tensor(0);
  auto& b = x.builder();
  int64_t size = x.integer(1);
  Value ends = CumulativeSum(repeats, 0);
  // Each end adds one to all that follows it.
  Value steps = ScatterRows(b.ConstantInt(DType::kS32, 0, {size}), IndexValue(ends, size, false),
                            b.ConstantInt(DType::kS32, 1, {ends.numel()}), 0, Combiner("sum"));
  return Convert(CumulativeSum(steps, 0), repeats.dtype());
}

// (self [n] of integers, weights [n] or None, int size) -> [size]. The caller knows the maximum.
OP("tpu::bincount_sized", {.tolerance = Tolerance::kAccumulate}) {
  auto& b = x.builder();
  int64_t size = x.integer(2);
  Value index = IndexValue(x.tensor(0), size, false);
  Value weights = b.ConstantInt(DType::kS64, 1, index.dims());
  if (x.has(1)) {
    weights = x.tensor(1);
    if (weights.dtype() != DType::kF32) weights = Convert(weights, DType::kF64);
  }
  return ScatterRows(b.Constant(weights.dtype(), 0, {size}), index, weights, 0, Combiner("sum"));
}

OP("aten::nonzero_static", {.tolerance = Tolerance::kExact}) {
  Value self = x.tensor("self");
  auto& b = x.builder();
  int64_t size = x.integer("size"), n = self.numel();
  Nonzero found = FindNonzero(self);
  Value positions = found.positions;
  positions = n >= size ? b.SliceDim(positions, 0, 0, size)
                        : b.Pad(positions, b.ConstantInt(DType::kS32, n), {0}, {size - n});
  Value rows = Coordinates(positions, self.dims());
  Value valid = b.BroadcastInDim(positions < static_cast<double>(n), rows.dims(), {0});
  return Select(valid, rows, b.ConstantInt(DType::kS64, x.integer("fill_value"), rows.dims()));
}

// Membership by comparing all pairs while they are few, else by a search among the sorted elements.
OPS(({"aten::isin.Tensor_Tensor", "aten::isin.Tensor_Scalar", "aten::isin.Scalar_Tensor"}),
    {.tolerance = Tolerance::kExact}) {
  auto& b = x.builder();
  DType dtype = x.common_dtype();
  Value elements = Flat(Convert(x.tensor(0), dtype)), tests = Flat(Convert(x.tensor(1), dtype));
  int64_t n = elements.numel(), m = tests.numel();
  Value found;
  if (n == 0 || m == 0) {
    found = b.ConstantInt(DType::kPred, 0, {n});
  } else if (m <= 128) {
    found = AnyReduceOr(
        Eq(b.BroadcastInDim(elements, {n, m}, {0}), b.BroadcastInDim(tests, {n, m}, {1})), {1});
  } else {
    Value sorted = b.Sort({tests}, 0, false,
                          [](const Values& v) -> Values { return {TotalLess(v[0], v[1])}; })[0];
    found = Eq(TakeRows(sorted, LowerBound(sorted, elements), 0), elements);
  }
  if (x.boolean("invert")) found = ~found;
  return Reshape(found, x.result().dims);
}

}  // namespace torch_tpu::ops
