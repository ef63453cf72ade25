// SPDX-License-Identifier: Apache-2.0
// A Program: recorded calls, what they read and which results live. Every mode makes one; modes
// differ only in when they close it.
#pragma once

#include <string>
#include <vector>

#include "csrc/ops/op.h"

namespace torch_tpu::program {

struct Input {
  enum class Kind : uint8_t {
    kArgument,  // a buffer passed at run time
    kZeros,     // storage never written: zeros made inside the program
  };
  Kind kind = Kind::kArgument;
  hlo::Shape shape;
  int donated_to = -1;  // index into Program::outputs, or -1
};

// Program values are numbered: inputs first, then the outputs of calls[0], calls[1], ...
struct Program {
  std::vector<Input> inputs;
  std::vector<ops::Call> calls;
  std::vector<int> outputs;  // value numbers that live
};

struct Emitted {
  std::string text;                 // the StableHLO module
  std::vector<hlo::Shape> outputs;  // of the live outputs
  // Debug mode: each check adds two rank-0 s64 outputs (lowest, highest) after the live outputs.
  std::vector<ops::BoundsCheck> checks;
};

// Lowers the whole program. A failure names the op.
StatusOr<Emitted> Emit(const Program& program);

}  // namespace torch_tpu::program
