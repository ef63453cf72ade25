// SPDX-License-Identifier: Apache-2.0
// grid_sampler: reads an image [N, C, spatial...] at run-time coordinates [N, out..., spatial]
// between -1 and 1, x first. Two and three spatial dimensions share everything but cubic.
#include <cmath>
#include <functional>

#include "csrc/ops/op.h"

namespace torch_tpu::ops {
namespace {

enum Interpolation { kBilinear = 0, kNearest = 1, kBicubic = 2 };
enum Padding { kZeros = 0, kBorder = 1, kReflection = 2 };

// A coordinate along one dimension and its derivative by the grid's number.
struct Coordinate {
  Value at, slope;
};

struct Sampler {
  hlo::Builder& b;
  Value input, grid;  // compute type; [N, C, S], [N, P, spatial]
  Dims sizes;         // spatial, outermost first
  int64_t interpolation, padding;
  bool align_corners;

  int spatial() const { return static_cast<int>(sizes.size()); }
};

Sampler Read(Lowering& x, int spatial) {
  Sampler s{.b = x.builder(), .align_corners = x.boolean("align_corners")};
  const DType type = hlo::ComputeType(x.tensor("input").dtype());
  auto input = Convert(x.tensor("input"), type), grid = Convert(x.tensor("grid"), type);
  s.sizes.assign(input.dims().begin() + 2, input.dims().end());
  int64_t plane = 1, points = 1;
  for (int i = 0; i < spatial; ++i) {
    plane *= s.sizes[i];
    points *= grid.dim(1 + i);
  }
  s.input = Reshape(input, {input.dim(0), input.dim(1), plane});
  s.grid = Reshape(grid, {grid.dim(0), points, spatial});
  s.interpolation = x.integer("interpolation_mode");
  s.padding = x.integer("padding_mode");
  return s;
}

Value Inside(Value at, int64_t size) { return (at >= 0) & (at <= static_cast<double>(size - 1)); }

// Into [0, size - 1]; the slope is 0 where it was outside or at the rim, as torch's.
Coordinate Clip(Coordinate c, int64_t size) {
  auto& b = c.at.builder();
  auto inner = (c.at > 0) & (c.at < static_cast<double>(size - 1));
  auto zero = b.Constant(c.at.dtype(), 0), last = b.Constant(c.at.dtype(), size - 1);
  return {b.Clamp(zero, c.at, last), Select(inner, c.slope, ZerosLike(c.slope))};
}

// Folds back and forth between `low` and `high`.
Coordinate Reflect(Coordinate c, double low, double high) {
  if (low == high) return {ZerosLike(c.at), ZerosLike(c.slope)};
  const double span = high - low;
  auto from = c.at - low;
  auto slope = Select(from < 0, -c.slope, c.slope);
  from = Abs(from);
  auto extra = Rem(from, Like(from, span));
  auto odd = Ne(Rem(Floor(from / span), Like(from, 2)), 0);
  return {Select(odd, high - extra, extra + low), Select(odd, -slope, slope)};
}

Coordinate Pad(const Sampler& s, Coordinate c, int64_t size) {
  if (s.padding == kZeros) return c;
  if (s.padding == kReflection) {
    c = s.align_corners ? Reflect(c, 0, size - 1) : Reflect(c, -0.5, size - 0.5);
  }
  return Clip(c, size);
}

// Spatial dimension i of the grid in pixels [N, P]; cubic pads its taps instead.
Coordinate Pixels(const Sampler& s, int i) {
  const int64_t size = s.sizes[i];
  auto g = s.b.SliceDim(s.grid, 2, s.spatial() - 1 - i, s.spatial() - i);
  g = Reshape(g, {g.dim(0), g.dim(1)});
  const double scale = s.align_corners ? (size - 1) / 2.0 : size / 2.0;
  auto at = s.align_corners ? (g + 1.0) / 2.0 * static_cast<double>(size - 1)
                            : ((g + 1.0) * static_cast<double>(size) - 1.0) / 2.0;
  Coordinate c{at, Like(at, scale)};
  return s.interpolation == kBicubic ? c : Pad(s, c, size);
}

// What one output reads along one dimension: a position, its weight and the weight's derivative by
// the grid's number (absent: 0).
struct Tap {
  Value at, weight, slope;
};

std::vector<Tap> TapsOf(const Sampler& s, int i) {
  const Coordinate c = Pixels(s, i);
  if (s.interpolation == kNearest) return {{RoundEven(c.at), OnesLike(c.at), Value()}};
  auto low = Floor(c.at), part = c.at - low;
  if (s.interpolation == kBilinear) {
    return {{low, 1.0 - part, -c.slope}, {low + 1.0, part, c.slope}};
  }
  constexpr double kA = -0.75;
  std::vector<Tap> taps;
  for (int k = -1; k <= 2; ++k) {
    auto d = k <= 0 ? part - static_cast<double>(k) : static_cast<double>(k) - part;
    const bool near = k == 0 || k == 1;
    auto weight = near ? ((kA + 2) * d - (kA + 3)) * d * d + 1.0
                       : ((kA * d - 5 * kA) * d + 8 * kA) * d - 4 * kA;
    auto slope =
        near ? ((3 * (kA + 2)) * d - 2 * (kA + 3)) * d : ((3 * kA) * d - 10 * kA) * d + 8 * kA;
    if (k > 0) slope = -slope;
    Coordinate tap = Pad(s, {low + static_cast<double>(k), Like(low, 0)}, s.sizes[i]);
    taps.push_back({tap.at, weight, slope * c.slope});
  }
  return taps;
}

// One combination of taps over all dimensions.
struct Corner {
  Value index;    // s32 [N, P] into the plane, clamped
  Value weight;   // [N, P]; 0 outside
  Values slopes;  // by each spatial dimension's grid number; empty without slopes
};

std::vector<Corner> Corners(const Sampler& s, bool slopes) {
  std::vector<std::vector<Tap>> taps;
  for (int i = 0; i < s.spatial(); ++i) taps.push_back(TapsOf(s, i));
  std::vector<Corner> corners;
  std::function<void(std::vector<Tap>)> visit = [&](std::vector<Tap> chosen) {
    const int n = static_cast<int>(chosen.size());
    if (n < s.spatial()) {
      for (const Tap& t : taps[n]) {
        auto next = chosen;
        next.push_back(t);
        visit(next);
      }
      return;
    }
    Corner c;
    Value inside;
    for (int i = 0; i < n; ++i) {
      auto in = Inside(chosen[i].at, s.sizes[i]);
      inside = inside ? inside & in : in;
      auto at = s.b.Clamp(s.b.Constant(DType::kS32, 0), Convert(chosen[i].at, DType::kS32),
                          s.b.Constant(DType::kS32, static_cast<double>(s.sizes[i] - 1)));
      c.index = c.index ? c.index * static_cast<double>(s.sizes[i]) + at : at;
    }
    auto product = [&](int derived) {
      Value p;
      for (int i = 0; i < n; ++i) {
        auto w = i == derived ? chosen[i].slope : chosen[i].weight;
        p = p ? p * w : w;
      }
      return Select(inside, p, ZerosLike(p));
    };
    c.weight = product(-1);
    for (int i = 0; slopes && i < n; ++i) {
      c.slopes.push_back(chosen[i].slope ? product(i) : ZerosLike(c.weight));
    }
    corners.push_back(c);
  };
  visit({});
  return corners;
}

// [N, C, P]: every channel at the corner's points.
Value GatherPoints(const Sampler& s, const Corner& c) {
  auto index = Reshape(c.index, {c.index.dim(0), c.index.dim(1), 1});
  return s.b.Gather(s.input, index,
                    {.offset_dims = {1},
                     .collapsed_slice_dims = {2},
                     .operand_batching_dims = {0},
                     .start_indices_batching_dims = {0},
                     .start_index_map = {2},
                     .index_vector_dim = 2,
                     .slice_sizes = {1, s.input.dim(1), 1}});
}

Value OverChannels(Value v, const Dims& dims) {
  return v.builder().BroadcastInDim(v, dims, {0, 2});
}

// A corner outside counts as 0, even where the clamped point holds an infinity.
Value Weighted(Value points, Value weight) {
  auto w = OverChannels(weight, points.dims());
  return Select(Eq(w, 0), ZerosLike(points), points * w);
}

Value Sample(Lowering& x, int spatial) {
  if (x.result().numel() == 0) return x.builder().Constant(x.compute_type(), 0, x.result().dims);
  const Sampler s = Read(x, spatial);
  Value sum;
  for (const Corner& c : Corners(s, false)) {
    auto part = Weighted(GatherPoints(s, c), c.weight);
    sum = sum ? sum + part : part;
  }
  return Reshape(sum, x.result().dims);
}

Results SampleBackward(Lowering& x, int spatial) {
  const auto asked = x.bools("output_mask");
  const Sampler s = Read(x, spatial);
  auto& b = x.builder();
  const int64_t batch = s.input.dim(0), channels = s.input.dim(1), points = s.grid.dim(1);
  auto grad = Reshape(Convert(x.tensor("grad_output"), s.input.dtype()), {batch, channels, points});
  Value image = b.Constant(grad.dtype(), 0, {batch, s.input.dim(2), channels});
  Values grid(spatial, b.Constant(grad.dtype(), 0, {batch, points}));
  for (const Corner& c : Corners(s, asked[1])) {
    if (asked[0]) {
      auto part = Transpose(grad * OverChannels(c.weight, grad.dims()), {0, 2, 1});
      image = b.Scatter(image, Reshape(c.index, {batch, points, 1}), part,
                        {.update_window_dims = {2},
                         .inserted_window_dims = {1},
                         .input_batching_dims = {0},
                         .scatter_indices_batching_dims = {0},
                         .scatter_dims_to_operand_dims = {1},
                         .index_vector_dim = 2},
                        [](const Values& v) -> Values { return {v[0] + v[1]}; });
    }
    if (!asked[1]) continue;
    auto along = Sum(GatherPoints(s, c) * grad, {1});
    for (int i = 0; i < spatial; ++i) grid[i] = grid[i] + c.slopes[i] * along;
  }
  Values out(2);
  if (asked[0]) out[0] = Reshape(Transpose(image, {0, 2, 1}), x.tensor("input").dims());
  if (asked[1]) {
    Values parts;  // x first: the innermost dimension
    for (int i = spatial; i-- > 0;) parts.push_back(Unsqueeze(grid[i], {2}));
    out[1] = Reshape(b.Concatenate(parts, 2), x.tensor("grid").dims());
  }
  return out;
}

const Options kSample = {.tolerance = Tolerance::kApproximate};

}  // namespace

OP("aten::grid_sampler_2d", kSample) { return Sample(x, 2); }
OP("aten::grid_sampler_3d", kSample) { return Sample(x, 3); }
OP("aten::grid_sampler_2d_backward", kSample) { return SampleBackward(x, 2); }
OP("aten::grid_sampler_3d_backward", kSample) { return SampleBackward(x, 3); }

}  // namespace torch_tpu::ops
