// SPDX-License-Identifier: Apache-2.0
// What an entry of the disk cache holds of a program: output shapes, bounds checks and the
// serialized executable. Private to csrc/program.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "csrc/hlo/type.h"
#include "csrc/ops/op.h"

namespace torch_tpu::program {

struct Payload {
  std::vector<const hlo::Shape*> outputs;  // interned
  std::vector<ops::BoundsCheck> checks;
  std::string_view executable;  // into the bytes that were parsed
};

std::string ToPayload(const std::vector<const hlo::Shape*>& outputs,
                      const std::vector<ops::BoundsCheck>& checks, std::string_view executable);
// Nullopt when the bytes are not a payload.
std::optional<Payload> ParsePayload(std::string_view bytes);

}  // namespace torch_tpu::program
