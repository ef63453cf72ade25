// SPDX-License-Identifier: Apache-2.0
// Strided windows over a row-major array of one element type, as a short list of slices and
// reshapes. The dtype side of views is in view.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "csrc/hlo/builder.h"

namespace torch_tpu::ops {

struct Strided {
  hlo::Dims sizes, strides;  // in elements
  int64_t offset = 0;
  bool empty() const;     // has no elements
  int64_t reach() const;  // one past the last element seen; 0 when empty
};

// One step from the array to the window. The starts are apart from the shape, so that they can
// become run-time values.
struct Step {
  enum Kind { kReshape, kSlice, kPad } kind;
  hlo::Dims dims;  // kReshape: result dims; kSlice: window extents; kPad: zeros at the end
  hlo::Dims starts, strides;  // kSlice
};

// Steps that give the dims of `window` (without size-1 and stride-0 ones) in order of falling
// stride. Empty when elements overlap or interleave, so that no slice can name them. `window` must
// not be empty and must lie within the array.
std::optional<std::vector<Step>> PlanSteps(const hlo::Dims& array, const Strided& window);

// Elements beyond the array read as zero.
hlo::Value ReadStrided(hlo::Value array, const Strided& window);
// The array with `update` in the window. The window must lie within it and must not have stride 0
// over more than one element; otherwise throws hlo::Error.
hlo::Value WriteStrided(hlo::Value array, hlo::Value update, const Strided& window);

}  // namespace torch_tpu::ops
