// SPDX-License-Identifier: Apache-2.0
// The copying twins of view ops (functionalization and torch.compile call them), each as a read of
// the view they would have made.
#include <algorithm>
#include <numeric>
#include <string>

#include "csrc/ops/indexing.h"
#include "csrc/ops/op.h"
#include "csrc/ops/view.h"

namespace torch_tpu::ops {
namespace {

int Dim(Lowering& x, ArgRef a, int rank) {
  return static_cast<int>(Lowering::WrapDim(x.integer(a), rank));
}

Value SwapDims(Value self, int a, int b) {
  Dims permutation(self.rank());
  std::iota(permutation.begin(), permutation.end(), 0);
  if (self.rank() > 1) std::swap(permutation[a], permutation[b]);
  return Transpose(self, permutation);
}

// Pieces of `sizes` along dim.
Values Split(Value self, const Dims& sizes, int dim) {
  Values parts;
  int64_t start = 0;
  for (int64_t size : sizes) {
    parts.push_back(self.builder().SliceDim(self, dim, start, start + size));
    start += size;
  }
  return parts;
}

}  // namespace

// Same elements in row-major order: the meta kernel has worked out the sizes.
OPS(({"aten::view_copy", "aten::_reshape_copy", "aten::squeeze_copy", "aten::squeeze_copy.dim",
      "aten::squeeze_copy.dims", "aten::unsqueeze_copy"}),
    {.tolerance = Tolerance::kExact}) {
  return Reshape(x.tensor("self"), x.result().dims);
}

OP("aten::view_copy.dtype", {.tolerance = Tolerance::kExact}) {
  Value self = x.tensor("self");
  View view = ContiguousView(self.shape());
  view.dtype = x.result().dtype;
  view.sizes = x.result().dims;
  view.strides = ContiguousView(x.result()).strides;
  return ReadView(self, view);
}

OP("aten::expand_copy", {.tolerance = Tolerance::kExact}) {
  return BroadcastTo(x.tensor("self"), x.result().dims);
}

OP("aten::permute_copy", {.tolerance = Tolerance::kExact}) {
  Value self = x.tensor("self");
  Dims dims = x.ints("dims");
  for (int64_t& dim : dims) dim = Lowering::WrapDim(dim, self.rank());
  return Transpose(self, dims);
}

OP("aten::t_copy", {.tolerance = Tolerance::kExact}) { return SwapDims(x.tensor("self"), 0, 1); }

OP("aten::transpose_copy.int", {.tolerance = Tolerance::kExact}) {
  Value self = x.tensor("self");
  return SwapDims(self, Dim(x, "dim0", self.rank()), Dim(x, "dim1", self.rank()));
}

OP("aten::select_copy.int", {.tolerance = Tolerance::kExact}) {
  Value self = x.tensor("self");
  int dim = Dim(x, "dim", self.rank());
  int64_t index = x.integer("index");
  if (index < 0) index += self.dim(dim);
  return Reshape(x.builder().SliceDim(self, dim, index, index + 1), x.result().dims);
}

OP("aten::slice_copy.Tensor", {.tolerance = Tolerance::kExact}) {
  Value self = x.tensor("self");
  int dim = Dim(x, "dim", self.rank());
  Slicing s = ResolveSlice(self.dim(dim), x.integer_or("start", 0),
                           x.integer_or("end", self.dim(dim)), x.integer("step"));
  return x.builder().SliceDim(self, dim, s.start, s.limit, s.step);
}

OP("aten::narrow_copy", {.tolerance = Tolerance::kExact}) {
  Value self = x.tensor("self");
  int dim = Dim(x, "dim", self.rank());
  int64_t start = x.integer("start");
  if (start < 0) start += self.dim(dim);
  return x.builder().SliceDim(self, dim, start, start + x.integer("length"));
}

OP("aten::diagonal_copy", {.tolerance = Tolerance::kExact}) {
  Value self = x.tensor("self");
  int dim1 = Dim(x, "dim1", self.rank()), dim2 = Dim(x, "dim2", self.rank());
  int64_t offset = x.integer("offset");
  View view = ContiguousView(self.shape());
  int64_t s1 = view.strides[dim1], s2 = view.strides[dim2];
  view.offset = x.result().numel() == 0 ? 0 : offset >= 0 ? offset * s2 : -offset * s1;
  for (int dim : {std::max(dim1, dim2), std::min(dim1, dim2)}) {
    view.strides.erase(view.strides.begin() + dim);
  }
  view.strides.push_back(s1 + s2);
  view.sizes = x.result().dims;
  return ReadView(self, view);
}

OP("aten::unfold_copy", {.tolerance = Tolerance::kExact}) {
  Value self = AtLeast1d(x.tensor("self"));
  int dim = Dim(x, "dimension", self.rank());
  View view = ContiguousView(self.shape());
  int64_t stride = view.strides[dim];
  view.strides[dim] *= x.integer("step");
  view.strides.push_back(stride);
  view.sizes = x.result().dims;
  // A rank-0 self gives [size], without the count of windows.
  if (view.strides.size() > view.sizes.size()) view.strides.erase(view.strides.begin());
  return ReadView(self, view);
}

OP("aten::as_strided_copy",
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
  return ReadView(self, view);
}

OP("aten::view_as_real_copy", {.tolerance = Tolerance::kExact}) {
  auto& b = x.builder();
  Value self = x.tensor("self");
  int rank = self.rank();
  return b.Concatenate({Unsqueeze(b.Unary("stablehlo.real", self), {rank}),
                        Unsqueeze(b.Unary("stablehlo.imag", self), {rank})},
                       rank);
}

OP("aten::view_as_complex_copy", {.tolerance = Tolerance::kExact}) {
  auto& b = x.builder();
  Value self = x.tensor("self");
  int last = self.rank() - 1;
  return b.Complex(Reshape(b.SliceDim(self, last, 0, 1), x.result().dims),
                   Reshape(b.SliceDim(self, last, 1, 2), x.result().dims));
}

OPS(({"aten::split_with_sizes_copy"}), {.tolerance = Tolerance::kExact}) {
  Value self = x.tensor("self");
  return Split(self, x.ints("split_sizes"), Dim(x, "dim", self.rank()));
}

OPS(({"aten::split_copy.Tensor"}), {.tolerance = Tolerance::kExact}) {
  Value self = x.tensor("self");
  int dim = Dim(x, "dim", self.rank());
  int64_t piece = x.integer("split_size"), size = self.dim(dim);
  Dims sizes;
  for (int64_t start = 0; start < size && piece > 0; start += piece) {
    sizes.push_back(std::min(piece, size - start));
  }
  if (sizes.empty()) sizes = {size};
  return Split(self, sizes, dim);
}

OP("aten::unbind_copy.int", {.tolerance = Tolerance::kExact}) {
  Value self = x.tensor("self");
  int dim = Dim(x, "dim", self.rank());
  Dims dims = self.dims();
  dims.erase(dims.begin() + dim);
  Values parts = Split(self, Dims(self.dim(dim), 1), dim);
  for (Value& part : parts) part = Reshape(part, dims);
  return parts;
}

}  // namespace torch_tpu::ops
