// SPDX-License-Identifier: Apache-2.0
// Convolutions of any spatial rank, forward and all gradients, each one StableHLO convolution.
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

// The kernel of the adjoint: spatial dims turned round, input and output features swapped within
// each group. [g * A, B, k...] -> [g * B, A, k...]
Value AdjointKernel(Value kernel, int64_t groups) {
  Dims spatial;
  for (int i = 2; i < kernel.rank(); ++i) spatial.push_back(i);
  kernel = kernel.builder().Reverse(kernel, spatial);
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

// kernel [O, I / groups, k...]
Value Correlate(const Window& w, Value input, Value kernel, DType result) {
  return input.builder().Convolution(input, kernel,
                                     {.strides = w.stride,
                                      .pad_low = w.padding,
                                      .pad_high = w.padding,
                                      .rhs_dilation = w.dilation,
                                      .feature_groups = w.groups},
                                     result);
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
  return v.builder().Convolution(v, AdjointKernel(kernel, w.groups), dims, result);
}

// The adjoint of Correlate in its kernel: [O, I / groups, k...] with the sizes `kernel`. The batch
// is contracted, the output's gradient slides over the input.
Value KernelGradient(const Window& w, Value input, Value grad, const Dims& kernel, DType result) {
  ConvDims dims = {.strides = w.dilation, .rhs_dilation = w.stride, .batch_groups = w.groups};
  dims.input = {1, 0};
  dims.kernel = {1, 0};
  dims.output = {1, 0};
  for (int i = 0; i < w.spatial; ++i) {
    for (Dims* d : {&dims.input, &dims.kernel, &dims.output}) d->push_back(2 + i);
    const int64_t reach = w.dilation[i] * (kernel[2 + i] - 1);
    const int64_t spread = (grad.dim(2 + i) - 1) * w.stride[i] + 1;
    dims.pad_low.push_back(w.padding[i]);
    dims.pad_high.push_back(reach + spread - input.dim(2 + i) - w.padding[i]);
  }
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
                          : Correlate(w, input, weight, type);
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
             : w.transposed ? Correlate(w, grad, weight, type)
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
