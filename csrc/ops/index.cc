// SPDX-License-Identifier: Apache-2.0
// Indexing by tensors: index, index_put, the index_* family, gather, take, put.
#include <string>

#include "csrc/ops/indexing.h"
#include "csrc/ops/op.h"

namespace torch_tpu::ops {
namespace {

// The arguments of the index_* family: self and index of rank at least 1, dim wrapped.
struct Rows {
  Value self, index;
  int dim;
};

Rows ReadRows(Lowering& x) {
  Rows r;
  r.self = AtLeast1d(x.tensor("self"));
  r.dim = static_cast<int>(Lowering::WrapDim(x.integer("dim"), r.self.rank()));
  int64_t bound = r.self.dim(r.dim);
  Value index = Flat(x.tensor("index"));
  x.CheckBounds("index", index, bound, false);
  r.index = IndexValue(index, bound);
  return r;
}

// `source` with self's rank: rank 0 stands for one row of a rank-1 self.
Value Source(Lowering& x, const Rows& r) {
  Value source = x.tensor("source");
  Dims dims = r.self.dims();
  dims[r.dim] = r.index.numel();
  return Convert(BroadcastTo(source, dims), r.self.dtype());
}

// The indices, wrapped; bounds are checked in debug mode.
Values ReadIndices(Lowering& x, Value self) {
  Values indices = x.tensors("indices");
  for (size_t i = 0; i < indices.size(); ++i) {
    if (!indices[i]) continue;
    int64_t bound = self.dim(static_cast<int>(i));
    x.CheckBounds("indices", indices[i], bound);
    indices[i] = IndexValue(indices[i], bound);
  }
  return indices;
}

bool AllAbsent(const Values& values) {
  for (const Value& v : values) {
    if (v) return false;
  }
  return true;
}

}  // namespace

// Masks never come here: the eager layer expands them to integer indices.
OPS(({"aten::index.Tensor", "aten::_unsafe_index.Tensor"}), {.tolerance = Tolerance::kExact}) {
  Value self = x.tensor("self");
  Values indices = ReadIndices(x, self);
  if (AllAbsent(indices)) return self;
  return GatherAdvanced(self, ResolveIndices(self, indices));
}

OPS(({"aten::index_put", "aten::_unsafe_index_put", "aten::_index_put_impl"}),
    {.tolerance = Tolerance::kAccumulate}) {
  Value self = x.tensor("self"), values = x.tensor("values");
  bool accumulate = x.boolean("accumulate");
  if (accumulate) self = Wide(self);
  values = Convert(values, self.dtype());
  Values indices = ReadIndices(x, self);
  if (AllAbsent(indices)) {
    values = BroadcastTo(values, self.dims());
    return accumulate ? Combiner("sum")({self, values})[0] : values;
  }
  AdvancedIndex plan = ResolveIndices(self, indices);
  // Leading dims of size 1 beyond the result's rank carry nothing.
  if (values.rank() > static_cast<int>(plan.result.size())) {
    Dims dims(values.dims().end() - plan.result.size(), values.dims().end());
    values = Reshape(values, dims);
  }
  return ScatterAdvanced(self, plan, BroadcastTo(values, plan.result),
                         Combiner(accumulate ? "sum" : ""));
}

OP("aten::index_select", {.tolerance = Tolerance::kExact}) {
  Rows r = ReadRows(x);
  return Reshape(TakeRows(r.self, r.index, r.dim), x.result().dims);
}

OP("aten::index_add", {.tolerance = Tolerance::kAccumulate}) {
  Rows r = ReadRows(x);
  Value self = Wide(r.self);
  Value alpha = x.scalar("alpha", self.dtype());
  Value source = Convert(Source(x, r), self.dtype());
  source =
      self.dtype() == DType::kPred ? (source & BroadcastTo(alpha, source.dims())) : source * alpha;
  return Reshape(ScatterRows(self, r.index, source, r.dim, Combiner("sum")), x.result().dims);
}

OP("aten::index_copy", {.tolerance = Tolerance::kExact}) {
  Rows r = ReadRows(x);
  return Reshape(ScatterRows(r.self, r.index, Source(x, r), r.dim), x.result().dims);
}

// A mask of the dim and one select: no scatter over whole rows.
OPS(({"aten::index_fill.int_Scalar", "aten::index_fill.int_Tensor"}),
    {.tolerance = Tolerance::kExact}) {
  Rows r = ReadRows(x);
  auto& b = x.builder();
  Value value = Reshape(x.tensor("value"), {});
  value = Convert(value, r.self.dtype());
  Value hit = ScatterRows(b.ConstantInt(DType::kPred, 0, {r.self.dim(r.dim)}), r.index,
                          b.ConstantInt(DType::kPred, 1, {r.index.numel()}), 0);
  Value mask = b.BroadcastInDim(hit, r.self.dims(), {r.dim});
  return Reshape(Select(mask, BroadcastTo(value, r.self.dims()), r.self), x.result().dims);
}

OP("aten::gather", {.tolerance = Tolerance::kExact}) {
  Value self = AtLeast1d(x.tensor("self")), index = AtLeast1d(x.tensor("index"));
  int dim = static_cast<int>(Lowering::WrapDim(x.integer("dim"), self.rank()));
  int64_t bound = self.dim(dim);
  x.CheckBounds("index", index, bound, false);
  return Reshape(GatherAlong(self, IndexValue(index, bound), dim), x.result().dims);
}

OP("aten::take", {.tolerance = Tolerance::kExact}) {
  Value self = Flat(x.tensor("self")), index = x.tensor("index");
  x.CheckBounds("index", index, self.numel());
  return Reshape(TakeRows(self, Flat(IndexValue(index, self.numel())), 0), index.dims());
}

OP("aten::put", {.tolerance = Tolerance::kAccumulate}) {
  Value self = x.tensor("self"), index = Flat(x.tensor("index"));
  bool accumulate = x.boolean("accumulate");
  Value flat = Flat(accumulate ? Wide(self) : self);
  Value source = Flat(Convert(x.tensor("source"), flat.dtype()));
  x.CheckBounds("index", index, flat.numel());
  Value out = ScatterRows(flat, IndexValue(index, flat.numel()), source, 0,
                          Combiner(accumulate ? "sum" : ""));
  return Reshape(out, self.dims());
}

// The k-th true element of the mask takes the k-th element of source.
OP("aten::masked_scatter", {.tolerance = Tolerance::kExact}) {
  const Dims& dims = x.result().dims;
  Value self = BroadcastTo(x.tensor("self"), dims);
  Value mask = BroadcastTo(Convert(x.tensor("mask"), DType::kPred), dims);
  Value source = Flat(Convert(x.tensor("source"), self.dtype()));
  if (self.numel() == 0 || source.numel() == 0) return self;
  Value rank = CountScan(Flat(mask)) - 1.0;
  return Select(mask, Reshape(TakeRows(source, rank, 0), dims), self);
}

OP("aten::masked_scatter_backward", {.tolerance = Tolerance::kExact}) {
  Value grad = x.tensor("grad_output"), mask = x.tensor("mask");
  auto& b = x.builder();
  Dims sizes = x.ints("sizes");
  int64_t numel = hlo::Shape{grad.dtype(), sizes}.numel(), n = grad.numel();
  if (numel == 0 || n == 0) return b.Constant(grad.dtype(), 0, sizes);
  Value flags = Flat(BroadcastTo(Convert(mask, DType::kPred), grad.dims()));
  // Slots behind the last true element read the zero that is appended here.
  Value values = b.Pad(Flat(grad), b.Constant(grad.dtype(), 0), {0}, {1});
  Value positions = TruePositions(flags, CountScan(flags));
  if (numel > n) positions = b.Pad(positions, b.ConstantInt(DType::kS32, n), {0}, {numel - n});
  return Reshape(TakeRows(values, b.SliceDim(positions, 0, 0, numel), 0), sizes);
}

}  // namespace torch_tpu::ops
