// SPDX-License-Identifier: Apache-2.0
// Embedding tables: lookups are gathers of rows, gradients scatter-adds of rows.
#include <string>

#include "csrc/ops/indexing.h"
#include "csrc/ops/op.h"
#include "csrc/ops/scan.h"

namespace torch_tpu::ops {
namespace {

// How often each of `n` rows occurs among `index` (rank 1), in `dtype`.
Value Occurrences(Value index, int64_t n, DType dtype) {
  auto& b = index.builder();
  return ScatterRows(b.Constant(dtype, 0, {n}), index, b.Constant(dtype, 1, {index.numel()}), 0,
                     Combiner("sum"));
}

// x[i, :] * factor[i]
Value ScaleRows(Value x, Value factor) {
  return x * x.builder().BroadcastInDim(Convert(factor, x.dtype()), x.dims(), {0});
}

// Sends the rows of `skipped` behind the table, where a scatter drops them.
Value Without(Value index, Value skipped, int64_t n) {
  auto& b = index.builder();
  return b.Select(skipped, b.ConstantInt(index.dtype(), n, index.dims()), index);
}

// A sum of gradient rows [N, D] into a table [rows, D].
Value TableGradient(Value grad, Value index, int64_t rows, int64_t padding_idx, bool by_frequency) {
  auto& b = grad.builder();
  grad = Wide(grad);
  if (by_frequency) {
    Value count = Occurrences(index, rows, grad.dtype());
    grad = ScaleRows(grad, 1.0 / TakeRows(count, index, 0));
  }
  Value target = Without(index, Eq(index, static_cast<double>(padding_idx)), rows);
  return ScatterRows(b.Constant(grad.dtype(), 0, {rows, grad.dim(1)}), target, grad, 0,
                     Combiner("sum"));
}

enum Mode { kSum = 0, kMean = 1, kMax = 2 };

// The number of the bag that each of `n` indices belongs to, s32.
Value BagOfIndex(Value offsets, int64_t n) {
  auto& b = offsets.builder();
  if (n == 0) return b.ConstantInt(DType::kS32, 0, {0});
  Value starts = ScatterRows(b.ConstantInt(DType::kS32, 0, {n}), IndexValue(offsets, n, false),
                             b.ConstantInt(DType::kS32, 1, {offsets.numel()}), 0, Combiner("sum"));
  return CumulativeSum(starts, 0) - 1.0;
}

// The same for a backward block: torch CPU's forward leaves offset2bag empty where it did without.
Value BagOfIndex(Lowering& x, int64_t n, int64_t bags) {
  Value bag = x.tensor("offset2bag");
  if (bag.numel() != n) return BagOfIndex(x.tensor("offsets"), n);
  return IndexValue(bag, bags, false);
}

// The rows of a bag that hold its maximum, first come first: the table row per [bag, column].
Value MaximumRows(Value rows, Value bag, Value maximum, Value index, Value empty) {
  auto& b = rows.builder();
  int64_t n = rows.dim(0);
  Value mine = TakeRows(maximum, bag, 0);
  Value hit = Eq(rows, mine) | (IsNan(rows) & IsNan(mine));
  Value position = b.Select(hit, b.Iota(DType::kS32, rows.dims(), 0),
                            b.ConstantInt(DType::kS32, n, rows.dims()));
  Value first = ScatterRows(b.ConstantInt(DType::kS32, n, maximum.dims()), bag, position, 0,
                            Combiner("amin"));
  Value row = TakeRows(Convert(index, DType::kS64), Flat(first), 0);
  return b.Select(empty, b.ConstantInt(DType::kS64, 0, maximum.dims()),
                  b.Reshape(row, maximum.dims()));
}

}  // namespace

OP("aten::embedding", {.tolerance = Tolerance::kExact}) {
  Value weight = x.tensor("weight"), indices = x.tensor("indices");
  x.CheckBounds("indices", indices, weight.dim(0), false);
  return GatherAdvanced(weight,
                        ResolveIndices(weight, {IndexValue(indices, weight.dim(0), false)}));
}

OP("aten::embedding_dense_backward", {.tolerance = Tolerance::kAccumulate}) {
  Value grad = x.tensor("grad_output"), indices = x.tensor("indices");
  int64_t rows = x.integer("num_weights");
  x.CheckBounds("indices", indices, rows, false);
  return TableGradient(Reshape(grad, {indices.numel(), grad.dim(-1)}),
                       Flat(IndexValue(indices, rows, false)), rows, x.integer("padding_idx"),
                       x.boolean("scale_grad_by_freq"));
}

// Scales the rows that occur in `indices` down to the norm.
OP("aten::embedding_renorm_", {.constants = {"norm_type"}, .tolerance = Tolerance::kAccumulate}) {
  Value self = x.tensor("self");
  Value index = Flat(IndexValue(x.tensor("indices"), self.dim(0), false));
  Value rows = Wide(TakeRows(self, index, 0));
  Value limit = x.scalar("max_norm", rows.dtype());
  double p = x.number("norm_type");
  Value norm;
  if (p == 2.0) {
    norm = Sqrt(Sum(rows * rows, {1}));
  } else {
    Value sum = Sum(Pow(Abs(rows), Like(rows, p)), {1});
    norm = Pow(sum, Like(sum, 1 / p));
  }
  Value scale = limit / (norm + 1e-7);
  Value scaled = ScaleRows(rows, Select(norm > limit, scale, OnesLike(norm)));
  return ScatterRows(self, index, Convert(scaled, self.dtype()), 0);
}

// Gives torch CUDA's shapes, which are those of the meta kernel: offset2bag of every index, bag
// sizes per offset, and the maximum's rows in max mode only.
OPS(({"aten::_embedding_bag", "aten::_embedding_bag_forward_only"}),
    {.tolerance = Tolerance::kAccumulate}) {
  auto& b = x.builder();
  Value weight = x.tensor("weight"), indices = x.tensor("indices"), offsets = x.tensor("offsets");
  int64_t table = weight.dim(0), width = weight.dim(1), n = indices.numel();
  int64_t bags = x.result(0).dims[0], mode = x.integer("mode");
  x.CheckBounds("indices", indices, table, false);
  Value index = IndexValue(indices, table, false);
  Value bag = BagOfIndex(offsets, n);
  Value kept = Ne(index, static_cast<double>(x.integer("padding_idx")));
  Value target = Without(bag, ~kept, bags);
  Value rows = Wide(TakeRows(weight, index, 0));
  if (x.has("per_sample_weights")) {
    rows = ScaleRows(rows, Convert(x.tensor("per_sample_weights"), rows.dtype()));
  }
  Value size = Occurrences(target, bags, DType::kS32);
  Value wide_size = b.BroadcastInDim(size, {bags, width}, {0});
  Value empty = Eq(wide_size, 0.0);
  Value start = mode == kMax ? b.MinValue(rows.dtype(), {bags, width})
                             : b.Constant(rows.dtype(), 0, {bags, width});
  Value out = ScatterRows(start, target, rows, 0, Combiner(mode == kMax ? "amax" : "sum"));
  if (mode == kMean) out = out / Convert(Max(wide_size, OnesLike(wide_size)), out.dtype());
  Value maximum = b.ConstantInt(DType::kS64, 0, x.result(3).dims);
  if (mode == kMax) {
    if (n > 0) maximum = MaximumRows(rows, target, out, index, empty);
    out = Select(empty, ZerosLike(out), out);
  }
  int64_t sizes = x.result(2).dims[0];
  Value bag_size = b.Pad(size, b.ConstantInt(DType::kS32, 0), {0}, {sizes - bags});
  // torch counts the bags only where the mode needs them.
  if (mode == kSum) bag_size = b.ConstantInt(DType::kS32, 0, {sizes});
  return {out, bag, bag_size, maximum};
}

OPS(({"aten::_embedding_bag_backward", "aten::_embedding_bag_dense_backward"}),
    {.tolerance = Tolerance::kAccumulate}) {
  auto& b = x.builder();
  Value grad = Wide(x.tensor("grad"));
  int64_t table = x.integer("num_weights"), mode = x.integer("mode");
  int64_t bags = grad.dim(0), width = grad.dim(1);
  if (mode == kMax) {
    Value rows = IndexValue(x.tensor("maximum_indices"), table, false);
    // Empty bags have no maximum.
    Value size = b.SliceDim(x.tensor("bag_size"), 0, 0, bags);
    Value empty = b.BroadcastInDim(Eq(size, 0.0), {bags, width}, {0});
    return ScatterAlong(b.Constant(grad.dtype(), 0, {table, width}), Without(rows, empty, table),
                        grad, 0, Combiner("sum"));
  }
  Value index = IndexValue(x.tensor("indices"), table, false);
  Value bag = BagOfIndex(x, index.numel(), bags);
  Value rows = TakeRows(grad, bag, 0);
  if (mode == kMean) {
    Value size = Convert(b.SliceDim(x.tensor("bag_size"), 0, 0, bags), grad.dtype());
    rows = ScaleRows(rows, 1.0 / TakeRows(size, bag, 0));
  }
  if (x.has("per_sample_weights")) {
    rows = ScaleRows(rows, Convert(x.tensor("per_sample_weights"), rows.dtype()));
  }
  return TableGradient(rows, index, table, x.integer("padding_idx"),
                       x.boolean("scale_grad_by_freq"));
}

// d/dw of sum(w_i * weight[index_i]) per bag.
OP("aten::_embedding_bag_per_sample_weights_backward", {.tolerance = Tolerance::kAccumulate}) {
  Value grad = Wide(x.tensor("grad")), weight = x.tensor("weight");
  Value index = IndexValue(x.tensor("indices"), weight.dim(0), false);
  Value bag = BagOfIndex(x, index.numel(), grad.dim(0));
  Value product = TakeRows(grad, bag, 0) * Wide(TakeRows(weight, index, 0));
  Value kept = Ne(index, static_cast<double>(x.integer("padding_idx")));
  Value sum = Sum(product, {1});
  return Select(kept, sum, ZerosLike(sum));
}

}  // namespace torch_tpu::ops
