// SPDX-License-Identifier: Apache-2.0
// Resizing and sliding blocks. A resize is separable: along each dimension an output is a weighted
// sum of a few input positions ("taps") known on the host, so its transpose is a gather too.
#include <algorithm>
#include <cmath>
#include <functional>

#include "csrc/ops/op.h"
#include "csrc/ops/spatial.h"

namespace torch_tpu::ops {
namespace {

// Tap k of output o reads input position[k][o] with weight[k][o]. No weights: all ones (nearest).
struct Taps {
  std::vector<Dims> position;
  std::vector<std::vector<double>> weight;
};

// One dimension to resize. T is the type torch computes positions in: float, or double for float64.
struct Resize {
  int64_t in, out;
  double scale;  // output per input as the caller gave it; 0: none
  bool align_corners = false;
};

template <typename T>
T InputPerOutput(const Resize& r) {
  if (r.align_corners) return r.out > 1 ? static_cast<T>(r.in - 1) / static_cast<T>(r.out - 1) : 0;
  if (r.scale > 0) return static_cast<T>(1.0 / r.scale);
  return static_cast<T>(r.in) / static_cast<T>(r.out);
}

// The input coordinate at the middle of output o.
template <typename T>
T SourceOf(const Resize& r, int64_t o) {
  const T step = InputPerOutput<T>(r);
  return r.align_corners ? step * static_cast<T>(o) : step * (static_cast<T>(o) + T(0.5)) - T(0.5);
}

template <typename T>
Taps Nearest(const Resize& r, T shift) {
  Taps taps{.position = {Dims()}};
  const T step = InputPerOutput<T>(r);
  for (int64_t o = 0; o < r.out; ++o) {
    const auto at = static_cast<int64_t>(std::floor((static_cast<T>(o) + shift) * step));
    taps.position[0].push_back(std::min(at, r.in - 1));
  }
  return taps;
}

template <typename T>
Taps NearestFloor(const Resize& r) {
  return Nearest<T>(r, T(0));
}

template <typename T>
Taps NearestMiddle(const Resize& r) {
  return Nearest<T>(r, T(0.5));
}

template <typename T>
Taps Linear(const Resize& r) {
  Taps taps{.position = {2, Dims()}, .weight = {2, std::vector<double>()}};
  for (int64_t o = 0; o < r.out; ++o) {
    const T source = r.in == r.out ? static_cast<T>(o) : std::max(T(0), SourceOf<T>(r, o));
    const int64_t low = std::min(static_cast<int64_t>(source), r.in - 1);
    const T part = std::clamp(source - static_cast<T>(low), T(0), T(1));
    taps.position[0].push_back(low);
    taps.position[1].push_back(std::min(low + 1, r.in - 1));
    taps.weight[0].push_back(T(1) - part);
    taps.weight[1].push_back(part);
  }
  return taps;
}

// Keys' cubic kernel at distance x, in torch's two polynomials.
template <typename T>
T CubicNear(T x, T a) {
  return ((a + 2) * x - (a + 3)) * x * x + 1;
}
template <typename T>
T CubicFar(T x, T a) {
  return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

template <typename T>
Taps Cubic(const Resize& r) {
  constexpr T kA = T(-0.75);
  Taps taps{.position = {4, Dims()}, .weight = {4, std::vector<double>()}};
  for (int64_t o = 0; o < r.out; ++o) {
    const T source = r.in == r.out ? static_cast<T>(o) : SourceOf<T>(r, o);
    const int64_t low = std::min(static_cast<int64_t>(std::floor(source)), r.in - 1);
    const T part = std::clamp(source - static_cast<T>(low), T(0), T(1));
    const T weights[4] = {CubicFar(part + 1, kA), CubicNear(part, kA), CubicNear(1 - part, kA),
                          CubicFar(2 - part, kA)};
    for (int k = 0; k < 4; ++k) {
      taps.position[k].push_back(std::clamp<int64_t>(low - 1 + k, 0, r.in - 1));
      taps.weight[k].push_back(weights[k]);
    }
  }
  return taps;
}

// Antialiased: the kernel is widened by the reduction and normalized over the positions inside.
template <typename T>
Taps Antialiased(const Resize& r, T radius, T (*kernel)(T distance)) {
  const T step = InputPerOutput<T>(r);
  const T widen = std::max(step, T(1)), support = radius * widen;
  Taps taps;
  for (int64_t o = 0; o < r.out; ++o) {
    const T middle = step * (static_cast<T>(o) + T(0.5));
    const int64_t first = std::max<int64_t>(static_cast<int64_t>(middle - support + T(0.5)), 0);
    const int64_t end = std::min<int64_t>(static_cast<int64_t>(middle + support + T(0.5)), r.in);
    T total = 0;
    std::vector<T> weights;
    for (int64_t i = first; i < end; ++i) {
      weights.push_back(kernel(std::abs((static_cast<T>(i) - middle + T(0.5)) / widen)));
      total += weights.back();
    }
    for (size_t k = 0; k < weights.size(); ++k) {
      if (k == taps.position.size()) {  // outputs so far have fewer taps: weight 0 at position 0
        taps.position.emplace_back(o, 0);
        taps.weight.emplace_back(o, 0.0);
      }
      taps.position[k].push_back(first + static_cast<int64_t>(k));
      taps.weight[k].push_back(weights[k] / total);
    }
    for (size_t k = weights.size(); k < taps.position.size(); ++k) {
      taps.position[k].push_back(first);
      taps.weight[k].push_back(0);
    }
  }
  return taps;
}

template <typename T>
Taps LinearAntialiased(const Resize& r) {
  return Antialiased<T>(r, T(1), [](T d) { return d < 1 ? 1 - d : T(0); });
}

template <typename T>
Taps CubicAntialiased(const Resize& r) {
  return Antialiased<T>(r, T(2), [](T d) {
    return d < 1 ? CubicNear(d, T(-0.5)) : d < 2 ? CubicFar(d, T(-0.5)) : T(0);
  });
}

// torch resizes uint8 images with 16-bit weights, as many fraction bits as the largest one allows.
void RoundWeights(Taps& taps) {
  double largest = 0;
  for (const auto& weights : taps.weight) {
    for (double w : weights) largest = std::max(largest, w);
  }
  int bits = 0;
  while (bits < 22 && std::floor(0.5 + largest * std::ldexp(1.0, bits + 1)) < 32768) ++bits;
  for (auto& weights : taps.weight) {
    for (double& w : weights) w = std::ldexp(std::round(std::ldexp(w, bits)), -bits);
  }
}

struct Method {
  Taps (*single)(const Resize&);
  Taps (*wide)(const Resize&);  // positions of float64 tensors
  int spatial;
};

#define METHOD(name, spatial) \
  Method { &name<float>, &name<double>, spatial }

// `in` and `out`: sizes [N, C, spatial...]. Arguments: align_corners where the schema has it, and
// one scale per dimension.
std::vector<Taps> ReadTaps(Lowering& x, const Method& m, const Dims& in, const Dims& out,
                           DType dtype) {
  static const char* const kScales[3] = {"scales_d", "scales_h", "scales_w"};
  const auto& names = x.call().schema->args;
  const bool aligned = std::find(names.begin(), names.end(), "align_corners") != names.end() &&
                       x.boolean("align_corners");
  std::vector<Taps> taps;
  for (int i = 0; i < m.spatial; ++i) {
    const char* scale = m.spatial == 1 ? "scales" : kScales[3 - m.spatial + i];
    Resize r{in[2 + i], out[2 + i], x.has(scale) ? x.number(scale) : 0, aligned};
    taps.push_back(dtype == DType::kF64 ? m.wide(r) : m.single(r));
  }
  return taps;
}

Value Weighted(Value v, const Taps& taps, size_t k, int dim) {
  if (taps.weight.empty()) return v;
  return v * Along(ConstantFloats(v.builder(), v.dtype(), taps.weight[k]), v.dims(), dim);
}

Value Forward(Lowering& x, const Method& m) {
  Value v = x.tensor("self");
  const DType dtype = v.dtype();
  if (x.result().numel() == 0) return x.builder().Constant(dtype, 0, x.result().dims);
  auto taps = ReadTaps(x, m, v.dims(), x.result().dims, dtype);
  const bool weighted = !taps[0].weight.empty(), image = weighted && !hlo::IsFloat(dtype);
  if (weighted) v = Convert(v, hlo::IsFloat(dtype) ? x.compute_type() : DType::kF32);
  auto& b = x.builder();
  for (int i = m.spatial; i-- > 0;) {
    if (image) RoundWeights(taps[i]);
    Value sum;
    for (size_t k = 0; k < taps[i].position.size(); ++k) {
      Value part = Weighted(Take(v, 2 + i, taps[i].position[k]), taps[i], k, 2 + i);
      sum = sum ? sum + part : part;
    }
    v = sum;
    if (image) v = b.Clamp(b.Constant(v.dtype(), 0), Floor(v + 0.5), b.Constant(v.dtype(), 255));
  }
  return v;
}

Value Backward(Lowering& x, const Method& m) {
  Value v = Convert(x.tensor("grad_output"), x.compute_type());
  const Dims& in = x.result().dims;
  if (v.numel() == 0) return x.builder().Constant(v.dtype(), 0, in);
  const auto taps = ReadTaps(x, m, in, v.dims(), v.dtype());
  for (int i = 0; i < m.spatial; ++i) {
    Value sum;
    for (size_t k = 0; k < taps[i].position.size(); ++k) {
      Value part = AddInto(Weighted(v, taps[i], k, 2 + i), 2 + i, taps[i].position[k], in[2 + i]);
      sum = sum ? sum + part : part;
    }
    v = sum;
  }
  return v;
}

const Options k1d = {.constants = {"scales"}};
const Options k2d = {.constants = {"scales_h", "scales_w"}};
const Options k3d = {.constants = {"scales_d", "scales_h", "scales_w"}};

}  // namespace

OP("aten::upsample_nearest1d", k1d) { return Forward(x, METHOD(NearestFloor, 1)); }
OP("aten::upsample_nearest2d", k2d) { return Forward(x, METHOD(NearestFloor, 2)); }
OP("aten::upsample_nearest3d", k3d) { return Forward(x, METHOD(NearestFloor, 3)); }
OP("aten::upsample_nearest1d_backward", k1d) { return Backward(x, METHOD(NearestFloor, 1)); }
OP("aten::upsample_nearest2d_backward", k2d) { return Backward(x, METHOD(NearestFloor, 2)); }
OP("aten::upsample_nearest3d_backward", k3d) { return Backward(x, METHOD(NearestFloor, 3)); }

OP("aten::_upsample_nearest_exact1d", k1d) { return Forward(x, METHOD(NearestMiddle, 1)); }
OP("aten::_upsample_nearest_exact2d", k2d) { return Forward(x, METHOD(NearestMiddle, 2)); }
OP("aten::_upsample_nearest_exact3d", k3d) { return Forward(x, METHOD(NearestMiddle, 3)); }
OP("aten::_upsample_nearest_exact1d_backward", k1d) {
  return Backward(x, METHOD(NearestMiddle, 1));
}
OP("aten::_upsample_nearest_exact2d_backward", k2d) {
  return Backward(x, METHOD(NearestMiddle, 2));
}
OP("aten::_upsample_nearest_exact3d_backward", k3d) {
  return Backward(x, METHOD(NearestMiddle, 3));
}

OP("aten::upsample_linear1d", k1d) { return Forward(x, METHOD(Linear, 1)); }
OP("aten::upsample_bilinear2d", k2d) { return Forward(x, METHOD(Linear, 2)); }
OP("aten::upsample_trilinear3d", k3d) { return Forward(x, METHOD(Linear, 3)); }
OP("aten::upsample_linear1d_backward", k1d) { return Backward(x, METHOD(Linear, 1)); }
OP("aten::upsample_bilinear2d_backward", k2d) { return Backward(x, METHOD(Linear, 2)); }
OP("aten::upsample_trilinear3d_backward", k3d) { return Backward(x, METHOD(Linear, 3)); }

OP("aten::upsample_bicubic2d", k2d) { return Forward(x, METHOD(Cubic, 2)); }
OP("aten::upsample_bicubic2d_backward", k2d) { return Backward(x, METHOD(Cubic, 2)); }

OP("aten::_upsample_bilinear2d_aa", k2d) { return Forward(x, METHOD(LinearAntialiased, 2)); }
OP("aten::_upsample_bilinear2d_aa_backward", k2d) {
  return Backward(x, METHOD(LinearAntialiased, 2));
}
OP("aten::_upsample_bicubic2d_aa", k2d) { return Forward(x, METHOD(CubicAntialiased, 2)); }
OP("aten::_upsample_bicubic2d_aa_backward", k2d) {
  return Backward(x, METHOD(CubicAntialiased, 2));
}

#undef METHOD

// ---- sliding blocks: [N, C, H, W] <-> [N, C * kernel positions, blocks]
// ----------------------------

namespace {

struct Blocks {
  Dims kernel, dilation, padding, stride, count;
};

Blocks ReadBlocks(Lowering& x, int64_t height, int64_t width) {
  Blocks k{PerDim(x.ints("kernel_size"), 2),
           PerDim(x.ints("dilation"), 2),
           PerDim(x.ints("padding"), 2),
           PerDim(x.ints("stride"), 2),
           {}};
  const int64_t sizes[2] = {height, width};
  for (int i = 0; i < 2; ++i) {
    const int64_t reach = k.dilation[i] * (k.kernel[i] - 1) + 1;
    k.count.push_back((sizes[i] + 2 * k.padding[i] - reach) / k.stride[i] + 1);
  }
  return k;
}

int64_t Start(const Blocks& k, int i, int64_t position) {
  return position * k.dilation[i] - k.padding[i];
}

}  // namespace

OP("aten::im2col", {.tolerance = Tolerance::kExact}) {
  auto v = x.tensor("self");
  auto& b = x.builder();
  if (x.result().numel() == 0) return b.Constant(v.dtype(), 0, x.result().dims);
  if (v.rank() == 3) v = Unsqueeze(v, {0});
  const Blocks k = ReadBlocks(x, v.dim(2), v.dim(3));
  auto zero = b.Constant(v.dtype(), 0);
  Values parts;
  for (int64_t i = 0; i < k.kernel[0]; ++i) {
    auto rows = StridedWindow(v, 2, Start(k, 0, i), k.stride[0], k.count[0], zero);
    for (int64_t j = 0; j < k.kernel[1]; ++j) {
      auto part = StridedWindow(rows, 3, Start(k, 1, j), k.stride[1], k.count[1], zero);
      parts.push_back(Reshape(part, {v.dim(0), v.dim(1), 1, k.count[0] * k.count[1]}));
    }
  }
  return Reshape(b.Concatenate(parts, 2), x.result().dims);
}

OP("aten::col2im", {.tolerance = Tolerance::kAccumulate}) {
  Value v = Convert(x.tensor("self"), x.compute_type());
  const Dims size = x.ints("output_size"), out = x.result().dims;
  if (x.result().numel() == 0 || v.numel() == 0) return x.builder().Constant(v.dtype(), 0, out);
  const Blocks k = ReadBlocks(x, size[0], size[1]);
  const int64_t batch = v.rank() == 3 ? v.dim(0) : 1, positions = k.kernel[0] * k.kernel[1];
  const int64_t channels = v.dim(-2) / positions;
  v = Reshape(v, {batch, channels, k.kernel[0], k.kernel[1], k.count[0], k.count[1]});
  auto& b = x.builder();
  Value sum;
  for (int64_t i = 0; i < k.kernel[0]; ++i) {
    Value rows;
    for (int64_t j = 0; j < k.kernel[1]; ++j) {
      auto part = Reshape(b.SliceDim(b.SliceDim(v, 2, i, i + 1), 3, j, j + 1),
                          {batch, channels, k.count[0], k.count[1]});
      part = SpreadWindow(part, 3, Start(k, 1, j), k.stride[1], size[1]);
      rows = rows ? rows + part : part;
    }
    rows = SpreadWindow(rows, 2, Start(k, 0, i), k.stride[0], size[0]);
    sum = sum ? sum + rows : rows;
  }
  return Reshape(sum, out);
}

}  // namespace torch_tpu::ops
