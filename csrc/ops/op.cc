// SPDX-License-Identifier: Apache-2.0
#include "csrc/ops/op.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>

#include "csrc/ops/view.h"

namespace torch_tpu::ops {
namespace {

std::map<std::string, OpDef, std::less<>>& Table() {
  static auto* table = new std::map<std::string, OpDef, std::less<>>();
  return *table;
}

// A dim out of range is torch's IndexError, not a missing lowering.
class DimError : public hlo::Error {
 public:
  using hlo::Error::Error;
};

}  // namespace

const OpDef* FindOp(std::string_view name) {
  auto it = Table().find(name);
  return it == Table().end() ? nullptr : &it->second;
}

const std::vector<const OpDef*>& AllOps() {
  static const auto* all = [] {
    auto* list = new std::vector<const OpDef*>();
    for (const auto& [name, def] : Table()) list->push_back(&def);
    return list;
  }();
  return *all;
}

OpRegistration::OpRegistration(std::initializer_list<const char*> names, LowerFn lower,
                               const char* file, Options options) {
  for (const char* name : names) {
    if (!Table().emplace(name, OpDef{name, lower, options, file}).second) {
      std::fprintf(stderr, "torch_tpu: two op blocks named %s (%s and %s)\n", name,
                   Table().find(name)->second.file, file);
      std::abort();
    }
  }
}

bool View::identity() const {
  if (conj || neg || offset != 0 || dtype != base.dtype || sizes != base.dims) return false;
  int64_t expected = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] != 1 && strides[i] != expected) return base.numel() == 0;
    expected *= sizes[i];
  }
  return true;
}

// ---- what a lowering sees ----------------------------------------------------------------------

Lowering::Lowering(const Call& call, hlo::Builder& builder, const Values& values)
    : call_(call), builder_(builder), values_(values), read_cache_(call.args.size()) {}

int Lowering::index_of(ArgRef a) const {
  if (a.name == nullptr) {
    if (a.position < 0 || a.position >= static_cast<int>(call_.args.size())) {
      throw hlo::Error(StrCat("no argument ", a.position));
    }
    return a.position;
  }
  const auto& names = call_.schema->args;
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == a.name) return static_cast<int>(i);
  }
  throw hlo::Error(StrCat("no argument named ", a.name));
}

const Arg& Lowering::at(ArgRef a) const { return call_.args[index_of(a)]; }

bool Lowering::takes(std::string_view name) const {
  const auto& names = call_.schema->args;
  return std::find(names.begin(), names.end(), name) != names.end();
}

ArgKind Lowering::kind(ArgRef a) const { return at(a).kind; }

bool Lowering::has(ArgRef a) const {
  const Arg& arg = at(a);
  if (arg.kind == ArgKind::kNone) return false;
  return arg.kind != ArgKind::kTensor || arg.tensors[0].value >= 0;
}

Value Lowering::Read(const TensorArg& t) {
  if (t.value < 0) return Value();
  Value base = values_[t.value];
  if (t.view.identity() && base.shape() == t.view.base) return base;
  return ReadView(base, t.view);
}

Value Lowering::Number(const ScalarArg& s, DType dtype) {
  return hlo::Convert(values_[s.value], dtype);
}

Value Lowering::tensor(ArgRef a) {
  const int index = index_of(a);
  const Arg& arg = call_.args[index];
  if (arg.kind == ArgKind::kScalar) return Number(arg.scalars[0], arg.scalars[0].dtype);
  if (arg.kind != ArgKind::kTensor || arg.tensors[0].value < 0) {
    throw hlo::Error(StrCat("argument ", call_.schema->args[index], " is not a tensor"));
  }
  auto& cache = read_cache_[index];
  if (cache.empty()) cache.push_back(Read(arg.tensors[0]));
  return cache[0];
}

Values Lowering::tensors(ArgRef a) {
  const int index = index_of(a);
  const Arg& arg = call_.args[index];
  auto& cache = read_cache_[index];
  if (cache.empty()) {
    for (const TensorArg& t : arg.tensors) cache.push_back(Read(t));
  }
  return cache;
}

Value Lowering::arg(ArgRef a) {
  return hlo::BroadcastTo(hlo::Convert(tensor(a), compute_type()), result().dims);
}

Value Lowering::common(ArgRef a) {
  const DType dtype = hlo::ComputeType(common_dtype());
  return hlo::BroadcastTo(hlo::Convert(tensor(a), dtype), result().dims);
}

Value Lowering::scalar(ArgRef a) { return scalar(a, compute_type()); }

Value Lowering::scalar(ArgRef a, DType dtype) {
  const Arg& arg = at(a);
  switch (arg.kind) {
    case ArgKind::kScalar: return Number(arg.scalars[0], dtype);
    case ArgKind::kInt:
    case ArgKind::kBool: return builder_.ConstantInt(dtype, arg.ints[0]);
    case ArgKind::kDouble: return builder_.Constant(dtype, arg.doubles[0]);
    case ArgKind::kTensor: return hlo::Convert(hlo::Reshape(tensor(a), {}), dtype);
    default:
      throw hlo::Error(StrCat("argument ", call_.schema->args[index_of(a)], " is not a number"));
  }
}

Values Lowering::scalars(ArgRef a, DType dtype) {
  const Arg& arg = at(a);
  Values out;
  for (const ScalarArg& s : arg.scalars) out.push_back(Number(s, dtype));
  if (arg.kind == ArgKind::kDoubleList) {
    for (double d : arg.doubles) out.push_back(builder_.Constant(dtype, d));
  } else if (arg.kind == ArgKind::kIntList) {
    for (int64_t i : arg.ints) out.push_back(builder_.ConstantInt(dtype, i));
  }
  return out;
}

DType Lowering::scalar_dtype(ArgRef a) const {
  const Arg& arg = at(a);
  switch (arg.kind) {
    case ArgKind::kScalar:
    case ArgKind::kScalarList: return arg.scalars.empty() ? DType::kInvalid : arg.scalars[0].dtype;
    case ArgKind::kInt:
    case ArgKind::kIntList: return DType::kS64;
    case ArgKind::kBool:
    case ArgKind::kBoolList: return DType::kPred;
    case ArgKind::kDouble:
    case ArgKind::kDoubleList: return DType::kF64;
    case ArgKind::kTensor: return arg.tensors[0].view.dtype;
    default: return DType::kInvalid;
  }
}

int64_t Lowering::integer(ArgRef a) const {
  const Arg& arg = at(a);
  if (!arg.ints.empty()) return arg.ints[0];
  if (!arg.doubles.empty()) return static_cast<int64_t>(arg.doubles[0]);
  throw hlo::Error(StrCat("argument ", call_.schema->args[index_of(a)], " is not a constant"));
}

int64_t Lowering::integer_or(ArgRef a, int64_t fallback) const {
  return has(a) ? integer(a) : fallback;
}

bool Lowering::boolean(ArgRef a) const { return integer(a) != 0; }

double Lowering::number(ArgRef a) const {
  const Arg& arg = at(a);
  if (!arg.doubles.empty()) return arg.doubles[0];
  return static_cast<double>(integer(a));
}

Dims Lowering::ints(ArgRef a) const { return at(a).ints; }

std::vector<bool> Lowering::bools(ArgRef a) const {
  const Arg& arg = at(a);
  return std::vector<bool>(arg.ints.begin(), arg.ints.end());
}

std::string_view Lowering::string(ArgRef a) const { return at(a).string; }

std::optional<DType> Lowering::dtype(ArgRef a) const {
  const Arg& arg = at(a);
  if (arg.kind != ArgKind::kDType) return std::nullopt;
  return arg.dtype;
}

int Lowering::num_results() const { return static_cast<int>(call_.outputs.size()); }

const Shape& Lowering::result(int i) const { return call_.outputs.at(i).shape; }

int64_t Lowering::WrapDim(int64_t dim, int64_t rank) {
  const int64_t n = std::max<int64_t>(rank, 1);
  if (dim < -n || dim >= n) {
    throw DimError(StrCat("expected a dim in [", -n, ", ", n - 1, "], got ", dim));
  }
  return dim < 0 ? dim + n : dim;
}

Dims Lowering::WrapDims(const Dims& dims, int64_t rank) {
  Dims out;
  if (dims.empty()) {
    out.resize(rank);
    std::iota(out.begin(), out.end(), 0);
    return out;
  }
  for (int64_t d : dims) {
    const int64_t wrapped = WrapDim(d, rank);
    if (wrapped < rank) out.push_back(wrapped);  // rank 0: dim 0 or -1 names nothing
  }
  std::sort(out.begin(), out.end());
  return out;
}

Random Lowering::random() {
  if (call_.rng < 0) throw hlo::Error("draws random numbers but the call carries no generator");
  return Random(values_[call_.rng]);
}

void Lowering::CheckBounds(ArgRef a, Value index, int64_t bound, bool wrap) {
  if (!call_.check_bounds || index.numel() == 0) return;
  Dims all(index.rank());
  std::iota(all.begin(), all.end(), 0);
  index = hlo::Convert(index, DType::kS64);
  checks_.push_back(BoundsCheck{hlo::MinReduce(index, all), hlo::MaxReduce(index, all), bound, wrap,
                                call_.schema->args[index_of(a)]});
}

void Lowering::Unsupported(const std::string& what) const { throw hlo::Error(what); }

// ---- one call ----------------------------------------------------------------------------------

namespace {

// Rounds to the tensor's dtype and checks the sizes; one element fills any size.
Value Fit(Value v, const Shape& shape, size_t i) {
  if (!v) throw hlo::Error(StrCat("result ", i, " is missing"));
  if (hlo::IsComplex(v.dtype()) && !hlo::IsComplex(shape.dtype)) {
    throw hlo::Error(StrCat("result ", i, " expected ", shape.ToString(), ", got ",
                            v.shape().ToString(), " (complex to real)"));
  }
  v = hlo::Convert(v, shape.dtype);
  if (v.dims() == shape.dims) return v;
  if (v.numel() == 1 && v.rank() <= 1) return hlo::BroadcastTo(hlo::Reshape(v, {}), shape.dims);
  throw hlo::Error(
      StrCat("result ", i, " expected ", shape.ToString(), ", got ", v.shape().ToString()));
}

Values LowerOrThrow(const Call& call, hlo::Builder& builder, const Values& values,
                    std::vector<BoundsCheck>* checks) {
  Lowering x(call, builder, values);
  Results results = call.def->lower(x);
  const bool typed = !call.outputs.empty();
  if (typed && results.size() != call.outputs.size()) {
    throw hlo::Error(
        StrCat("expected ", call.outputs.size(), " results, the lowering gave ", results.size()));
  }
  Values out;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!typed || call.outputs[i].shape.dtype == DType::kInvalid) {
      out.push_back(results[i]);
      continue;
    }
    const Output& output = call.outputs[i];
    Value v = Fit(results[i], output.shape, i);
    if (output.stored != DType::kInvalid) v = hlo::Convert(v, output.stored);
    if (output.written.value >= 0) {
      v = WriteView(values[output.written.value], v, output.written.view);
    } else if (!output.storage_order.empty()) {
      v = hlo::Transpose(v, output.storage_order);
    }
    out.push_back(v);
  }
  for (const BoundsCheck& check : x.bounds_checks()) {
    out.push_back(check.lowest);
    out.push_back(check.highest);
    if (checks != nullptr) checks->push_back(check);
  }
  return out;
}

}  // namespace

StatusOr<Values> Lower(const Call& call, hlo::Builder& builder, const Values& values,
                       std::vector<BoundsCheck>* checks) {
  const std::string& name =
      call.schema != nullptr && !call.schema->name.empty() ? call.schema->name : call.def->name;
  try {
    return LowerOrThrow(call, builder, values, checks);
  } catch (const DimError& e) {
    return Status(Code::kOutOfRange, StrCat("[", name, "] ", e.what()));
  } catch (const hlo::Error& e) {
    return Unimplemented(StrCat("[", name, "] ", e.what()));
  } catch (const std::exception& e) {
    return Internal(StrCat("[", name, "] ", e.what()));
  }
}

}  // namespace torch_tpu::ops
