// SPDX-License-Identifier: Apache-2.0
// Convolutions of any spatial rank, forward and all gradients, each one StableHLO convolution.
//
// In torch's NCHW order: XLA transposes where it helps. Measured on the CPU plugin 0.81, f32, 4 x
// 64 x 56 x 56 with 3 x 3 kernels: as is 10.7 ms, transposed to NHWC here 12.7 ms. Other forms
// depend more: a reversed window attribute instead of a reversed kernel costs 368 ms (see
// Convolve).
#include <algorithm>

#include "csrc/ops/op.h"
#include "csrc/ops/spatial.h"

namespace torch_tpu::ops {
namespace {

using hlo::ConvDims;

struct Window {
  int spatial;
  Dims stride, padding, dilation, output_padding;
  bool transposed;
  int64_t groups;
};

Window ReadWindow(Lowering& x, int rank) {
  Window w{.spatial = rank - 2};
  w.stride = PerDim(x.ints("stride"), w.spatial, Dims(w.spatial, 1));
  w.padding = PerDim(x.ints("padding"), w.spatial, Dims(w.spatial, 0));
  w.dilation = PerDim(x.ints("dilation"), w.spatial, Dims(w.spatial, 1));
  w.output_padding = PerDim(x.ints("output_padding"), w.spatial, Dims(w.spatial, 0));
  w.transposed = x.boolean("transposed");
  w.groups = x.integer("groups");
  return w;
}

Dims SpatialDims(Value v) {
  Dims dims;
  for (int i = 2; i < v.rank(); ++i) dims.push_back(i);
  return dims;
}

// The kernel of the adjoint: spatial dims turned round, input and output features swapped within
// each group. [g * A, B, k...] -> [g * B, A, k...]
Value AdjointKernel(Value kernel, int64_t groups) {
  kernel = kernel.builder().Reverse(kernel, SpatialDims(kernel));
  const Dims dims = kernel.dims();
  const int64_t a = dims[0] / groups, b = dims[1];
  Dims split = {groups, a, b}, order = {0, 2, 1}, merged = {groups * b, a};
  for (int i = 2; i < kernel.rank(); ++i) {
    split.push_back(dims[i]);
    order.push_back(i + 1);
    merged.push_back(dims[i]);
  }
  return Reshape(Transpose(Reshape(kernel, split), order), merged);
}

// Depthwise kernels go in reversed twice, once as a value and once as an attribute: that keeps the
// CPU plugin off its grouped matrix path (4 ms instead of 132 ms at 4 x 64 x 56 x 56).
Value Convolve(Value input, Value kernel, ConvDims dims, DType result) {
  if (dims.feature_groups > 1 && kernel.dim(1) == 1) {
    const Dims spatial = SpatialDims(kernel);
    kernel = kernel.builder().Reverse(kernel, spatial);
    dims.reversed.assign(spatial.size(), true);
  }
  return input.builder().Convolution(input, kernel, dims, result);
}

// kernel [O, I / groups, k...]; the result's spatial sizes are `sizes` (a transposed convolution's
// output padding makes them fewer than the input has room for).
Value Correlate(const Window& w, Value input, Value kernel, const Dims& sizes, DType result) {
  ConvDims dims = {.strides = w.stride,
                   .pad_low = w.padding,
                   .rhs_dilation = w.dilation,
                   .feature_groups = w.groups};
  for (int i = 0; i < w.spatial; ++i) {
    const int64_t reach = w.dilation[i] * (kernel.dim(2 + i) - 1);
    const int64_t spread = (sizes[i] - 1) * w.stride[i] + 1;
    dims.pad_high.push_back(reach + spread - input.dim(2 + i) - w.padding[i]);
  }
  return Convolve(input, kernel, dims, result);
}

// The adjoint of Correlate in its input: kernel [features of v, result's features / groups, k...],
// result's spatial sizes `sizes`.
Value Adjoint(const Window& w, Value v, Value kernel, const Dims& sizes, DType result) {
  ConvDims dims = {.strides = Dims(w.spatial, 1),
                   .lhs_dilation = w.stride,
                   .rhs_dilation = w.dilation,
                   .feature_groups = w.groups};
  for (int i = 0; i < w.spatial; ++i) {
    const int64_t reach = w.dilation[i] * (kernel.dim(2 + i) - 1);
    const int64_t spread = (v.dim(2 + i) - 1) * w.stride[i] + 1;
    dims.pad_low.push_back(reach - w.padding[i]);
    dims.pad_high.push_back(sizes[i] + w.padding[i] - spread);
  }
  return Convolve(v, AdjointKernel(kernel, w.groups), dims, result);
}

// [N, g * C, ...] -> [C, g * N, ...]: batch and features change places within each group.
Value SwapBatch(Value v, int64_t groups) {
  const Dims dims = v.dims();
  const int64_t features = dims[1] / groups;
  Dims split = {dims[0], groups, features}, order = {2, 1, 0},
       merged = {features, groups * dims[0]};
  for (int i = 2; i < v.rank(); ++i) {
    split.push_back(dims[i]);
    order.push_back(i + 1);
    merged.push_back(dims[i]);
  }
  return Reshape(Transpose(Reshape(v, split), order), merged);
}

// The adjoint of Correlate in its kernel: [O, I / groups, k...] with the sizes `kernel`. The batch
// is contracted, the output's gradient slides over the input. Groups of several features are
// feature groups (batch groups: 760 ms instead of 3 at 4 x 64 x 28 x 28 in 8 groups); depthwise
// ones are batch groups (14 ms instead of 36).
Value KernelGradient(const Window& w, Value input, Value grad, const Dims& kernel, DType result) {
  ConvDims dims = {.strides = w.dilation, .rhs_dilation = w.stride};
  const bool depthwise = kernel[1] == 1;
  (depthwise ? dims.batch_groups : dims.feature_groups) = w.groups;
  dims.input = depthwise ? Dims{1, 0} : Dims{0, 1};
  dims.kernel = {1, 0};
  dims.output = {1, 0};
  for (int i = 0; i < w.spatial; ++i) {
    for (Dims* d : {&dims.input, &dims.kernel, &dims.output}) d->push_back(2 + i);
    const int64_t reach = w.dilation[i] * (kernel[2 + i] - 1);
    const int64_t spread = (grad.dim(2 + i) - 1) * w.stride[i] + 1;
    dims.pad_low.push_back(w.padding[i]);
    dims.pad_high.push_back(reach + spread - input.dim(2 + i) - w.padding[i]);
  }
  if (!depthwise) input = SwapBatch(input, w.groups);
  return input.builder().Convolution(input, grad, dims, result);
}

Dims Spatial(const Dims& dims) { return Dims(dims.begin() + 2, dims.end()); }

}  // namespace

OPS(({"aten::convolution", "aten::convolution_overrideable"}),
    {.tolerance = Tolerance::kAccumulate}) {
  auto input = x.tensor("input"), weight = x.tensor("weight");
  const Window w = ReadWindow(x, input.rank());
  const Dims& dims = x.result().dims;
  const DType type = x.compute_type();
  if (x.result().numel() == 0) return x.builder().Constant(type, 0, dims);
  auto out = w.transposed ? Adjoint(w, input, weight, Spatial(dims), type)
                          : Correlate(w, input, weight, Spatial(dims), type);
  if (!x.has("bias")) return out;
  return out + Along(Convert(x.tensor("bias"), type), dims, 1);
}

OPS(({"aten::convolution_backward", "aten::convolution_backward_overrideable"}),
    {.tolerance = Tolerance::kAccumulate}) {
  auto grad = x.tensor("grad_output"), input = x.tensor("input"), weight = x.tensor("weight");
  const Window w = ReadWindow(x, input.rank());
  const auto asked = x.bools("output_mask");
  const DType type = hlo::ComputeType(grad.dtype());
  const bool empty = grad.numel() == 0 || input.numel() == 0;
  Values out(3);
  if (asked[0]) {
    out[0] = empty          ? x.builder().Constant(type, 0, input.dims())
             : w.transposed ? Correlate(w, grad, weight, Spatial(input.dims()), type)
                            : Adjoint(w, grad, weight, Spatial(input.dims()), type);
  }
  if (asked[1]) {
    out[1] = empty          ? x.builder().Constant(type, 0, weight.dims())
             : w.transposed ? KernelGradient(w, grad, input, weight.dims(), type)
                            : KernelGradient(w, input, grad, weight.dims(), type);
  }
  if (asked[2]) {
    Dims over;
    for (int i = 0; i < grad.rank(); ++i) {
      if (i != 1) over.push_back(i);
    }
    out[2] = Sum(Convert(grad, type), over);
  }
  return out;
}

}  // namespace torch_tpu::ops
