// SPDX-License-Identifier: Apache-2.0
// Sorting, order statistics and sorted search. NaN counts as greater than everything, as in torch.
#include <algorithm>
#include <limits>

#include "csrc/ops/indexing.h"
#include "csrc/ops/op.h"
#include "csrc/ops/reduction.h"
#include "csrc/ops/scan.h"

namespace torch_tpu::ops {
namespace {

constexpr Tolerance kExact = Tolerance::kExact;

struct Sorted {
  Value values, positions;  // positions s32
};

// Stable, also when descending.
Sorted SortAlong(Value v, int dim, bool descending) {
  const DType dtype = v.dtype();
  Value keys = dtype == DType::kPred ? Convert(v, DType::kS32) : v;
  Values out = v.builder().Sort({keys, Positions(v, dim)}, dim, true, [&](const Values& p) {
    return Values{descending ? TotalLess(p[1], p[0]) : TotalLess(p[0], p[1])};
  });
  return {Convert(out[0], dtype), out[1]};
}

struct Operand {
  Value v;
  int dim;
};

Operand Along(Lowering& x) {
  Value v = AtLeast1d(x.tensor("self"));
  return {v, static_cast<int>(Lowering::WrapDim(x.integer("dim"), v.rank()))};
}

Values Shaped(Lowering& x, Value values, Value positions) {
  return {Reshape(values, x.result(0).dims), Reshape(positions, x.result(1).dims)};
}

// The element of each slice at rank `at` (s32, `dim` dropped).
Value Pick(Value v, int dim, Value at) {
  Value chosen = Eq(Positions(v, dim), BroadcastTo(KeepDims(at, {dim}), v.dims()));
  Value zero = v.builder().Constant(v.dtype(), 0);
  return v.builder().Reduce("stablehlo.add", Select(chosen, v, ZerosLike(v)), zero, {dim});
}

// The lower median. Of slices with a NaN: the first NaN, or the median of the rest.
Sorted Median(Value v, int dim, bool ignore_nan) {
  Sorted s = SortAlong(v, dim, false);
  const int64_t n = v.dim(dim);
  Dims shape = v.dims();
  shape.erase(shape.begin() + dim);
  Value at = v.builder().ConstantInt(DType::kS32, (n - 1) / 2, shape);
  if (hlo::IsFloat(v.dtype())) {
    Value numbers = Convert(CountTrue(~IsNan(v), {dim}), DType::kS32);
    at = ignore_nan ? Max(numbers - 1.0, ZerosLike(at)) / 2.0
                    : Select(Eq(numbers, static_cast<double>(n)), at, numbers);
  }
  return {Pick(s.values, dim, at), Pick(s.positions, dim, at)};
}

Values MedianOfAll(Lowering& x, bool ignore_nan) {
  Value v = x.tensor("self");
  if (v.numel() == 0) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    return {x.builder().Constant(x.compute_type(), nan)};
  }
  return {Median(Reshape(v, {v.numel()}), 0, ignore_nan).values};
}

}  // namespace

OPS(({"aten::sort", "aten::sort.stable"}), {.tolerance = kExact}) {
  Operand self = Along(x);
  Sorted s = SortAlong(self.v, self.dim, x.boolean("descending"));
  return Shaped(x, s.values, s.positions);
}

namespace {

// The k first positions of a descending order, ties in order. XLA turns exactly this form (a plain
// `>` over f32 along the last dim, then a slice) into a partial sort: 0.3 ms where sorting 128k
// elements takes 40. NaN is the greatest key and inf the next, which only a finite maximum shares.
Value LeadingPositions(Value v, int dim, int64_t k, bool largest) {
  hlo::Builder& b = v.builder();
  Value key = Convert(v, DType::kF32);
  Value most = Like(key, std::numeric_limits<float>::max());
  key = Select(IsNan(key), b.MaxValue(DType::kF32, key.dims()), Min(key, most));
  if (!largest) key = -key;
  Dims order;
  for (int d = 0; d < v.rank(); ++d) order.push_back(d);
  std::swap(order[dim], order.back());
  key = Transpose(key, order);
  const int last = key.rank() - 1;
  Values sorted = b.Sort({key, Positions(key, last)}, last, true,
                         [](const Values& p) { return Values{p[0] > p[1]}; });
  return Transpose(b.SliceDim(sorted[1], last, 0, k), order);
}

}  // namespace

OP("aten::topk", {.tolerance = kExact}) {
  Operand self = Along(x);
  const int64_t k = x.integer("k");
  if (hlo::IsFloat(self.v.dtype()) && self.v.dtype() != DType::kF64 && self.v.numel() > 0) {
    Value at = LeadingPositions(self.v, self.dim, k, x.boolean("largest"));
    return Shaped(x, GatherAlong(self.v, at, self.dim), at);
  }
  Sorted s = SortAlong(self.v, self.dim, x.boolean("largest"));
  return Shaped(x, x.builder().SliceDim(s.values, self.dim, 0, k),
                x.builder().SliceDim(s.positions, self.dim, 0, k));
}

OP("aten::kthvalue", {.tolerance = kExact}) {
  Operand self = Along(x);
  Sorted s = SortAlong(self.v, self.dim, false);
  const int64_t k = x.integer("k");
  return Shaped(x, x.builder().SliceDim(s.values, self.dim, k - 1, k),
                x.builder().SliceDim(s.positions, self.dim, k - 1, k));
}

OP("aten::median", {.tolerance = kExact}) { return MedianOfAll(x, false); }
OP("aten::nanmedian", {.tolerance = kExact}) { return MedianOfAll(x, true); }

OP("aten::median.dim", {.tolerance = kExact}) {
  Operand self = Along(x);
  Sorted m = Median(self.v, self.dim, false);
  return Shaped(x, m.values, m.positions);
}

OP("aten::nanmedian.dim", {.tolerance = kExact}) {
  Operand self = Along(x);
  Sorted m = Median(self.v, self.dim, true);
  return Shaped(x, m.values, m.positions);
}

OP("aten::mode", {.tolerance = kExact}) {
  // Sorted runs: the length of a run stands at its last element; the first longest run wins.
  Operand self = Along(x);
  const int dim = self.dim;
  Sorted s = SortAlong(self.v, dim, false);
  const int64_t n = self.v.dim(dim);
  Value at = Positions(s.values, dim);
  Dims edge = self.v.dims();
  edge[dim] = 1;
  Value differs =
      Ne(x.builder().SliceDim(s.values, dim, 1, n), x.builder().SliceDim(s.values, dim, 0, n - 1));
  Value yes = x.builder().ConstantInt(DType::kPred, 1, edge);
  Value starts = x.builder().Concatenate({yes, differs}, dim);
  Value ends = x.builder().Concatenate({differs, yes}, dim);
  Value start =
      Scan(Select(starts, at, ZerosLike(at)), dim, [](Value a, Value b) { return Max(a, b); });
  Value length = Select(ends, at - start + 1.0, ZerosLike(at));
  Value best = Convert(ArgExtreme(length, dim, true).index, DType::kS32);
  return Shaped(x, Pick(s.values, dim, best), Pick(s.positions, dim, best));
}

// ---- search
// -------------------------------------------------------------------------------------------

namespace {

// How many leading elements of each sorted row (last dim of `sorted`) lie below each value, by the
// steps of torch's binary search. `sorted` is 1-d, or shares its leading dims with `v`.
Value Search(Value sorted, Value v, bool right) {
  hlo::Builder& b = v.builder();
  const int64_t n = sorted.dim(-1);
  const Dims dims = v.dims();
  const int64_t rows = sorted.rank() == 1 ? 1 : sorted.numel() / std::max<int64_t>(n, 1);
  if (n == 0 || v.numel() == 0) return b.ConstantInt(DType::kS32, 0, dims);
  const int64_t columns = v.numel() / rows;
  sorted = Reshape(sorted, {rows * n});
  v = Reshape(v, {rows, columns});
  Value first = b.Iota(DType::kS32, v.dims(), 0) * static_cast<double>(n);
  Value low = b.ConstantInt(DType::kS32, 0, v.dims());
  Value high = b.ConstantInt(DType::kS32, n, v.dims());
  hlo::GatherDims element;
  element.collapsed_slice_dims = {0};
  element.start_index_map = {0};
  element.index_vector_dim = 2;
  element.slice_sizes = {1};
  for (int64_t span = n; span > 0; span /= 2) {
    Value middle = low + (high - low) / 2.0;
    // A finished search may point one past its row; its answer no longer changes.
    Value at =
        Reshape(first + Min(middle, Like(middle, static_cast<double>(n - 1))), {rows, columns, 1});
    Value there = b.Gather(sorted, at, element);
    Value above = right ? there > v : there >= v;
    Value open = low < high;
    low = Select(open & ~above, middle + 1.0, low);
    high = Select(open & above, middle, high);
  }
  return Reshape(low, dims);
}

Value SearchSorted(Lowering& x, const char* sequence, bool right) {
  const DType dtype = hlo::ComputeType(x.common_dtype());
  Value sorted = AtLeast1d(x.tensor(sequence));
  if (Takes(x, "sorter") && x.has("sorter")) {
    sorted = GatherAlong(sorted, x.tensor("sorter"), sorted.rank() - 1);
  }
  return Search(Convert(sorted, dtype), Convert(x.tensor("self"), dtype), right);
}

}  // namespace

OPS(({"aten::searchsorted.Tensor", "aten::searchsorted.Scalar"}), {.tolerance = kExact}) {
  return SearchSorted(x, "sorted_sequence", x.boolean("right") || x.string("side") == "right");
}

OPS(({"aten::bucketize.Tensor", "aten::bucketize.Scalar"}), {.tolerance = kExact}) {
  return SearchSorted(x, "boundaries", x.boolean("right"));
}

OP("aten::histc", {.tolerance = Tolerance::kAccumulate}) {
  hlo::Builder& b = x.builder();
  Value v = Convert(x.tensor("self"), x.compute_type());
  v = Reshape(v, {v.numel()});
  const int64_t bins = x.integer("bins");
  Value low = x.scalar("min"), high = x.scalar("max");
  // Equal bounds mean the data's; equal data gets a bin of width two around it.
  if (v.numel() > 0) {
    Value open = Eq(low, high);
    low = Select(open, MinReduce(v, {0}), low);
    high = Select(open, MaxReduce(v, {0}), high);
  }
  Value point = Eq(low, high);
  low = Select(point, low - 1.0, low);
  high = Select(point, high + 1.0, high);
  Value bin = Convert((v - low) * static_cast<double>(bins) / (high - low), DType::kS32);
  bin = Min(bin, Like(bin, static_cast<double>(bins - 1)));
  bin = Select((v >= low) & (v <= high), bin, Like(bin, static_cast<double>(bins)));
  hlo::ScatterDims into;
  into.inserted_window_dims = {0};
  into.scatter_dims_to_operand_dims = {0};
  into.index_vector_dim = 1;
  return b.Scatter(b.Constant(x.compute_type(), 0, {bins}), Reshape(bin, {v.numel(), 1}),
                   OnesLike(v), into, [](const Values& p) { return Values{p[0] + p[1]}; });
}

}  // namespace torch_tpu::ops
