// SPDX-License-Identifier: Apache-2.0
// Tensors around values.
#pragma once

#include <ATen/core/Tensor.h>

#include "csrc/eager/table_op.h"
#include "csrc/program/value.h"

namespace torch_tpu::eager {

// A new tensor on device `index` by the plan's sizes, strides and dtype.
at::Tensor Wrap(Ref<program::Value> value, int index, const OutputPlan& plan);

// A new row-major tensor.
at::Tensor Wrap(Ref<program::Value> value, int index, caffe2::TypeMeta dtype,
                c10::IntArrayRef sizes);

}  // namespace torch_tpu::eager
