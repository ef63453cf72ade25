// SPDX-License-Identifier: Apache-2.0
#include "csrc/program/program.h"

namespace torch_tpu::program {

StatusOr<Emitted> Emit(const Program& program) {
  hlo::Builder builder;
  hlo::Values values;
  for (const Input& input : program.inputs) {
    values.push_back(input.kind == Input::Kind::kArgument
                         ? builder.Parameter(input.shape, input.donated_to)
                         : builder.Constant(input.shape.dtype, 0, input.shape.dims));
  }
  Emitted emitted;
  hlo::Values extremes;
  for (const ops::Call& call : program.calls) {
    builder.SetDotPrecision(call.dot_precision);
    std::vector<ops::BoundsCheck> checks;
    TT_ASSIGN_OR_RETURN(hlo::Values results, ops::Lower(call, builder, values, &checks));
    // A table op of our own (tpu::...) has no schema: its results are whatever the block returned.
    size_t count = call.outputs.empty() ? results.size() - 2 * checks.size() : call.outputs.size();
    values.insert(values.end(), results.begin(), results.begin() + count);
    for (ops::BoundsCheck& check : checks) {
      extremes.push_back(check.lowest);
      extremes.push_back(check.highest);
      emitted.checks.push_back(std::move(check));
    }
  }
  hlo::Values live;
  std::vector<int> outputs = program.outputs;
  if (outputs.empty() && program.calls.size() == 1 && program.calls[0].outputs.empty()) {
    for (size_t i = program.inputs.size(); i < values.size(); ++i) {
      outputs.push_back(static_cast<int>(i));
    }
  }
  for (int number : outputs) {
    live.push_back(values[number]);
    emitted.outputs.push_back(values[number].shape());
  }
  live.insert(live.end(), extremes.begin(), extremes.end());
  try {
    builder.Return(live);
    emitted.text = builder.Text();
  } catch (const hlo::Error& error) {
    return Internal(error.what());
  }
  for (ops::BoundsCheck& check : emitted.checks) check.lowest = check.highest = hlo::Value();
  return emitted;
}

}  // namespace torch_tpu::program
