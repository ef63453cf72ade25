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

struct Piece {
  int64_t size, step;
};

// Dims that are walked: neither size 1 nor broadcast. By falling stride; equal strides keep order.
std::vector<int> WalkedDims(const Strided& w) {
  std::vector<int> out;
  for (size_t i = 0; i < w.sizes.size(); ++i) {
    if (w.sizes[i] > 1 && w.strides[i] != 0) out.push_back(static_cast<int>(i));
  }
  std::stable_sort(out.begin(), out.end(),
                   [&](int a, int b) { return w.strides[a] > w.strides[b]; });
  return out;
}

// The walked dims with neighbours joined where together they are one, innermost first.
std::vector<Piece> JoinedDims(const Strided& w) {
  std::vector<Piece> out;
  const std::vector<int> walked = WalkedDims(w);
  for (auto it = walked.rbegin(); it != walked.rend(); ++it) {
    const Piece p{w.sizes[*it], w.strides[*it]};
    if (!out.empty() && p.step == out.back().size * out.back().step) {
      out.back().size *= p.size;
    } else {
      out.push_back(p);
    }
  }
  return out;
}

// Consecutive array dims [first, last], seen as one of `size` elements that are `stride` apart.
struct Axis {
  int first, last;
  int64_t size, stride;
  int64_t start = 0;
  std::vector<Piece> pieces = {};  // by rising step
  int64_t extent() const {
    int64_t e = 1;
    for (const Piece& p : pieces) e += (p.size - 1) * p.step;
    return e;
  }
  bool merged() const { return first != last; }
};

void Merge(std::vector<Axis>& axes, size_t outer) {
  Axis &a = axes[outer], &b = axes[outer + 1];
  a.last = b.last;
  a.size *= b.size;
  a.stride = b.stride;
  axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(outer) + 1);
}

// Distributes the window's pieces over the axes so that no index carries from one axis to the next.
// Gives the outer one of two axes that must be merged first, or -1 when done.
int Distribute(std::vector<Axis>& axes, const std::vector<Piece>& window, int64_t offset) {
  for (Axis& a : axes) {
    a.pieces.clear();
    a.start = offset / a.stride % a.size;
  }
  for (Piece p : window) {
    while (p.size > 1) {
      int j = static_cast<int>(axes.size()) - 1;
      while (j > 0 && p.step >= axes[j].stride * axes[j].size) --j;
      Axis& a = axes[j];
      if (p.step % a.stride != 0) return j;
      const int64_t step = p.step / a.stride;
      if (a.start + (p.size - 1) * step < a.size) {
        a.pieces.push_back({p.size, step});
        break;
      }
      // The piece runs through the whole axis and goes on in the next outer one.
      const int64_t here = a.size / step;
      if (a.size % step != 0 || a.start >= step || p.size % here != 0) return j - 1;
      a.pieces.push_back({here, step});
      p = {p.size / here, a.stride * a.size};
    }
  }
  for (size_t j = 1; j < axes.size(); ++j) {
    if (axes[j].start + axes[j].extent() > axes[j].size) return static_cast<int>(j) - 1;
  }
  return -1;
}

// True when each piece steps over all that the finer ones cover.
bool Nested(const Axis& a) {
  int64_t covered = 1;
  for (const Piece& p : a.pieces) {
    if (p.step < covered) return false;
    covered += (p.size - 1) * p.step;
  }
  return true;
}

// Appends steps, leaving out those that change nothing.
class StepWriter {
 public:
  explicit StepWriter(const Dims& dims) : dims_(dims) {}
  const Dims& dims() const { return dims_; }

  void Reshape(const Dims& dims) {
    if (dims == dims_) return;
    steps_.push_back({Step::kReshape, dims, {}, {}});
    dims_ = dims;
  }
  void Slice(const Dims& starts, const Dims& extents, const Dims& strides) {
    Dims out;
    for (size_t i = 0; i < dims_.size(); ++i) out.push_back((extents[i] - 1) / strides[i] + 1);
    if (out == dims_) return;
    steps_.push_back({Step::kSlice, extents, starts, strides});
    dims_ = out;
  }
  void PadEnd(size_t dim, int64_t size) {
    if (dims_[dim] == size) return;
    Dims high(dims_.size(), 0);
    high[dim] = size - dims_[dim];
    steps_.push_back({Step::kPad, high, {}, {}});
    dims_[dim] = size;
  }
  // Splits dim `at` into [pieces.back().size, rest], and so on inwards. The window starts at 0.
  void Split(size_t at, std::vector<Piece> pieces) {
    while (pieces.size() > 1) {
      const Piece outer = pieces.back();
      pieces.pop_back();
      PadEnd(at, outer.size * outer.step);
      Dims dims = dims_;
      dims[at] = outer.size;
      dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(at) + 1, outer.step);
      Reshape(dims);
      ++at;
      Dims starts(dims.size(), 0), extents = dims, strides(dims.size(), 1);
      Narrow(pieces, extents[at], strides[at]);
      Slice(starts, extents, strides);
    }
  }
  // What a slice of one axis keeps: the extent and step of a single piece, or the blocks that Split
  // takes apart (the last one may lie partly beyond the axis).
  static void Narrow(const std::vector<Piece>& pieces, int64_t& extent, int64_t& stride) {
    const int64_t room = extent;
    stride = 1;
    if (pieces.empty()) {
      extent = 1;
    } else if (pieces.size() == 1) {
      extent = (pieces[0].size - 1) * pieces[0].step + 1;
      stride = pieces[0].step;
    } else {
      extent = std::min(room, pieces.back().size * pieces.back().step);
    }
  }
  std::vector<Step> Take() { return std::move(steps_); }

 private:
  Dims dims_;
  std::vector<Step> steps_;
};

Value ApplyStep(Value v, const Step& s) {
  Builder& b = v.builder();
  if (s.kind == Step::kReshape) return b.Reshape(v, s.dims);
  if (s.kind == Step::kPad) {
    return b.Pad(v, b.Constant(v.dtype(), 0), Dims(s.dims.size(), 0), s.dims);
  }
  Dims limits;
  for (size_t i = 0; i < s.dims.size(); ++i) limits.push_back(s.starts[i] + s.dims[i]);
  return b.Slice(v, s.starts, limits, s.strides);
}

Dims DimsAfter(Dims dims, const Step& s) {
  for (size_t i = 0; i < s.dims.size() && s.kind != Step::kReshape; ++i) {
    dims[i] = s.kind == Step::kPad ? dims[i] + s.dims[i] : (s.dims[i] - 1) / s.strides[i] + 1;
  }
  return s.kind == Step::kReshape ? s.dims : dims;
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
  const std::vector<int> walked = WalkedDims(w);
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

bool Strided::empty() const { return std::find(sizes.begin(), sizes.end(), 0) != sizes.end(); }

int64_t Strided::reach() const {
  if (empty()) return 0;
  int64_t last = offset;
  for (size_t i = 0; i < sizes.size(); ++i) last += (sizes[i] - 1) * strides[i];
  return last + 1;
}

std::optional<std::vector<Step>> PlanSteps(const Dims& array, const Strided& window) {
  std::vector<Axis> axes;
  Dims dims;  // of the array, without those of size 1
  int64_t stride = Product(array);
  for (int64_t size : array) {
    stride /= size;
    if (size == 1) continue;
    const int at = static_cast<int>(dims.size());
    axes.push_back({at, at, size, stride});
    dims.push_back(size);
  }
  const std::vector<Piece> pieces = JoinedDims(window);
  for (int outer; (outer = Distribute(axes, pieces, window.offset)) >= 0;) {
    Merge(axes, static_cast<size_t>(outer));
  }
  if (!std::all_of(axes.begin(), axes.end(), Nested)) return std::nullopt;

  StepWriter out(array);
  if (axes.empty()) {
    out.Reshape({});
    return out.Take();
  }
  // Slice before merging: of a merged axis, the rows of its outermost dim that the window meets.
  Dims starts(dims.size(), 0), extents = dims, strides(dims.size(), 1);
  for (Axis& a : axes) {
    if (a.merged()) {
      const int64_t row = a.size / dims[a.first];
      const int64_t low = a.start / row;
      const int64_t high = (a.start + a.extent() - 1) / row + 1;
      starts[a.first] = low;
      extents[a.first] = high - low;
      a.start -= low * row;
      a.size = (high - low) * row;
    } else {
      starts[a.first] = a.start;
      extents[a.first] = a.size - a.start;
      StepWriter::Narrow(a.pieces, extents[a.first], strides[a.first]);
    }
  }
  out.Reshape(dims);
  out.Slice(starts, extents, strides);

  Dims merged, merged_starts, merged_extents, merged_strides;
  for (const Axis& a : axes) {
    const bool slice = a.merged();
    merged.push_back(slice ? a.size : out.dims()[a.first]);
    merged_starts.push_back(slice ? a.start : 0);
    merged_extents.push_back(slice ? a.size - a.start : merged.back());
    merged_strides.push_back(1);
    if (slice) StepWriter::Narrow(a.pieces, merged_extents.back(), merged_strides.back());
  }
  out.Reshape(merged);
  out.Slice(merged_starts, merged_extents, merged_strides);
  for (size_t j = axes.size(); j-- > 0;) out.Split(j, axes[j].pieces);
  return out.Take();
}

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

  // Down to what the last slice looks at, then back up.
  const auto last = std::find_if(steps->rbegin(), steps->rend(),
                                 [](const Step& s) { return s.kind == Step::kSlice; });
  const size_t looked = static_cast<size_t>(steps->rend() - last);
  Values before;
  std::vector<Dims> dims = {array.dims()};
  for (size_t i = 0; i < steps->size(); ++i) {
    if (i < looked) before.push_back(i == 0 ? array : ApplyStep(before.back(), (*steps)[i - 1]));
    dims.push_back(DimsAfter(dims.back(), (*steps)[i]));
  }
  const std::vector<int> walked = WalkedDims(window);
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
  }
  return v;
}

}  // namespace torch_tpu::ops
