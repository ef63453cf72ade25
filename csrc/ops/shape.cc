// SPDX-License-Identifier: Apache-2.0
// Joining, splitting, reordering and padding of whole tensors, and the gradients of views.
#include <algorithm>
#include <string>

#include "csrc/ops/indexing.h"
#include "csrc/ops/op.h"

namespace torch_tpu::ops {
namespace {

int Dim(Lowering& x, ArgRef a, int rank) {
  return static_cast<int>(Lowering::WrapDim(x.integer(a), rank));
}

Value Zeros(Lowering& x, DType dtype, const Dims& dims = {}) {
  return x.builder().Constant(dtype, 0, dims);
}

// The first dim `dim` of x as [outer, inner].
Value SplitDim(Value x, int dim, int64_t outer, int64_t inner) {
  Dims dims = x.dims();
  dims[dim] = outer;
  dims.insert(dims.begin() + dim + 1, inner);
  return Reshape(x, dims);
}

Value RollDim(Value x, int dim, int64_t shift) {
  int64_t size = x.dim(dim);
  if (size == 0) return x;
  shift = ((shift % size) + size) % size;
  if (shift == 0) return x;
  auto& b = x.builder();
  return b.Concatenate(
      {b.SliceDim(x, dim, size - shift, size), b.SliceDim(x, dim, 0, size - shift)}, dim);
}

}  // namespace

OP("aten::cat", {.tolerance = Tolerance::kExact}) {
  DType dtype = x.result().dtype;
  Values kept;
  for (const Value& t : x.tensors("tensors")) {
    // torch skips tensors of shape [0] whatever the others' rank.
    if (t.rank() == 1 && t.dim(0) == 0) continue;
    kept.push_back(Convert(t, dtype));
  }
  if (kept.empty()) return Zeros(x, dtype, x.result().dims);
  return x.builder().Concatenate(kept, Dim(x, "dim", kept[0].rank()));
}

OPS(({"aten::stack", "aten::_stack"}), {.tolerance = Tolerance::kExact}) {
  Values parts = x.tensors("tensors");
  int dim = Dim(x, "dim", parts[0].rank() + 1);
  for (Value& t : parts) t = Unsqueeze(Convert(t, x.result().dtype), {dim});
  return x.builder().Concatenate(parts, dim);
}

// Each tensor, padded along dim to a multiple of num_chunks, is cut into chunks; chunk i of every
// tensor goes to row i.
OP("aten::_chunk_cat", {.tolerance = Tolerance::kExact}) {
  auto& b = x.builder();
  Values parts = x.tensors("tensors");
  int dim = Dim(x, "dim", parts[0].rank());
  int64_t chunks = x.integer("num_chunks");
  for (Value& t : parts) {
    int64_t size = t.dim(dim), padded = (size + chunks - 1) / chunks * chunks;
    Dims low(t.rank(), 0), high(t.rank(), 0);
    high[dim] = padded - size;
    Value full = b.Pad(Convert(t, x.result().dtype), Zeros(x, x.result().dtype), low, high);
    Dims dims(full.dims().begin(), full.dims().begin() + dim);
    int64_t inner = 1;
    for (int i = dim; i < full.rank(); ++i) inner *= full.dim(i);
    dims.push_back(chunks);
    dims.push_back(inner / chunks);
    t = Reshape(full, dims);
  }
  return b.Concatenate(parts, dim + 1);
}

OP("aten::block_diag", {.tolerance = Tolerance::kExact}) {
  auto& b = x.builder();
  DType dtype = x.result().dtype;
  int64_t width = x.result().dims[1], column = 0;
  Values rows;
  for (Value t : x.tensors("tensors")) {
    if (t.rank() < 2) t = Reshape(t, {1, t.numel()});
    rows.push_back(
        b.Pad(Convert(t, dtype), Zeros(x, dtype), {0, column}, {0, width - column - t.dim(1)}));
    column += t.dim(1);
  }
  return rows.empty() ? Zeros(x, dtype, x.result().dims) : b.Concatenate(rows, 0);
}

OP("aten::flip", {.tolerance = Tolerance::kExact}) {
  Value self = x.tensor("self");
  if (self.rank() == 0) return self;
  Dims dims = x.ints("dims");
  if (dims.empty()) return self;
  return x.builder().Reverse(self, Lowering::WrapDims(dims, self.rank()));
}

OP("aten::roll", {.tolerance = Tolerance::kExact}) {
  Value self = x.tensor("self");
  Dims shifts = x.ints("shifts"), dims = x.ints("dims");
  if (dims.empty()) return Reshape(RollDim(Flat(self), 0, shifts[0]), self.dims());
  if (self.rank() == 0) return self;
  Value out = self;
  for (size_t i = 0; i < dims.size(); ++i) {
    out = RollDim(out, static_cast<int>(Lowering::WrapDim(dims[i], self.rank())), shifts[i]);
  }
  return out;
}

OP("aten::rot90", {.tolerance = Tolerance::kExact}) {
  auto& b = x.builder();
  Value self = x.tensor("self");
  Dims dims = x.ints("dims");
  for (int64_t& dim : dims) dim = Lowering::WrapDim(dim, self.rank());
  int64_t k = ((x.integer("k") % 4) + 4) % 4;
  if (k == 0) return self;
  if (k == 2) return b.Reverse(self, dims);
  Dims swap;
  for (int i = 0; i < self.rank(); ++i) swap.push_back(i);
  std::swap(swap[dims[0]], swap[dims[1]]);
  return k == 1 ? b.Transpose(b.Reverse(self, {dims[1]}), swap)
                : b.Reverse(b.Transpose(self, swap), {dims[1]});
}

OP("aten::repeat", {.tolerance = Tolerance::kExact}) {
  Value self = x.tensor("self");
  Dims repeats = x.ints("repeats"), wide, positions;
  size_t lead = repeats.size() - self.dims().size();
  for (size_t i = 0; i < repeats.size(); ++i) {
    wide.push_back(repeats[i]);
    if (i < lead) continue;
    positions.push_back(static_cast<int64_t>(wide.size()));
    wide.push_back(self.dim(static_cast<int>(i - lead)));
  }
  return Reshape(x.builder().BroadcastInDim(self, wide, positions), x.result().dims);
}

OPS(({"aten::lift_fresh_copy", "aten::alias_copy", "aten::detach_copy"}),
    {.tolerance = Tolerance::kExact}) {
  return x.tensor("self");
}

OP("aten::channel_shuffle", {.tolerance = Tolerance::kExact}) {
  Value self = x.tensor("self");
  int64_t groups = x.integer("groups");
  Value split = SplitDim(self, 1, groups, self.dim(1) / groups);
  Dims swap;
  for (int i = 0; i < split.rank(); ++i) swap.push_back(i);
  std::swap(swap[1], swap[2]);
  return Reshape(Transpose(split, swap), self.dims());
}

// [*, C r r, H, W] -> [*, C, H r, W r]
OP("aten::pixel_shuffle", {.tolerance = Tolerance::kExact}) {
  Value self = x.tensor("self");
  int64_t r = x.integer("upscale_factor"), h = self.dim(-2), w = self.dim(-1);
  int64_t c = self.dim(-3) / (r * r), n = 1;
  for (int i = 0; i < self.rank() - 3; ++i) n *= self.dim(i);
  Value split = Reshape(self, {n, c, r, r, h, w});
  return Reshape(Transpose(split, {0, 1, 4, 2, 5, 3}), x.result().dims);
}

OP("aten::pixel_unshuffle", {.tolerance = Tolerance::kExact}) {
  Value self = x.tensor("self");
  int64_t r = x.integer("downscale_factor"), h = self.dim(-2) / r, w = self.dim(-1) / r;
  int64_t c = self.dim(-3), n = 1;
  for (int i = 0; i < self.rank() - 3; ++i) n *= self.dim(i);
  Value split = Reshape(self, {n, c, h, r, w, r});
  return Reshape(Transpose(split, {0, 1, 3, 5, 2, 4}), x.result().dims);
}

OP("aten::diag_embed", {.tolerance = Tolerance::kExact}) {
  const Dims& dims = x.result().dims;
  int rank = static_cast<int>(dims.size());
  return WriteDiagonal(Zeros(x, x.result().dtype, dims), x.tensor("self"), x.integer("offset"),
                       Dim(x, "dim1", rank), Dim(x, "dim2", rank));
}

// ---- gradients of views: the gradient in its place, zeros around it
// ---------------------------------

OP("aten::diagonal_backward", {.tolerance = Tolerance::kExact}) {
  Value grad = x.tensor("grad_output");
  Dims sizes = x.ints("input_sizes");
  int rank = static_cast<int>(sizes.size());
  return WriteDiagonal(Zeros(x, grad.dtype(), sizes), grad, x.integer("offset"),
                       Dim(x, "dim1", rank), Dim(x, "dim2", rank));
}

OP("aten::select_backward", {.tolerance = Tolerance::kExact}) {
  Value grad = x.tensor("grad_output");
  Dims sizes = x.ints("input_sizes"), low(sizes.size(), 0), high(sizes.size(), 0);
  int dim = Dim(x, "dim", static_cast<int>(sizes.size()));
  int64_t index = x.integer("index");
  if (index < 0) index += sizes[dim];
  low[dim] = index;
  high[dim] = sizes[dim] - index - 1;
  return x.builder().Pad(Unsqueeze(grad, {dim}), Zeros(x, grad.dtype()), low, high);
}

OP("aten::slice_backward", {.tolerance = Tolerance::kExact}) {
  Value grad = x.tensor("grad_output");
  Dims sizes = x.ints("input_sizes");
  if (grad.numel() == 0) return Zeros(x, grad.dtype(), sizes);
  Dims low(sizes.size(), 0), high(sizes.size(), 0), interior(sizes.size(), 0);
  int dim = Dim(x, "dim", static_cast<int>(sizes.size()));
  Slicing s = ResolveSlice(sizes[dim], x.integer("start"), x.integer("end"), x.integer("step"));
  low[dim] = s.start;
  interior[dim] = s.step - 1;
  high[dim] = sizes[dim] - s.start - (s.length - 1) * s.step - 1;
  return x.builder().Pad(grad, Zeros(x, grad.dtype()), low, high, interior);
}

// Windows [.., count, .., size] of `step` along dim, summed where they overlap.
OP("aten::unfold_backward", {.tolerance = Tolerance::kAccumulate}) {
  auto& b = x.builder();
  Value grad = Wide(x.tensor("grad_in"));
  Dims sizes = x.ints("input_sizes");
  if (sizes.empty()) return Reshape(grad, {});
  int rank = static_cast<int>(sizes.size()), dim = Dim(x, "dim", rank);
  int64_t size = x.integer("size"), step = x.integer("step");
  if (grad.numel() == 0) return Zeros(x, grad.dtype(), sizes);
  int64_t count = grad.dim(dim), span = (count - 1) * step + size;
  int64_t steps = (size + step - 1) / step;  // windows that cover one element, at most
  Dims order, flat = sizes;
  for (int i = 0; i < rank; ++i) {
    order.push_back(i);
    if (i == dim) order.push_back(rank);
  }
  Value windows = Transpose(grad, order), zero = Zeros(x, grad.dtype());
  constexpr int64_t kUnrolled = 32;
  if (steps > kUnrolled) {
    Value index = b.Iota(DType::kS32, {count, size}, 0) * static_cast<double>(step) +
                  b.Iota(DType::kS32, {count, size}, 1);
    flat[dim] = count * size;
    return ScatterRows(Zeros(x, grad.dtype(), sizes), Flat(index), Reshape(windows, flat), dim,
                       Combiner("sum"));
  }
  // Cut windows into pieces of one step: piece k of all windows is a contiguous run, k steps in.
  Dims none(rank + 1, 0), rest(rank + 1, 0);
  rest[dim + 1] = steps * step - size;
  windows = b.Pad(windows, zero, none, rest);
  flat[dim] = count * step;
  Value sum;
  for (int64_t k = 0; k < steps; ++k) {
    Value piece = Reshape(b.SliceDim(windows, dim + 1, k * step, (k + 1) * step), flat);
    Dims low(rank, 0), high(rank, 0);
    low[dim] = k * step;
    high[dim] = (steps - 1 - k) * step;
    piece = b.Pad(piece, zero, low, high);
    sum = sum ? sum + piece : piece;
  }
  Dims low(rank, 0), high(rank, 0);
  high[dim] = sizes[dim] - span;
  return b.Pad(b.SliceDim(sum, dim, 0, span), zero, low, high);
}

}  // namespace torch_tpu::ops
