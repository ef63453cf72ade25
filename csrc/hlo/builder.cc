// SPDX-License-Identifier: Apache-2.0
// The module's frame, scopes, and the one function that writes an op.
#include "csrc/hlo/builder.h"

#include <algorithm>

#include "csrc/hlo/builder_impl.h"

namespace torch_tpu::hlo {
namespace {

std::string TypeList(const std::vector<Shape>& shapes) {
  std::string out;
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (i) out += ", ";
    out += shapes[i].ToString();
  }
  return out;
}

std::string NameList(const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i) out += ", ";
    out += names[i];
  }
  return out;
}

}  // namespace

// ---- Value
// -------------------------------------------------------------------------------------------
const Shape& Value::shape() const {
  if (!builder_) throw Error("[value] expected a value, got an absent one");
  return builder_->impl_->nodes[id_].shape;
}

int64_t Value::dim(int i) const {
  const int r = rank();
  const int at = i < 0 ? i + r : i;
  if (at < 0 || at >= r) {
    throw Error(StrCat("[value] expected a dim in [", -r, ", ", r, ") of ", shape().ToString(),
                       ", got ", i));
  }
  return dims()[at];
}

// ---- module
// ------------------------------------------------------------------------------------------
Builder::Builder(std::string module_name) : impl_(new Impl) {
  impl_->self = this;
  impl_->module_name = std::move(module_name);
  impl_->regions.emplace_back();
}

Builder::~Builder() { delete impl_; }

Value Builder::Parameter(const Shape& shape, int aliased_output) {
  if (impl_->returned) Fail("parameter", "expected a call before Return");
  if (shape.dtype == DType::kInvalid) Fail("parameter", "expected an element type, got none");
  std::string name = StrCat("%arg", impl_->parameters.size());
  impl_->parameters.push_back({shape, aliased_output});
  Value v = impl_->NewNode(shape, std::move(name));
  impl_->nodes[v.id()].region = 0;
  return v;
}

void Builder::Return(const Values& results) {
  if (impl_->returned) Fail("return", "expected one call of Return, got a second");
  if (impl_->regions.size() != 1) Fail("return", "expected a call outside of regions");
  std::vector<std::string> names;
  std::vector<Shape> shapes;
  for (const Value& v : results) {
    names.push_back(impl_->Use("return", v));
    shapes.push_back(v.shape());
  }
  std::vector<bool> taken(shapes.size(), false);
  for (const auto& p : impl_->parameters) {
    if (p.aliased_output < 0) continue;
    const size_t k = p.aliased_output;
    if (k >= shapes.size() || taken[k] || shapes[k] != p.shape) {
      Fail("return", "expected output ", k, " to be free and of type ", p.shape.ToString(),
           " of the parameter donated to it, got outputs (", TypeList(shapes), ")");
    }
    taken[k] = true;
  }
  std::string& text = impl_->regions[0].text;
  impl_->Indent(text);
  text += "return";
  if (!names.empty()) text += " " + NameList(names) + " : " + TypeList(shapes);
  text += "\n";
  impl_->results_text = TypeList(shapes);
  impl_->returned = true;
}

std::string Builder::Text() const {
  if (!impl_->returned) Fail("module", "expected Return before Text");
  std::string out = "module @" + impl_->module_name + " {\n  func.func public @main(";
  for (size_t i = 0; i < impl_->parameters.size(); ++i) {
    const auto& p = impl_->parameters[i];
    out += StrCat(i ? ", " : "", "%arg", i, ": ", p.shape.ToString());
    if (p.aliased_output >= 0) {
      out += StrCat(" {tf.aliasing_output = ", p.aliased_output, " : i32}");
    }
  }
  out += ") -> (" + impl_->results_text + ") {\n" + impl_->regions[0].text + "  }\n}\n";
  return out;
}

// ---- scopes
// ------------------------------------------------------------------------------------------
const Shape& Builder::Impl::shape(std::string_view op, Value v) {
  if (!v) Fail(op, "expected a value, got an absent one");
  if (&v.builder() != self) Fail(op, "expected a value of this builder, got another builder's");
  return nodes[v.id()].shape;
}

Value Builder::Impl::NewNode(const Shape& shape, std::string name) {
  nodes.push_back({shape, std::move(name), "", regions.back().id});
  return Value(self, static_cast<int>(nodes.size()) - 1);
}

std::string Builder::Impl::Use(std::string_view op, Value v) {
  const Shape& type = shape(op, v);
  const Node& node = nodes[v.id()];
  if (node.region == regions.back().id) return node.name;
  if (!node.literal.empty()) {
    const Value local = Constant(type, std::string(node.literal));
    return nodes[local.id()].name;
  }
  for (size_t i = regions.size(); i-- > 0;) {
    if (regions[i].id == node.region) return node.name;
    if (regions[i].isolated) {
      Fail(op, "expected only arguments and constants inside a reduce, sort or scatter body, got ",
           type.ToString(), " from outside. Try: pass it as an operand");
    }
  }
  Fail(op, "expected a value that is in scope, got ", type.ToString(), " of a closed region");
}

// ---- writing
// -----------------------------------------------------------------------------------------
std::string Builder::Impl::FunctionType(const Values& operands, const std::vector<Shape>& results) {
  std::string out = " : (";
  for (size_t i = 0; i < operands.size(); ++i) {
    if (i) out += ", ";
    out += nodes[operands[i].id()].shape.ToString();
  }
  out += ") -> ";
  if (results.size() == 1) return out + results[0].ToString();
  return out + "(" + TypeList(results) + ")";
}

Values Builder::Impl::EmitAll(std::string_view op, const Values& operands,
                              const std::string& attributes, const std::vector<Shape>& results,
                              const std::vector<std::string>& region_texts) {
  if (returned) Fail(op, "expected a call before Return");
  std::vector<std::string> names;
  names.reserve(operands.size());
  for (const Value& v : operands) names.push_back(Use(op, v));

  const std::string result = StrCat("%", next_name++);
  std::string line;
  Indent(line);
  if (!results.empty()) line += result;
  if (results.size() > 1) line += StrCat(":", results.size());
  line += StrCat(results.empty() ? "\"" : " = \"", op, "\"(") + NameList(names) + ")";
  if (!attributes.empty()) line += " <{" + attributes + "}>";
  if (!region_texts.empty()) line += " (" + NameList(region_texts) + ")";
  line += FunctionType(operands, results) + "\n";
  regions.back().text += line;

  Values out;
  out.reserve(results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    out.push_back(NewNode(results[i], results.size() == 1 ? result : StrCat(result, "#", i)));
  }
  return out;
}

Builder::Impl::RegionText Builder::Impl::MakeRegion(std::string_view op,
                                                    const std::vector<Shape>& arguments,
                                                    bool isolated, const Body& body) {
  const size_t depth = regions.size();
  regions.emplace_back();
  regions.back().id = ++next_region;
  regions.back().isolated = isolated;
  RegionText out;
  try {
    Values values;
    std::string head;
    for (const Shape& s : arguments) {
      const std::string name = StrCat("%", next_name++);
      values.push_back(NewNode(s, name));
      head += StrCat(head.empty() ? "" : ", ", name, ": ", s.ToString());
    }
    const Values yielded = body(values);
    std::vector<std::string> names;
    for (const Value& v : yielded) {
      names.push_back(Use(op, v));
      out.yielded.push_back(v.shape());
    }
    std::string& text = regions.back().text;
    Indent(text);
    text +=
        "\"stablehlo.return\"(" + NameList(names) + ") : (" + TypeList(out.yielded) + ") -> ()\n";
    out.text = "{\n";
    if (!head.empty()) {
      out.text.append(2 * regions.size(), ' ');
      out.text += "^bb0(" + head + "):\n";
    }
    out.text += text;
  } catch (...) {
    regions.resize(depth);
    throw;
  }
  regions.resize(depth);
  Indent(out.text);
  out.text += "}";
  return out;
}

std::string Builder::Impl::Combiner(std::string_view op, const std::vector<Shape>& arguments,
                                    const std::vector<Shape>& expected, const Body& body) {
  RegionText region = MakeRegion(op, arguments, /*isolated=*/true, body);
  if (region.yielded != expected) {
    Fail(op, "expected the body to yield (", TypeList(expected), "), got (",
         TypeList(region.yielded), ")");
  }
  return region.text;
}

// ---- attribute text and checks
// -----------------------------------------------------------------------
std::string I64Array(const Dims& values) {
  if (values.empty()) return "array<i64>";
  std::string out = "array<i64: ";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i) out += ", ";
    out += std::to_string(values[i]);
  }
  return out + ">";
}

std::string Pairs(const Dims& low, const Dims& high) {
  if (low.empty()) return "dense<> : tensor<0x2xi64>";
  std::string out = "dense<[";
  for (size_t i = 0; i < low.size(); ++i) {
    out += StrCat(i ? ", " : "", "[", low[i], ", ", high[i], "]");
  }
  return out + StrCat("]> : tensor<", low.size(), "x2xi64>");
}

std::string I64Attr(std::string_view name, int64_t value) {
  return StrCat(name, " = ", value, " : i64");
}

std::string EnumAttr(std::string_view kind, std::string_view value) {
  return StrCat("#stablehlo<", kind, " ", value, ">");
}

bool Contains(const Dims& dims, int64_t d) {
  return std::find(dims.begin(), dims.end(), d) != dims.end();
}

Dims Without(const Dims& dims, const Dims& positions) {
  Dims out;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!Contains(positions, static_cast<int64_t>(i))) out.push_back(dims[i]);
  }
  return out;
}

void CheckPositions(std::string_view op, std::string_view what, const Dims& dims, int64_t rank) {
  std::vector<bool> seen(std::max<int64_t>(rank, 0), false);
  for (int64_t d : dims) {
    if (d < 0 || d >= rank || seen[d]) {
      Fail(op, "expected ", what, " to be distinct and in [0, ", rank, "), got ", ToString(dims));
    }
    seen[d] = true;
  }
}

void CheckRank(std::string_view op, std::string_view what, size_t got, int64_t expected) {
  if (static_cast<int64_t>(got) != expected) {
    Fail(op, "expected ", expected, " entries in ", what, ", got ", got);
  }
}

void CheckIntegers(std::string_view op, std::string_view what, DType dtype) {
  if (!IsInteger(dtype)) Fail(op, "expected integer ", what, ", got ", Name(dtype));
}

Dims OrDefault(std::string_view op, std::string_view what, const Dims& dims, int64_t rank,
               int64_t value) {
  if (dims.empty()) return Dims(rank, value);
  CheckRank(op, what, dims.size(), rank);
  return dims;
}

}  // namespace torch_tpu::hlo
