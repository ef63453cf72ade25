// SPDX-License-Identifier: Apache-2.0
// Views inside programs: an as_strided over a value's row-major bytes, lowered to the cheapest of
// nothing, reshape, transpose, slice, broadcast, and in the last resort reshape + gather.
#pragma once

#include "csrc/hlo/builder.h"
#include "csrc/ops/op.h"

namespace torch_tpu::ops {

// What the tensor sees: shape {view.dtype, view.sizes}. `base` has shape view.base (or, when the
// value does not cover the whole storage, fewer bytes: reads beyond it are zero). Throws hlo::Error
// when the view reaches beyond the value.
hlo::Value ReadView(hlo::Value base, const View& view);

// The slot's new value after writing `update` (shape {view.dtype, view.sizes}) through the view;
// keeps view.base's shape. Overlapping destinations (stride 0 over size > 1) throw.
hlo::Value WriteView(hlo::Value base, hlo::Value update, const View& view);

}  // namespace torch_tpu::ops
