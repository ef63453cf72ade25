// SPDX-License-Identifier: Apache-2.0
// A program in words, for error messages and for people who look at the cache.
#pragma once

#include <string>
#include <vector>

#include "csrc/program/program.h"

namespace torch_tpu::program {

// "aten::mm, aten::add.Tensor x3"; the first few distinct ops.
std::string DescribeOps(const Program& program);
// "f32[2,3], s64[]" of the run-time inputs, or of output shapes.
std::string DescribeInputs(const Program& program);
std::string DescribeShapes(const std::vector<hlo::Shape>& shapes);
// The three as lines "ops", "inputs", "outputs": what is stored with an entry.
std::string DescribeLines(const Program& program, const std::vector<hlo::Shape>& outputs);

}  // namespace torch_tpu::program
