// SPDX-License-Identifier: Apache-2.0
#include "csrc/program/payload.h"

#include <cstdint>
#include <cstring>
#include <utility>

#include "csrc/program/value.h"

namespace torch_tpu::program {
namespace {

class Writer {
 public:
  void Int(int64_t v) { out_.append(reinterpret_cast<const char*>(&v), sizeof v); }
  void Text(std::string_view text) {
    Int(static_cast<int64_t>(text.size()));
    out_.append(text);
  }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

class Reader {
 public:
  explicit Reader(std::string_view in) : in_(in) {}
  int64_t Int() {
    int64_t v = 0;
    if (in_.size() < sizeof v) return good_ = false;
    std::memcpy(&v, in_.data(), sizeof v);
    in_.remove_prefix(sizeof v);
    return v;
  }
  std::string_view Text() {
    uint64_t size = static_cast<uint64_t>(Int());
    if (size > in_.size()) {
      good_ = false;
      return {};
    }
    std::string_view text = in_.substr(0, size);
    in_.remove_prefix(size);
    return text;
  }
  // A count of things that take at least eight bytes each.
  size_t Count() {
    uint64_t n = static_cast<uint64_t>(Int());
    if (n > in_.size() / 8) good_ = false;
    return good_ ? n : 0;
  }
  bool done() const { return good_ && in_.empty(); }

 private:
  std::string_view in_;
  bool good_ = true;
};

hlo::DType DTypeByName(std::string_view name) {
  for (int i = 1; i <= static_cast<int>(hlo::DType::kF8E5M2); ++i) {
    auto dtype = static_cast<hlo::DType>(i);
    if (hlo::Name(dtype) == name) return dtype;
  }
  return hlo::DType::kInvalid;
}

}  // namespace

std::string ToPayload(const std::vector<const hlo::Shape*>& outputs,
                      const std::vector<ops::BoundsCheck>& checks, std::string_view executable) {
  Writer w;
  w.Int(static_cast<int64_t>(outputs.size()));
  for (const hlo::Shape* shape : outputs) {
    w.Text(hlo::Name(shape->dtype));
    w.Int(shape->rank());
    for (int64_t dim : shape->dims) w.Int(dim);
  }
  w.Int(static_cast<int64_t>(checks.size()));
  for (const ops::BoundsCheck& check : checks) {
    w.Int(check.bound);
    w.Int(check.wrap);
    w.Text(check.argument);
  }
  w.Text(executable);
  return w.Take();
}

std::optional<Payload> ParsePayload(std::string_view bytes) {
  Reader r(bytes);
  Payload payload;
  for (size_t n = r.Count(); n > 0; --n) {
    hlo::Shape shape;
    shape.dtype = DTypeByName(r.Text());
    if (shape.dtype == hlo::DType::kInvalid) return std::nullopt;
    for (size_t rank = r.Count(); rank > 0; --rank) shape.dims.push_back(r.Int());
    payload.outputs.push_back(InternShape(shape));
  }
  for (size_t n = r.Count(); n > 0; --n) {
    ops::BoundsCheck check;
    check.bound = r.Int();
    check.wrap = r.Int() != 0;
    check.argument = std::string(r.Text());
    payload.checks.push_back(std::move(check));
  }
  payload.executable = r.Text();
  if (!r.done()) return std::nullopt;
  return payload;
}

}  // namespace torch_tpu::program
