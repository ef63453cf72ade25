// SPDX-License-Identifier: Apache-2.0
#include "csrc/program/describe.h"

#include <algorithm>
#include <utility>

#include "csrc/base/status.h"

namespace torch_tpu::program {
namespace {

constexpr size_t kMaxNames = 8, kMaxShapes = 16;

}  // namespace

std::string DescribeOps(const Program& program) {
  std::vector<std::pair<std::string, int>> names;
  for (const ops::Call& call : program.calls) {
    std::string name(call.schema ? call.schema->name : call.def->name);
    auto same = [&](const auto& known) { return known.first == name; };
    auto place = std::find_if(names.begin(), names.end(), same);
    if (place == names.end()) {
      names.emplace_back(std::move(name), 1);
    } else {
      ++place->second;
    }
  }
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMaxNames); ++i) {
    text += StrCat(i ? ", " : "", names[i].first);
    if (names[i].second > 1) text += StrCat(" x", names[i].second);
  }
  if (names.size() > kMaxNames) text += StrCat(", ... (", program.calls.size(), " calls)");
  return text;
}

std::string DescribeShapes(const std::vector<hlo::Shape>& shapes) {
  std::string text;
  for (size_t i = 0; i < std::min(shapes.size(), kMaxShapes); ++i) {
    text += StrCat(i ? ", " : "", hlo::Name(shapes[i].dtype), "[");
    for (size_t d = 0; d < shapes[i].dims.size(); ++d) {
      text += StrCat(d ? "," : "", shapes[i].dims[d]);
    }
    text += "]";
  }
  if (shapes.size() > kMaxShapes) text += StrCat(", ... (", shapes.size(), ")");
  return text;
}

std::string DescribeInputs(const Program& program) {
  std::vector<hlo::Shape> shapes;
  for (const Input& input : program.inputs) {
    if (input.kind == Input::Kind::kArgument) shapes.push_back(input.shape);
  }
  return DescribeShapes(shapes);
}

std::string DescribeLines(const Program& program, const std::vector<hlo::Shape>& outputs) {
  return StrCat(DescribeOps(program), "\n", DescribeInputs(program), "\n", DescribeShapes(outputs));
}

}  // namespace torch_tpu::program
