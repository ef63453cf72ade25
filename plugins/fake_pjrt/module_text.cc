// SPDX-License-Identifier: Apache-2.0
#include "plugins/fake_pjrt/module_text.h"

#include <cctype>
#include <cstdlib>
#include <map>

namespace fake_pjrt {
namespace {

struct Element {
  PJRT_Buffer_Type type;
  int64_t bytes;
};

const std::map<std::string, Element>& Elements() {
  static const auto* elements = new std::map<std::string, Element>{
      {"i1", {PJRT_Buffer_Type_PRED, 1}},
      {"i8", {PJRT_Buffer_Type_S8, 1}},
      {"i16", {PJRT_Buffer_Type_S16, 2}},
      {"i32", {PJRT_Buffer_Type_S32, 4}},
      {"i64", {PJRT_Buffer_Type_S64, 8}},
      {"ui8", {PJRT_Buffer_Type_U8, 1}},
      {"ui16", {PJRT_Buffer_Type_U16, 2}},
      {"ui32", {PJRT_Buffer_Type_U32, 4}},
      {"ui64", {PJRT_Buffer_Type_U64, 8}},
      {"f16", {PJRT_Buffer_Type_F16, 2}},
      {"bf16", {PJRT_Buffer_Type_BF16, 2}},
      {"f32", {PJRT_Buffer_Type_F32, 4}},
      {"f64", {PJRT_Buffer_Type_F64, 8}},
      {"complex<f32>", {PJRT_Buffer_Type_C64, 8}},
      {"complex<f64>", {PJRT_Buffer_Type_C128, 16}},
      {"f8E4M3FN", {PJRT_Buffer_Type_F8E4M3FN, 1}},
      {"f8E5M2", {PJRT_Buffer_Type_F8E5M2, 1}},
  };
  return *elements;
}

// The index after the bracket that closes the one at `open`; npos when there is none.
size_t Closing(const std::string& text, size_t open) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = open; i < text.size(); ++i) {
    char c = text[i];
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    bool arrow = c == '>' && i > 0 && text[i - 1] == '-';
    if (c == '(' || c == '<' || c == '{' || c == '[') ++depth;
    if ((c == ')' || c == '>' || c == '}' || c == ']') && !arrow && --depth == 0) return i + 1;
  }
  return std::string::npos;
}

std::vector<std::string> SplitTop(const std::string& list) {
  std::vector<std::string> parts(1);
  for (size_t i = 0; i < list.size();) {
    size_t end = i + 1;
    if (std::string("(<{[").find(list[i]) != std::string::npos) end = Closing(list, i);
    if (end == std::string::npos) end = list.size();
    if (list[i] == ',') {
      parts.emplace_back();
    } else {
      parts.back() += list.substr(i, end - i);
    }
    i = end;
  }
  if (parts.back().find_first_not_of(" \n\t") == std::string::npos) parts.pop_back();
  return parts;
}

bool ParseType(const std::string& text, Type* type) {
  size_t begin = text.find("tensor<");
  if (begin == std::string::npos) return false;
  size_t end = Closing(text, begin + 6);
  if (end == std::string::npos) return false;
  std::string body = text.substr(begin + 7, end - begin - 8);
  body = body.substr(0, body.find(','));  // an encoding may follow
  size_t at = 0;
  while (at < body.size() && std::isdigit(static_cast<unsigned char>(body[at]))) {
    size_t x = body.find('x', at);
    if (x == std::string::npos) return false;
    type->dims.push_back(std::atoll(body.c_str() + at));
    at = x + 1;
  }
  auto it = Elements().find(body.substr(at));
  if (it == Elements().end()) return false;
  type->element = it->second.type;
  return true;
}

}  // namespace

int64_t ElementBytes(PJRT_Buffer_Type type) {
  for (const auto& [name, element] : Elements()) {
    if (element.type == type) return element.bytes;
  }
  return 0;
}

int64_t Type::bytes() const {
  int64_t bytes = ElementBytes(element);
  for (int64_t dim : dims) bytes *= dim;
  return bytes;
}

bool ParseSignature(const std::string& text, Signature* signature, std::string* error) {
  size_t main = text.find("@main");
  size_t open = main == std::string::npos ? main : text.find('(', main);
  size_t close = open == std::string::npos ? open : Closing(text, open);
  if (close == std::string::npos) {
    *error = "no function @main in the module";
    return false;
  }
  for (const std::string& part : SplitTop(text.substr(open + 1, close - open - 2))) {
    Signature::Argument argument;
    if (!ParseType(part, &argument.type)) {
      *error = "unknown argument type: " + part;
      return false;
    }
    size_t alias = part.find("tf.aliasing_output");
    if (alias != std::string::npos) {
      argument.aliased_output = std::atoi(part.c_str() + part.find('=', alias) + 1);
    }
    argument.donated =
        alias != std::string::npos || part.find("jax.buffer_donor") != std::string::npos;
    signature->arguments.push_back(argument);
  }
  size_t arrow = text.find_first_not_of(" \n\t", close);
  if (arrow == std::string::npos || text.compare(arrow, 2, "->") != 0) return true;  // no results
  size_t begin = text.find_first_not_of(" \n\t", arrow + 2);
  std::string results;
  if (begin != std::string::npos && text[begin] == '(') {
    size_t end = Closing(text, begin);
    if (end != std::string::npos) results = text.substr(begin + 1, end - begin - 2);
  } else if (begin != std::string::npos) {
    size_t end = Closing(text, begin);
    if (end != std::string::npos) results = text.substr(begin, end - begin);
  }
  for (const std::string& part : SplitTop(results)) {
    Type type;
    if (!ParseType(part, &type)) {
      *error = "unknown result type: " + part;
      return false;
    }
    signature->results.push_back(type);
  }
  return true;
}

}  // namespace fake_pjrt
