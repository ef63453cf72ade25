// SPDX-License-Identifier: Apache-2.0
#include "csrc/ops/strided.h"

#include <algorithm>
#include <numeric>

#include "csrc/base/status.h"

namespace torch_tpu::ops {
namespace {

using hlo::Builder;
using hlo::Dims;
using hlo::DType;
using hlo::Value;
using hlo::Values;

// Up to this many slices are stacked before an overlapping window becomes a gather.
constexpr int64_t kMostSlices = 64;

int64_t Product(const Dims& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

// [n, 2]: the two indices of each diagonal element.
Value DiagonalIndices(Builder& b, const Step& s) {
  const int64_t n = s.dims[s.axis];
  Values columns;
  for (size_t i = 0; i < 2; ++i) {
    columns.push_back(b.Iota(DType::kS32, {n, 1}, 0) * b.ConstantInt(DType::kS32, s.strides[i]) +
                      b.ConstantInt(DType::kS32, s.starts[i]));
  }
  return b.Concatenate(columns, 1);
}

// All dims of a diagonal's result but its own.
Dims OtherDims(const Step& s) {
  Dims out;
  for (int i = 0; i < static_cast<int>(s.dims.size()); ++i) {
    if (i != s.axis) out.push_back(i);
  }
  return out;
}

Value ReadDiagonal(Value v, const Step& s) {
  hlo::GatherDims d;
  d.offset_dims = OtherDims(s);
  d.collapsed_slice_dims = d.start_index_map = {s.axis, s.axis + 1};
  d.index_vector_dim = 1;
  d.slice_sizes = v.dims();
  d.slice_sizes[s.axis] = d.slice_sizes[s.axis + 1] = 1;
  d.indices_are_sorted = true;
  return v.builder().Gather(v, DiagonalIndices(v.builder(), s), d);
}

Value WriteDiagonal(Value v, Value update, const Step& s) {
  hlo::ScatterDims d;
  d.update_window_dims = OtherDims(s);
  d.inserted_window_dims = d.scatter_dims_to_operand_dims = {s.axis, s.axis + 1};
  d.index_vector_dim = 1;
  d.indices_are_sorted = d.unique_indices = true;
  return v.builder().Scatter(v, DiagonalIndices(v.builder(), s), update, d);
}

Value ApplyStep(Value v, const Step& s) {
  Builder& b = v.builder();
  if (s.kind == Step::kReshape) return b.Reshape(v, s.dims);
  if (s.kind == Step::kDiagonal) return ReadDiagonal(v, s);
  if (s.kind == Step::kPad) {
    return b.Pad(v, b.Constant(v.dtype(), 0), Dims(s.dims.size(), 0), s.dims);
  }
  Dims limits;
  for (size_t i = 0; i < s.dims.size(); ++i) limits.push_back(s.starts[i] + s.dims[i]);
  return b.Slice(v, s.starts, limits, s.strides);
}

Value UpdateContiguous(Value v, Value update, const Dims& starts) {
  if (update.dims() == v.dims()) return update;
  const DType index = v.numel() > INT32_MAX ? DType::kS64 : DType::kS32;
  Values at;
  for (int64_t s : starts) at.push_back(v.builder().ConstantInt(index, s));
  return v.builder().DynamicUpdateSlice(v, update, at);
}

// `v` with `update` where step `s` looks. A strided update is spread out and selected by a mask:
// elementwise, so it fuses, where a scatter would not.
Value UpdateStep(Value v, Value update, const Step& s) {
  Builder& b = v.builder();
  const size_t rank = s.dims.size();
  Dims inner(rank), zero(rank, 0);
  Value mask;
  for (size_t i = 0; i < rank; ++i) {
    inner[i] = s.strides[i] - 1;
    if (inner[i] == 0) continue;
    const Value on = hlo::Eq(hlo::Rem(b.Iota(DType::kS32, s.dims, static_cast<int>(i)),
                                      b.ConstantInt(DType::kS32, s.strides[i])),
                             0);
    mask = mask ? mask & on : on;
  }
  if (mask) {
    Step window = s;
    window.strides.assign(rank, 1);
    const Value spread = b.Pad(update, b.Constant(v.dtype(), 0), zero, zero, inner);
    update = b.Select(mask, spread, ApplyStep(v, window));
  }
  return UpdateContiguous(v, update, s.starts);
}

// Flat position of each element of the window, shaped as the window.
Value FlatIndices(Builder& b, const Strided& w, int64_t numel) {
  const DType dtype = numel > INT32_MAX ? DType::kS64 : DType::kS32;
  Value index = b.ConstantInt(dtype, w.offset, w.sizes);
  for (size_t i = 0; i < w.sizes.size(); ++i) {
    if (w.sizes[i] == 1 || w.strides[i] == 0) continue;
    index =
        index + b.Iota(dtype, w.sizes, static_cast<int>(i)) * b.ConstantInt(dtype, w.strides[i]);
  }
  return index;
}

Value GatherWindow(Value array, const Strided& w) {
  Builder& b = array.builder();
  const int64_t n = array.numel();
  hlo::GatherDims d;
  d.collapsed_slice_dims = {0};
  d.start_index_map = {0};
  d.index_vector_dim = static_cast<int64_t>(w.sizes.size());
  d.slice_sizes = {1};
  return b.Gather(b.Reshape(array, {n}), FlatIndices(b, w, n), d);
}

Value ScatterWindow(Value array, Value update, const Strided& w) {
  Builder& b = array.builder();
  const int64_t n = array.numel();
  hlo::ScatterDims d;
  d.inserted_window_dims = {0};
  d.scatter_dims_to_operand_dims = {0};
  d.index_vector_dim = static_cast<int64_t>(w.sizes.size());
  const Value flat = b.Scatter(b.Reshape(array, {n}), FlatIndices(b, w, n), update, d);
  return b.Reshape(flat, array.dims());
}

Dims Permuted(const Dims& dims, const std::vector<int>& order) {
  Dims out;
  for (int i : order) out.push_back(dims[i]);
  return out;
}

// Position of each walked dim, in the window's order, among those sorted by stride.
Dims OrderOf(const std::vector<int>& by_stride) {
  std::vector<int> in_order = by_stride;
  std::sort(in_order.begin(), in_order.end());
  Dims out;
  for (int d : in_order) {
    out.push_back(std::find(by_stride.begin(), by_stride.end(), d) - by_stride.begin());
  }
  return out;
}

Value ReadWithin(Value array, const Strided& w, int64_t slices_left) {
  Builder& b = array.builder();
  const std::vector<int> walked = w.walked();
  const auto steps = PlanSteps(array.dims(), w);
  if (!steps) {
    const int k = *std::min_element(walked.begin(), walked.end(),
                                    [&](int x, int y) { return w.sizes[x] < w.sizes[y]; });
    if (w.sizes[k] > slices_left) return GatherWindow(array, w);
    Values parts;
    Strided part = w;
    part.sizes[k] = 1;
    for (int64_t i = 0; i < w.sizes[k]; ++i) {
      part.offset = w.offset + i * w.strides[k];
      parts.push_back(ReadWithin(array, part, slices_left / w.sizes[k]));
    }
    return b.Concatenate(parts, k);
  }
  Value v = array;
  for (const Step& s : *steps) v = ApplyStep(v, s);
  v = b.Transpose(b.Reshape(v, Permuted(w.sizes, walked)), OrderOf(walked));
  if (v.numel() == Product(w.sizes)) return b.Reshape(v, w.sizes);
  std::vector<int> positions = walked;
  std::sort(positions.begin(), positions.end());
  return b.BroadcastInDim(v, w.sizes, Dims(positions.begin(), positions.end()));
}

}  // namespace

Value ReadStrided(Value array, const Strided& window) {
  Builder& b = array.builder();
  if (window.empty()) return b.Constant(array.dtype(), 0, window.sizes);
  if (const int64_t missing = window.reach() - array.numel(); missing > 0) {
    array = b.Pad(b.Reshape(array, {array.numel()}), b.Constant(array.dtype(), 0), {0}, {missing});
  }
  return ReadWithin(array, window, kMostSlices);
}

Value WriteStrided(Value array, Value update, const Strided& window) {
  Builder& b = array.builder();
  if (window.empty()) return array;
  for (size_t i = 0; i < window.sizes.size(); ++i) {
    if (window.sizes[i] > 1 && window.strides[i] == 0) {
      throw hlo::Error(StrCat("[view] expected a destination without overlap, got sizes ",
                              hlo::ToString(window.sizes), " and strides ",
                              hlo::ToString(window.strides), ". Try: clone() before writing"));
    }
  }
  if (window.reach() > array.numel()) {
    throw hlo::Error(StrCat("[view] expected a destination within ", array.numel(),
                            " elements, got one that ends at ", window.reach()));
  }
  const auto steps = PlanSteps(array.dims(), window);
  if (!steps) return ScatterWindow(array, update, window);

  // Down to what the last slice or diagonal looks at, then back up.
  const auto last = std::find_if(steps->rbegin(), steps->rend(), [](const Step& s) {
    return s.kind == Step::kSlice || s.kind == Step::kDiagonal;
  });
  const size_t looked = static_cast<size_t>(steps->rend() - last);
  Values before;
  std::vector<Dims> dims = {array.dims()};
  for (size_t i = 0; i < steps->size(); ++i) {
    if (i < looked) before.push_back(i == 0 ? array : ApplyStep(before.back(), (*steps)[i - 1]));
    dims.push_back((*steps)[i].After(dims.back()));
  }
  const std::vector<int> walked = window.walked();
  std::vector<int> in_order = walked;
  std::sort(in_order.begin(), in_order.end());
  Dims to_sorted;
  for (int d : walked) {
    to_sorted.push_back(std::find(in_order.begin(), in_order.end(), d) - in_order.begin());
  }
  Value v = b.Transpose(b.Reshape(update, Permuted(window.sizes, in_order)), to_sorted);
  v = b.Reshape(v, dims.back());
  for (size_t i = steps->size(); i-- > 0;) {
    const Step& s = (*steps)[i];
    if (s.kind == Step::kReshape) v = b.Reshape(v, dims[i]);
    if (s.kind == Step::kPad) v = b.Slice(v, Dims(dims[i].size(), 0), dims[i]);
    if (s.kind == Step::kSlice) v = UpdateStep(before[i], v, s);
    if (s.kind == Step::kDiagonal) v = WriteDiagonal(before[i], v, s);
  }
  return v;
}

}  // namespace torch_tpu::ops
