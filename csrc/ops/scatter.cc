// SPDX-License-Identifier: Apache-2.0
// Scatter along a dim with its reductions, and writes of a view's worth of data into a copy.
#include <string>

#include "csrc/ops/indexing.h"
#include "csrc/ops/op.h"
#include "csrc/ops/view.h"

namespace torch_tpu::ops {
namespace {

struct Along {
  Value self, index;
  int dim;
};

Along ReadAlong(Lowering& x) {
  Along a;
  a.self = AtLeast1d(x.tensor("self"));
  a.dim = static_cast<int>(Lowering::WrapDim(x.integer("dim"), a.self.rank()));
  Value index = AtLeast1d(x.tensor("index"));
  int64_t bound = a.self.dim(a.dim);
  x.CheckBounds("index", index, bound, false);
  a.index = IndexValue(index, bound);
  return a;
}

// aten spells the reductions of scatter differently from those of scatter_reduce.
std::string_view Reduction(std::string_view reduce) {
  if (reduce == "add") return "sum";
  if (reduce == "multiply") return "prod";
  return reduce;
}

Value FloorDivide(Value a, Value b) {
  if (!hlo::IsInteger(a.dtype())) return a / b;
  Value quotient = a / b;
  Value wrong = (quotient * b > a);  // b is a count, so only negative quotients were rounded up
  return quotient - Convert(wrong, a.dtype());
}

// Scatters with a named reduction ("mean" too) by `scatter(operand, updates, combiner)`.
template <typename Scatter>
Value ReduceInto(Value self, Value updates, std::string_view reduce, bool include_self,
                 const Scatter& scatter) {
  self = Wide(self);
  updates = Convert(updates, self.dtype());
  auto& b = self.builder();
  bool mean = reduce == "mean";
  std::string_view base = mean ? "sum" : reduce;
  Value start = self;
  if (!include_self) {
    Value neutral = BroadcastTo(Neutral(b, base, self.dtype()), updates.dims());
    start = scatter(self, neutral, Combiner(""));
  }
  Value out = scatter(start, updates, Combiner(base));
  if (!mean) return out;
  Value count = scatter(b.Constant(self.dtype(), include_self ? 1 : 0, self.dims()),
                        OnesLike(updates), Combiner("sum"));
  return FloorDivide(out, Max(count, OnesLike(count)));
}

Value WriteInto(Lowering& x, Value self, const View& view) {
  Value src = Convert(BroadcastTo(x.tensor("src"), view.sizes), self.dtype());
  if (src.numel() == 0) return self;
  return WriteView(self, src, view);
}

}  // namespace

OP("aten::scatter.src", {.tolerance = Tolerance::kExact}) {
  Along a = ReadAlong(x);
  Value src = Convert(AtLeast1d(x.tensor("src")), a.self.dtype());
  return Reshape(ScatterAlong(a.self, a.index, src, a.dim), x.result().dims);
}

OP("aten::scatter.value", {.tolerance = Tolerance::kExact}) {
  Along a = ReadAlong(x);
  Value src = BroadcastTo(x.scalar("value", a.self.dtype()), a.index.dims());
  return Reshape(ScatterAlong(a.self, a.index, src, a.dim), x.result().dims);
}

OP("aten::scatter_add", {.tolerance = Tolerance::kAccumulate}) {
  Along a = ReadAlong(x);
  Value self = Wide(a.self);
  Value src = Convert(AtLeast1d(x.tensor("src")), self.dtype());
  return Reshape(ScatterAlong(self, a.index, src, a.dim, Combiner("sum")), x.result().dims);
}

OP("aten::scatter.reduce", {.tolerance = Tolerance::kAccumulate}) {
  Along a = ReadAlong(x);
  Value self = Wide(a.self);
  Value src = Convert(AtLeast1d(x.tensor("src")), self.dtype());
  hlo::Body combiner = Combiner(Reduction(x.string("reduce")));
  return Reshape(ScatterAlong(self, a.index, src, a.dim, combiner), x.result().dims);
}

OP("aten::scatter.value_reduce", {.tolerance = Tolerance::kAccumulate}) {
  Along a = ReadAlong(x);
  Value self = Wide(a.self);
  Value src = BroadcastTo(x.scalar("value", self.dtype()), a.index.dims());
  hlo::Body combiner = Combiner(Reduction(x.string("reduce")));
  return Reshape(ScatterAlong(self, a.index, src, a.dim, combiner), x.result().dims);
}

OP("aten::scatter_reduce.two", {.tolerance = Tolerance::kAccumulate}) {
  Along a = ReadAlong(x);
  if (a.index.numel() == 0) return x.tensor("self");
  Value src = AtLeast1d(x.tensor("src"));
  src = x.builder().Slice(src, Dims(src.rank(), 0), a.index.dims());
  Value out = ReduceInto(a.self, src, x.string("reduce"), x.boolean("include_self"),
                         [&](Value operand, Value updates, const hlo::Body& combiner) {
                           return ScatterAlong(operand, a.index, updates, a.dim, combiner);
                         });
  return Reshape(out, x.result().dims);
}

OP("aten::index_reduce", {.tolerance = Tolerance::kAccumulate}) {
  Value self = AtLeast1d(x.tensor("self"));
  int dim = static_cast<int>(Lowering::WrapDim(x.integer("dim"), self.rank()));
  Value index = x.tensor("index");
  index = Reshape(index, {index.numel()});
  x.CheckBounds("index", index, self.dim(dim), false);
  index = IndexValue(index, self.dim(dim));
  if (index.numel() == 0) return x.tensor("self");
  Dims dims = self.dims();
  dims[dim] = index.numel();
  Value source = BroadcastTo(x.tensor("source"), dims);
  Value out = ReduceInto(self, source, x.string("reduce"), x.boolean("include_self"),
                         [&](Value operand, Value updates, const hlo::Body& combiner) {
                           return ScatterRows(operand, index, updates, dim, combiner);
                         });
  return Reshape(out, x.result().dims);
}

OP("aten::slice_scatter", {.tolerance = Tolerance::kExact}) {
  Value self = x.tensor("self");
  int dim = static_cast<int>(Lowering::WrapDim(x.integer("dim"), self.rank()));
  Slicing s = ResolveSlice(self.dim(dim), x.integer_or("start", 0),
                           x.integer_or("end", self.dim(dim)), x.integer("step"));
  View view = ContiguousView(self.shape());
  view.offset = s.start * view.strides[dim];
  view.sizes[dim] = s.length;
  view.strides[dim] *= s.step;
  return WriteInto(x, self, view);
}

OP("aten::select_scatter", {.tolerance = Tolerance::kExact}) {
  Value self = x.tensor("self");
  int dim = static_cast<int>(Lowering::WrapDim(x.integer("dim"), self.rank()));
  View view = ContiguousView(self.shape());
  view.offset = Lowering::WrapDim(x.integer("index"), self.dim(dim)) * view.strides[dim];
  view.sizes.erase(view.sizes.begin() + dim);
  view.strides.erase(view.strides.begin() + dim);
  return WriteInto(x, self, view);
}

OP("aten::diagonal_scatter", {.tolerance = Tolerance::kExact}) {
  Value self = x.tensor("self");
  return WriteDiagonal(self, Convert(x.tensor("src"), self.dtype()), x.integer("offset"),
                       static_cast<int>(Lowering::WrapDim(x.integer("dim1"), self.rank())),
                       static_cast<int>(Lowering::WrapDim(x.integer("dim2"), self.rank())));
}

OP("aten::as_strided_scatter",
   {.tolerance = Tolerance::kExact, .limitation = "self must be contiguous"}) {
  Value self = x.tensor("self");
  View view = ContiguousView(self.shape());
  int64_t origin = 0;
  if (const Arg& arg = x.call().args[0]; !arg.tensors.empty()) {
    if (arg.tensors[0].view.strides != view.strides && self.numel() > 1) {
      x.Unsupported("a self that is not contiguous");
    }
    origin = arg.tensors[0].view.offset;
  }
  view.sizes = x.ints("size");
  view.strides = x.ints("stride");
  view.offset = x.integer_or("storage_offset", origin) - origin;
  return WriteInto(x, self, view);
}

}  // namespace torch_tpu::ops
