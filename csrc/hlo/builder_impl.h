// SPDX-License-Identifier: Apache-2.0
// The Builder's state and its text writing, shared by the builder's own sources only.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "csrc/base/status.h"
#include "csrc/hlo/builder.h"

namespace torch_tpu::hlo {

// Throws hlo::Error "[op] message".
template <typename... Args>
[[noreturn]] void Fail(std::string_view op, const Args&... args) {
  throw Error(StrCat("[", op, "] ", args...));
}

// ---- attribute text
// --------------------------------------------------------------------------------
std::string I64Array(const Dims& values);                   // array<i64: 1, 2>
std::string Pairs(const Dims& low, const Dims& high);       // dense<[[0, 1]]> : tensor<1x2xi64>
std::string I64Attr(std::string_view name, int64_t value);  // name = 3 : i64
std::string EnumAttr(std::string_view kind, std::string_view value);  // #stablehlo<kind value>
std::string_view DirectionName(Direction direction);

// `dims` must be distinct positions in [0, rank). `what` names them in the message.
void CheckPositions(std::string_view op, std::string_view what, const Dims& dims, int64_t rank);
void CheckRank(std::string_view op, std::string_view what, size_t got, int64_t expected);
void CheckIntegers(std::string_view op, std::string_view what, DType dtype);
bool Contains(const Dims& dims, int64_t d);
// Sizes of `dims` except at `positions`.
Dims Without(const Dims& dims, const Dims& positions);
// Fills an empty vector with `value`, checks the length of any other.
Dims OrDefault(std::string_view op, std::string_view what, const Dims& dims, int64_t rank,
               int64_t value);
// Result dims of a window sliding over `in`; `window` must be complete.
Dims WindowedDims(std::string_view op, const Dims& in, const Window& window);

struct Builder::Impl {
  struct Node {
    Shape shape;
    std::string name;     // "%3", "%4#1", "%arg0"
    std::string literal;  // of a constant, else empty: constants are repeated inside regions
    int region = 0;
  };
  struct Region {
    int id = 0;
    bool isolated = false;  // XLA allows no captured values inside (reduce, sort, scatter ...)
    std::string text;
    std::map<std::string, int> constants;  // literal and type -> node
  };
  struct Parameter {
    Shape shape;
    int aliased_output;
  };

  Builder* self;
  std::string module_name;
  std::deque<Node> nodes;       // a deque: references to shapes stay valid
  std::vector<Region> regions;  // open ones, outermost first
  std::vector<Parameter> parameters;
  std::string results_text;  // of @main, after Return
  int next_name = 0, next_region = 0;
  bool returned = false;
  std::string precision = "HIGHEST";

  const Shape& shape(std::string_view op, Value v);  // throws when absent or foreign
  // The text name of `v` where the builder now stands; throws when it is out of scope.
  std::string Use(std::string_view op, Value v);
  Value Constant(const Shape& shape, const std::string& literal);

  // Writes one op. `regions` and `attributes` are finished text and may be empty.
  Values EmitAll(std::string_view op, const Values& operands, const std::string& attributes,
                 const std::vector<Shape>& results,
                 const std::vector<std::string>& region_texts = {});
  Value Emit(std::string_view op, const Values& operands, const std::string& attributes,
             const Shape& result) {
    return EmitAll(op, operands, attributes, {result})[0];
  }

  // Runs `body` on fresh block arguments; gives "{ ^bb0(...): ... }" and what it yields.
  struct RegionText {
    std::string text;
    std::vector<Shape> yielded;
  };
  RegionText MakeRegion(std::string_view op, const std::vector<Shape>& arguments, bool isolated,
                        const Body& body);
  // The same for a body that combines rank-0 values and must yield `expected`.
  std::string Combiner(std::string_view op, const std::vector<Shape>& arguments,
                       const std::vector<Shape>& expected, const Body& body);
  // " : (types) -> types"
  std::string FunctionType(const Values& operands, const std::vector<Shape>& results);
  std::string PrecisionAttr(DType operands) const;
  Value NewNode(const Shape& shape, std::string name);
  void Indent(std::string& out) const { out.append(2 * (regions.size() + 1), ' '); }
};

}  // namespace torch_tpu::hlo
