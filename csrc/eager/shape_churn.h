// SPDX-License-Identifier: Apache-2.0
// Notices an op that keeps compiling for new sizes, step after step, and says so once.
#pragma once

#include "csrc/ops/op.h"

namespace torch_tpu::eager {

// Called for each new signature. Misses of one step count once: a step ends with a host read, and a
// model's many shapes all appear in the first steps.
void NoteNewSignature(const ops::Call& call);

}  // namespace torch_tpu::eager
