// SPDX-License-Identifier: Apache-2.0
// What convolutions, pools, resizes and pads share: argument lists per spatial dimension, and
// constant positions along a dimension.
#pragma once

#include "csrc/ops/op.h"

namespace torch_tpu::ops {

// torch's int[n] arguments: one number stands for all n, an empty list for `fallback`.
Dims PerDim(const Dims& given, int n, const Dims& fallback = {});

// x with the constant positions `indices` taken along `dim`: a slice, a repeat or a gather.
Value Take(Value x, int dim, const Dims& indices);

// Sums x's slices along `dim` into `size` positions: the transpose of Take.
Value AddInto(Value x, int dim, const Dims& indices, int64_t size);

// A 1-D constant of floats (f32 or f64), bit for bit.
Value ConstantFloats(hlo::Builder& b, DType dtype, const std::vector<double>& values);

// A 1-D value laid along `dim` of `dims`.
Value Along(Value v, const Dims& dims, int dim);

// x's windows of one kernel position along `dim`: element o is x[o * stride + start], and `padding`
// where that lies outside.
Value StridedWindow(Value x, int dim, int64_t start, int64_t stride, int64_t count, Value padding);

// The transpose of StridedWindow: x[o] goes to position o * stride + start of `size` zeros.
Value SpreadWindow(Value x, int dim, int64_t start, int64_t stride, int64_t size);

}  // namespace torch_tpu::ops
