// SPDX-License-Identifier: Apache-2.0
#include "csrc/eager/signature.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "csrc/device/slot.h"
#include "csrc/eager/dtype.h"

namespace torch_tpu::eager {
namespace {

using c10::IValue;
using c10::TensorImpl;
using ops::ArgKind;

// Donating a small buffer saves nothing and would double the number of programs. Above the size up
// to which Timeline keeps the last value alive.
constexpr int64_t kMinDonatedBytes = (1 << 20) + 1;

bool Identity(const TensorImpl& tensor, const hlo::Shape& base, hlo::DType dtype) {
  if (tensor.storage_offset() != 0 || base.dtype != dtype || !tensor.is_contiguous() ||
      tensor.is_conj() || tensor.is_neg()) {
    return false;
  }
  c10::IntArrayRef sizes = tensor.sizes();
  return sizes.size() == base.dims.size() &&
         std::memcmp(sizes.data(), base.dims.data(), sizes.size() * sizeof(int64_t)) == 0;
}

// ---- numbers
// ---------------------------------------------------------------------------------------

CallInput NumberInput(const IValue& v) {
  CallInput input;
  if (v.isDouble()) {
    input.number = hlo::DType::kF64;
    double d = v.toDouble();
    std::memcpy(&input.bits.lo, &d, sizeof d);
  } else if (v.isInt()) {
    input.number = hlo::DType::kS64;
    input.bits.lo = static_cast<uint64_t>(v.toInt());
  } else if (v.isBool()) {
    input.number = hlo::DType::kPred;
    input.bits.lo = v.toBool();
  } else if (v.isComplexDouble()) {
    input.number = hlo::DType::kC128;
    c10::complex<double> c = v.toComplexDouble();
    double parts[2] = {c.real(), c.imag()};
    std::memcpy(&input.bits.lo, &parts[0], sizeof(double));
    std::memcpy(&input.bits.hi, &parts[1], sizeof(double));
  } else {
    TORCH_CHECK(false, "tpu: expected a number, got ", v.tagKind());
  }
  return input;
}

// A 0-dim CPU tensor is a number too.
CallInput NumberInput(const TensorImpl& tensor, const char* op) {
  CallInput input;
  input.number = ToHloOrThrow(c10::typeMetaToScalarType(tensor.dtype()), op);
  std::memcpy(static_cast<void*>(&input.bits), tensor.data(), tensor.itemsize());
  return input;
}

double AsDouble(const CallInput& input) {
  double d = 0;
  switch (input.number) {
    case hlo::DType::kF64:
    case hlo::DType::kC128: std::memcpy(&d, &input.bits.lo, sizeof d); return d;
    default: return static_cast<double>(static_cast<int64_t>(input.bits.lo));
  }
}

// ---- the walk
// -------------------------------------------------------------------------------------- One
// traversal, two visitors: the key and the recording cannot disagree about order.

template <typename Visitor>
void VisitTensor(const IValue& v, const ArgPlan& plan, Visitor& visit) {
  const TensorImpl* tensor = v.unsafeToTensorImpl();
  if (tensor == c10::UndefinedTensorImpl::singleton()) {
    visit.AbsentTensor();
  } else if (tensor->is_privateuseone()) [[likely]] {
    visit.Tensor(*tensor, plan);
  } else {
    visit.HostTensor(*tensor, plan);
  }
}

template <typename Visitor>
void Walk(const std::vector<ArgPlan>& plans, const IValue* args, Visitor& visit) {
  for (size_t i = 0; i < plans.size(); ++i) {
    const ArgPlan& plan = plans[i];
    const IValue& v = args[i];
    if (v.isNone()) {
      visit.None();
      continue;
    }
    switch (plan.kind) {
      case ArgKind::kTensor: VisitTensor(v, plan, visit); break;
      case ArgKind::kTensorList: {
        c10::ArrayRef<IValue> list = v.toListRef();
        visit.List(plan.kind, list.size());
        for (const IValue& element : list) {
          if (element.isNone()) {
            visit.AbsentTensor();
          } else {
            VisitTensor(element, plan, visit);
          }
        }
        visit.EndList();
        break;
      }
      case ArgKind::kScalar: visit.Number(v, plan); break;
      case ArgKind::kScalarList: {
        c10::ArrayRef<IValue> list = v.toListRef();
        visit.List(plan.kind, list.size());
        for (const IValue& element : list) visit.Number(element, plan);
        visit.EndList();
        break;
      }
      case ArgKind::kInt: visit.Int(plan.kind, v.isBool() ? v.toBool() : v.toInt()); break;
      case ArgKind::kBool: visit.Int(plan.kind, v.toBool()); break;
      case ArgKind::kIntList:
      case ArgKind::kBoolList: {
        if (v.isInt()) {  // int[1] given as one int
          visit.Ints(plan.kind, c10::ArrayRef<IValue>(v));
        } else {
          visit.Ints(plan.kind, v.toListRef());
        }
        break;
      }
      case ArgKind::kString: visit.String(v.toStringRef()); break;
      case ArgKind::kDType: visit.DType(v.toScalarType()); break;
      default: visit.None(); break;
    }
  }
}

// ---- visitor 1: the key
// ------------------------------------------------------------------------------

uint64_t Tag(ArgKind kind, uint64_t a = 0, uint64_t b = 0, uint64_t flags = 0) {
  return static_cast<uint64_t>(kind) | a << 8 | b << 16 | flags << 24;
}

constexpr uint64_t kIdentity = 1, kCovers = 2, kDonate = 4, kConj = 8, kNeg = 16, kZeros = 32,
                   kHost = 64, kWrapped = 128;
static_assert(kDonate << 24 == kDonateWord);

class KeyVisitor {
 public:
  KeyVisitor(Signature* signature, const char* op) : s_(*signature), op_(op) {}

  void None() { s_.words.push_back(Tag(ArgKind::kNone)); }
  void AbsentTensor() { s_.words.push_back(Tag(ArgKind::kNone, 1)); }

  void Tensor(const TensorImpl& tensor, const ArgPlan& plan) {
    device::Slot& slot = device::SlotOf(tensor);
    if (s_.device < 0) {
      s_.device = slot.device();
    } else if (s_.device != slot.device()) [[unlikely]] {
      TORCH_CHECK(false, "[", op_,
                  "] Expected all tensors to be on the same device, but found at "
                  "least two devices, tpu:",
                  s_.device, " and tpu:", slot.device(), "! (argument ", plan.name,
                  "). Try: tensor.to('tpu:", s_.device, "').");
    }
    hlo::DType dtype = ToHloOrThrow(c10::typeMetaToScalarType(tensor.dtype()), op_);
    c10::IntArrayRef sizes = tensor.sizes();
    bool covers = plan.written && CoversStorage(tensor);
    if (plan.written && !plan.read && covers) {
      Append(Tag(ArgKind::kTensor, static_cast<uint64_t>(dtype), sizes.size(), kCovers), sizes);
      s_.words.append(tensor.strides().begin(), tensor.strides().end());
      return;
    }
    CallInput& input = s_.inputs.emplace_back();
    input.value = slot.Get();
    const program::Value* value = input.value.get();
    bool identity = value != nullptr && Identity(tensor, value->shape(), dtype);
    input.word = static_cast<uint32_t>(s_.words.size());
    // Two references: the slot's and ours.
    input.donate = plan.written && s_.may_donate && value != nullptr && !value->pending() &&
                   value->use_count() == 2 && value->bytes() >= kMinDonatedBytes;
    uint64_t flags = (identity ? kIdentity : 0) | (covers ? kCovers : 0) |
                     (input.donate ? kDonate : 0) | (tensor.is_conj() ? kConj : 0) |
                     (tensor.is_neg() ? kNeg : 0) | (value == nullptr ? kZeros : 0);
    Append(Tag(ArgKind::kTensor, static_cast<uint64_t>(dtype), sizes.size(), flags), sizes);
    if (identity) return;
    s_.words.append(tensor.strides().begin(), tensor.strides().end());
    s_.words.push_back(static_cast<uint64_t>(tensor.storage_offset()));
    if (value == nullptr) {
      s_.words.push_back(slot.bytes());
    } else {
      const hlo::Shape& base = value->shape();
      Append(static_cast<uint64_t>(base.dtype) << 8 | base.dims.size(), base.dims);
    }
  }

  void HostTensor(const TensorImpl& tensor, const ArgPlan& plan) {
    TORCH_CHECK(tensor.is_cpu() && tensor.dim() == 0 && !plan.written, "[", op_,
                "] Expected all tensors to be on the same device, but found at least two devices, "
                "tpu:",
                std::max(s_.device, 0), " and ", tensor.device(), "! (argument ", plan.name,
                "). Try: tensor.to('tpu').");
    CallInput input = NumberInput(tensor, op_);
    s_.words.push_back(Tag(ArgKind::kScalar, static_cast<uint64_t>(input.number), 0,
                           kHost | (tensor.is_wrapped_number() ? kWrapped : 0)));
    s_.inputs.push_back(std::move(input));
  }

  void Number(const IValue& v, const ArgPlan& plan) {
    if (v.isTensor()) return HostTensor(*v.unsafeToTensorImpl(), plan);
    CallInput input = NumberInput(v);
    s_.words.push_back(Tag(ArgKind::kScalar, static_cast<uint64_t>(input.number), plan.constant));
    if (plan.constant) {
      s_.words.push_back(input.bits.lo);
      s_.words.push_back(input.bits.hi);
    } else {
      s_.inputs.push_back(std::move(input));
    }
  }

  void Int(ArgKind kind, int64_t value) {
    s_.words.push_back(Tag(kind));
    s_.words.push_back(static_cast<uint64_t>(value));
  }

  void Ints(ArgKind kind, c10::ArrayRef<IValue> list) {
    s_.words.push_back(Tag(kind, list.size()));
    for (const IValue& v : list) {
      s_.words.push_back(static_cast<uint64_t>(v.isBool() ? v.toBool() : v.toInt()));
    }
  }

  void String(const std::string& text) {
    s_.words.push_back(Tag(ArgKind::kString, 0, text.size()));
    for (size_t i = 0; i < text.size(); i += 8) {
      uint64_t word = 0;
      std::memcpy(&word, text.data() + i, std::min<size_t>(8, text.size() - i));
      s_.words.push_back(word);
    }
  }

  void DType(c10::ScalarType dtype) {
    s_.words.push_back(Tag(ArgKind::kDType, static_cast<uint64_t>(ToHloOrThrow(dtype, op_))));
  }

  void List(ArgKind kind, size_t size) { s_.words.push_back(Tag(kind, 0, size)); }
  void EndList() {}

 private:
  template <typename Sizes>
  void Append(uint64_t head, const Sizes& sizes) {
    s_.words.push_back(head);
    s_.words.append(sizes.begin(), sizes.end());
  }

  Signature& s_;
  const char* op_;
};

// ---- visitor 2: the recording
// --------------------------------------------------------------------------

class RecordVisitor {
 public:
  RecordVisitor(const Signature& signature, std::vector<ops::Arg>* args,
                std::vector<program::Input>* inputs)
      : s_(signature), args_(*args), inputs_(*inputs) {}

  void None() { Add({}); }
  void AbsentTensor() { AddTensor({}, /*present=*/false); }

  void Tensor(const TensorImpl& tensor, const ArgPlan& plan) {
    if (plan.written && !plan.read && CoversStorage(tensor)) {
      ops::TensorArg arg;
      arg.view = ViewOf(tensor, nullptr);
      AddTensor(std::move(arg), /*present=*/true);
      return;
    }
    const CallInput& input = s_.inputs[inputs_.size()];
    ops::TensorArg arg;
    arg.value = static_cast<int>(inputs_.size());
    arg.view = ViewOf(tensor, input.value.get());
    program::Input& program_input = inputs_.emplace_back();
    program_input.shape = arg.view.base;
    if (input.zeros()) program_input.kind = program::Input::Kind::kZeros;
    AddTensor(std::move(arg), /*present=*/true);
  }

  void HostTensor(const TensorImpl& tensor, const ArgPlan&) {
    AddNumber(tensor.is_wrapped_number());
  }

  void Number(const IValue& v, const ArgPlan& plan) {
    if (v.isTensor()) return HostTensor(*v.unsafeToTensorImpl(), plan);
    if (!plan.constant) return AddNumber(/*wrapped=*/true);
    CallInput input = NumberInput(v);
    ops::Arg& arg = Target(ArgKind::kDouble);
    if (in_list_) arg.kind = ArgKind::kDoubleList;
    // Integers and bools keep 64 exact bits beside the double.
    if (input.number == hlo::DType::kS64 || input.number == hlo::DType::kPred) {
      arg.ints.push_back(static_cast<int64_t>(input.bits.lo));
      if (!in_list_) {
        arg.kind = input.number == hlo::DType::kPred ? ArgKind::kBool : ArgKind::kInt;
      }
    }
    arg.doubles.push_back(AsDouble(input));
  }

  void Int(ArgKind kind, int64_t value) {
    ops::Arg arg;
    arg.kind = kind;
    arg.ints = {value};
    Add(std::move(arg));
  }

  void Ints(ArgKind kind, c10::ArrayRef<IValue> list) {
    ops::Arg arg;
    arg.kind = kind;
    for (const IValue& v : list) arg.ints.push_back(v.isBool() ? v.toBool() : v.toInt());
    Add(std::move(arg));
  }

  void String(const std::string& text) {
    ops::Arg arg;
    arg.kind = ArgKind::kString;
    arg.string = text;
    Add(std::move(arg));
  }

  void DType(c10::ScalarType dtype) {
    ops::Arg arg;
    arg.kind = ArgKind::kDType;
    arg.dtype = ToHlo(dtype);
    Add(std::move(arg));
  }

  void List(ArgKind kind, size_t) {
    ops::Arg arg;
    arg.kind = kind;
    Add(std::move(arg));
    in_list_ = true;
  }
  void EndList() { in_list_ = false; }

 private:
  void Add(ops::Arg arg) { args_.push_back(std::move(arg)); }

  ops::Arg& Target(ArgKind kind) {
    if (!in_list_) {
      Add({});
      args_.back().kind = kind;
    }
    return args_.back();
  }

  void AddTensor(ops::TensorArg tensor, bool present) {
    Target(present ? ArgKind::kTensor : ArgKind::kNone).tensors.push_back(std::move(tensor));
  }

  void AddNumber(bool wrapped) {
    hlo::DType dtype = s_.inputs[inputs_.size()].number;
    ops::ScalarArg scalar{static_cast<int>(inputs_.size()), dtype, wrapped};
    inputs_.emplace_back().shape = {dtype, {}};
    Target(ArgKind::kScalar).scalars.push_back(scalar);
  }

  const Signature& s_;
  std::vector<ops::Arg>& args_;
  std::vector<program::Input>& inputs_;
  bool in_list_ = false;
};

// ---- plans
// ---------------------------------------------------------------------------------------------

ArgKind KindOf(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::OptionalType:
      return KindOf(*type.castRaw<c10::OptionalType>()->getElementType());
    case c10::TypeKind::TensorType: return ArgKind::kTensor;
    case c10::TypeKind::NumberType: return ArgKind::kScalar;
    case c10::TypeKind::FloatType: return ArgKind::kScalar;
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType: return ArgKind::kInt;
    case c10::TypeKind::BoolType: return ArgKind::kBool;
    case c10::TypeKind::StringType: return ArgKind::kString;
    case c10::TypeKind::ScalarTypeType: return ArgKind::kDType;
    case c10::TypeKind::ListType:
      switch (KindOf(*type.castRaw<c10::ListType>()->getElementType())) {
        case ArgKind::kTensor: return ArgKind::kTensorList;
        case ArgKind::kScalar: return ArgKind::kScalarList;
        case ArgKind::kInt: return ArgKind::kIntList;
        case ArgKind::kBool: return ArgKind::kBoolList;
        default: return ArgKind::kOther;
      }
    default: return ArgKind::kOther;
  }
}

bool Names(const std::vector<std::string>& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

}  // namespace

std::vector<ArgPlan> PlanArguments(const c10::FunctionSchema& schema, const ops::Options& options) {
  std::vector<ArgPlan> plans;
  for (const c10::Argument& argument : schema.arguments()) {
    ArgPlan plan;
    plan.name = argument.name();
    plan.kind = KindOf(*argument.real_type());
    plan.written = (argument.alias_info() && argument.alias_info()->isWrite()) ||
                   Names(options.writes, plan.name);
    plan.read = !argument.is_out();
    plan.constant = Names(options.constants, plan.name);
    plans.push_back(std::move(plan));
  }
  return plans;
}

void Collect(const std::vector<ArgPlan>& plans, const IValue* args, const char* op,
             Signature* signature) {
  KeyVisitor visitor(signature, op);
  Walk(plans, args, visitor);
}

void Record(const std::vector<ArgPlan>& plans, const IValue* args, const Signature& signature,
            std::vector<ops::Arg>* recorded, std::vector<program::Input>* inputs) {
  RecordVisitor visitor(signature, recorded, inputs);
  Walk(plans, args, visitor);
}

ops::View ViewOf(const TensorImpl& tensor, const program::Value* value) {
  ops::View view;
  view.dtype = ToHlo(c10::typeMetaToScalarType(tensor.dtype()));
  view.sizes = tensor.sizes().vec();
  view.strides = tensor.strides().vec();
  view.offset = tensor.storage_offset();
  view.conj = tensor.is_conj();
  view.neg = tensor.is_neg();
  if (value != nullptr) {
    view.base = value->shape();
  } else {
    int64_t bytes = static_cast<int64_t>(device::SlotOf(tensor).bytes());
    view.base = {view.dtype, {bytes / hlo::ByteSize(view.dtype)}};
  }
  return view;
}

bool CoversStorage(const TensorImpl& tensor) {
  return tensor.storage_offset() == 0 && !tensor.is_conj() && !tensor.is_neg() &&
         tensor.is_non_overlapping_and_dense() &&
         static_cast<size_t>(tensor.numel()) * tensor.itemsize() ==
             tensor.unsafe_storage().nbytes();
}

hlo::Dims StorageOrder(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  // Dims of size 1 may have any stride: they stay where they are.
  hlo::Dims order(sizes.size()), moving;
  std::iota(order.begin(), order.end(), 0);
  for (int64_t dim : order) {
    if (sizes[dim] != 1) moving.push_back(dim);
  }
  std::stable_sort(moving.begin(), moving.end(),
                   [&](int64_t a, int64_t b) { return strides[a] > strides[b]; });
  size_t next = 0;
  for (int64_t& dim : order) {
    if (sizes[dim] != 1) dim = moving[next++];
  }
  return std::is_sorted(order.begin(), order.end()) ? hlo::Dims{} : order;
}

}  // namespace torch_tpu::eager
