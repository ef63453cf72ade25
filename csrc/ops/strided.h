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
  // Dims that are walked, neither of size 1 nor of stride 0, by falling stride.
  std::vector<int> walked() const;
};

// One step from the array to the window. The starts are apart from the shape, so that they can
// become run-time values.
struct Step {
  enum Kind {
    kReshape,   // to dims
    kSlice,     // extents in dims
    kPad,       // zeros at the end: as many as dims says
    kDiagonal,  // element k of dim `axis` is [starts[0] + k strides[0], starts[1] + k strides[1]]
                // of the dims that were `axis` and `axis` + 1; gives dims
  } kind;
  hlo::Dims dims;
  hlo::Dims starts = {}, strides = {};  // kSlice, kDiagonal
  int axis = 0;                         // kDiagonal

  hlo::Dims After(hlo::Dims before) const;  // the dims it gives
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
