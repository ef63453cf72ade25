// SPDX-License-Identifier: Apache-2.0
// Which slices and reshapes lead from an array to a window. No values here, only sizes.
#include <algorithm>
#include <functional>
#include <numeric>

#include "csrc/ops/strided.h"

namespace torch_tpu::ops {
namespace {

using hlo::Dims;

int64_t Product(const Dims& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

struct Piece {
  int64_t size, step;
};

// The walked dims with neighbours joined where together they are one, innermost first.
std::vector<Piece> JoinedDims(const Strided& w) {
  std::vector<Piece> out;
  const std::vector<int> walked = w.walked();
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
  bool diagonal = false;           // its one piece steps through the next axis too
  bool no_diagonal = false;        // tried, and another piece needs one of the two axes
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

// Lets `p` step through both axes at once, when it stays within `inner` without a carry. Merging
// the two would lay out the whole array anew.
bool StartDiagonal(Axis& outer, Axis& inner, const Piece& p) {
  const int64_t rest = p.step % outer.stride;
  if (outer.no_diagonal || outer.merged() || inner.merged() || rest % inner.stride != 0) {
    return false;
  }
  const int64_t step = rest / inner.stride;
  if (inner.start + (p.size - 1) * step >= inner.size) return false;
  outer.diagonal = true;
  outer.pieces.push_back({p.size, p.step / outer.stride});
  inner.pieces.push_back({p.size, step});
  return true;
}

// Distributes the window's pieces over the axes so that no index carries from one axis to the next.
// Gives the outer one of two axes that must be merged first, or -1 when done.
int Distribute(std::vector<Axis>& axes, const std::vector<Piece>& window, int64_t offset) {
  for (Axis& a : axes) {
    a.pieces.clear();
    a.diagonal = false;
    a.start = offset / a.stride % a.size;
  }
  for (Piece p : window) {
    while (p.size > 1) {
      size_t j = axes.size() - 1;
      while (j > 0 && p.step >= axes[j].stride * axes[j].size) --j;
      Axis& a = axes[j];
      const int64_t step = p.step / a.stride;
      const bool fits = a.start + (p.size - 1) * step < a.size;
      if (p.step % a.stride != 0) {
        if (!fits || !StartDiagonal(a, axes[j + 1], p)) return static_cast<int>(j);
        break;
      }
      if (fits) {
        a.pieces.push_back({p.size, step});
        break;
      }
      // The piece runs through the whole axis and goes on in the next outer one.
      const int64_t here = a.size / step;
      if (a.size % step != 0 || a.start >= step || p.size % here != 0) {
        return static_cast<int>(j) - 1;
      }
      a.pieces.push_back({here, step});
      p = {p.size / here, a.stride * a.size};
    }
  }
  for (size_t j = 0; j < axes.size(); ++j) {
    Axis& a = axes[j];
    if (a.diagonal && (a.pieces.size() != 1 || axes[j + 1].pieces.size() != 1)) {
      a.no_diagonal = true;
      return Distribute(axes, window, offset);
    }
    if (j > 0 && a.start + a.extent() > a.size) return static_cast<int>(j) - 1;
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

// What is kept of an axis: one slice for a single piece, else the blocks that Split takes apart
// (the last one may lie partly beyond the axis). Blocks are aligned to their step where all fits
// into one.
struct Cut {
  int64_t start, extent, stride;
  int64_t rest;  // where the finer pieces start within a block
};

Cut CutOf(const std::vector<Piece>& pieces, int64_t start, int64_t size) {
  if (pieces.empty()) return {start, 1, 1, 0};
  const Piece& outer = pieces.back();
  if (pieces.size() == 1) return {start, (outer.size - 1) * outer.step + 1, outer.step, 0};
  int64_t covered = 1;
  for (size_t i = 0; i + 1 < pieces.size(); ++i) covered += (pieces[i].size - 1) * pieces[i].step;
  int64_t rest = start % outer.step;
  if (rest + covered > outer.step) rest = 0;
  return {start - rest, std::min(size - (start - rest), outer.size * outer.step), 1, rest};
}

// Appends steps, leaving out those that change nothing.
class StepWriter {
 public:
  explicit StepWriter(const Dims& dims) : dims_(dims) {}
  const Dims& dims() const { return dims_; }

  void Reshape(const Dims& dims) { Add({Step::kReshape, dims}); }
  void Slice(const Dims& starts, const Dims& extents, const Dims& strides) {
    Add({Step::kSlice, extents, starts, strides});
  }
  void Diagonal(int axis, const Axis& outer, const Axis& inner) {
    Dims dims = dims_;
    dims.erase(dims.begin() + axis + 1);
    dims[axis] = outer.pieces[0].size;
    Add({Step::kDiagonal,
         dims,
         {outer.start, inner.start},
         {outer.pieces[0].step, inner.pieces[0].step},
         axis});
  }
  // Splits dim `at` into [pieces.back().size, its step], and so on inwards.
  void Split(size_t at, std::vector<Piece> pieces, int64_t rest) {
    while (pieces.size() > 1) {
      const Piece outer = pieces.back();
      pieces.pop_back();
      Dims missing(dims_.size(), 0);
      missing[at] = outer.size * outer.step - dims_[at];
      Add({Step::kPad, missing});
      Dims dims = dims_;
      dims[at] = outer.size;
      dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(at) + 1, outer.step);
      Reshape(dims);
      ++at;
      const Cut cut = CutOf(pieces, rest, outer.step);
      Dims starts(dims.size(), 0), extents = dims, strides(dims.size(), 1);
      starts[at] = cut.start;
      extents[at] = cut.extent;
      strides[at] = cut.stride;
      Slice(starts, extents, strides);
      rest = cut.rest;
    }
  }
  std::vector<Step> Take() { return std::move(steps_); }

 private:
  void Add(Step s) {
    Dims after = s.After(dims_);
    if (after == dims_) return;
    dims_ = std::move(after);
    steps_.push_back(std::move(s));
  }

  Dims dims_;
  std::vector<Step> steps_;
};

}  // namespace

bool Strided::empty() const { return std::find(sizes.begin(), sizes.end(), 0) != sizes.end(); }

int64_t Strided::reach() const {
  if (empty()) return 0;
  int64_t last = offset;
  for (size_t i = 0; i < sizes.size(); ++i) last += (sizes[i] - 1) * strides[i];
  return last + 1;
}

Dims Step::After(Dims before) const {
  if (kind == kReshape || kind == kDiagonal) return dims;
  for (size_t i = 0; i < dims.size(); ++i) {
    before[i] = kind == kPad ? before[i] + dims[i] : (dims[i] - 1) / strides[i] + 1;
  }
  return before;
}

std::vector<int> Strided::walked() const {
  std::vector<int> out;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] > 1 && strides[i] != 0) out.push_back(static_cast<int>(i));
  }
  std::stable_sort(out.begin(), out.end(), [&](int a, int b) { return strides[a] > strides[b]; });
  return out;
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
  Dims starts(dims.size(), 0), extents = dims, strides(dims.size(), 1), rests(axes.size(), 0);
  for (size_t j = 0; j < axes.size(); ++j) {
    Axis& a = axes[j];
    if (a.diagonal || (j > 0 && axes[j - 1].diagonal)) continue;
    if (a.merged()) {
      const int64_t row = a.size / dims[a.first];
      const int64_t low = a.start / row;
      const int64_t high = (a.start + a.extent() - 1) / row + 1;
      starts[a.first] = low;
      extents[a.first] = high - low;
      a.start -= low * row;
      a.size = (high - low) * row;
    } else {
      const Cut cut = CutOf(a.pieces, a.start, a.size);
      starts[a.first] = cut.start;
      extents[a.first] = cut.extent;
      strides[a.first] = cut.stride;
      rests[j] = cut.rest;
    }
  }
  out.Reshape(dims);
  out.Slice(starts, extents, strides);

  Dims merged;
  for (const Axis& a : axes) merged.push_back(a.merged() ? a.size : out.dims()[a.first]);
  Dims merged_starts(axes.size(), 0), merged_extents = merged, merged_strides(axes.size(), 1);
  for (size_t j = 0; j < axes.size(); ++j) {
    if (!axes[j].merged()) continue;
    const Cut cut = CutOf(axes[j].pieces, axes[j].start, axes[j].size);
    merged_starts[j] = cut.start;
    merged_extents[j] = cut.extent;
    merged_strides[j] = cut.stride;
    rests[j] = cut.rest;
  }
  out.Reshape(merged);
  out.Slice(merged_starts, merged_extents, merged_strides);
  for (size_t j = axes.size(); j-- > 0;) {
    if (axes[j].diagonal) {
      out.Diagonal(static_cast<int>(j), axes[j], axes[j + 1]);
    } else {
      out.Split(j, axes[j].pieces, rests[j]);
    }
  }
  return out.Take();
}

}  // namespace torch_tpu::ops
