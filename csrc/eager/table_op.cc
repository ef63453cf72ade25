// SPDX-License-Identifier: Apache-2.0
#include "csrc/eager/table_op.h"

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/native/Resize.h>
#include <c10/core/DefaultDtype.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>

#include "csrc/base/counters.h"
#include "csrc/device/error.h"
#include "csrc/device/generator.h"
#include "csrc/device/guard.h"
#include "csrc/device/runtime.h"
#include "csrc/device/slot.h"
#include "csrc/device/timeline.h"
#include "csrc/eager/dtype.h"
#include "csrc/eager/entry_table.h"
#include "csrc/eager/index_masks.h"
#include "csrc/eager/meta.h"
#include "csrc/eager/mode.h"
#include "csrc/eager/precision.h"
#include "csrc/eager/shape_churn.h"
#include "csrc/eager/wrap.h"

namespace torch_tpu::eager {
namespace {

using c10::IValue;
using device::Runtime;
using device::ThrowIfError;

// What holds for the whole process while a call runs, and changes its program.
uint64_t GlobalWord(uint64_t op) {
  return op | static_cast<uint64_t>(c10::get_default_dtype_as_scalartype()) << 16 |
         static_cast<uint64_t>(CurrentMode() == Mode::kDebug) << 24 |
         static_cast<uint64_t>(MatmulPrecision()) << 25;
}

// Fusion changes rounding, so deterministic algorithms turn it off.
bool Defers() {
  return CurrentMode() == Mode::kDeferAndFuse && !at::globalContext().deterministicAlgorithms();
}

// An autograd worker acts for the thread that called backward, which waits for it.
bool InBackward() { return torch::autograd::get_current_node() != nullptr; }

// A donation decided when the value was first seen is void if the call passes it again.
void SettleDonations(Signature* s) {
  for (CallInput& input : s->inputs) {
    if (input.donate && input.value->use_count() != 2) {
      input.donate = false;
      s->words[input.word] &= ~kDonateWord;
    }
  }
}

Ref<program::Value> PhiloxState(const std::optional<at::Generator>& generator, pjrt::Device* dev) {
  // Each call takes one block per element; what varies between calls is the offset.
  device::PhiloxRange state =
      device::GeneratorFor(generator, static_cast<c10::DeviceIndex>(dev->index())).Next(4);
  uint64_t words[2] = {state.seed, state.offset};
  static const hlo::Shape* shape = program::InternShape({hlo::DType::kU64, {2}});
  pjrt::Buffer buffer = device::ValueOrThrow(
      dev->client().FromHost(words, *shape, nullptr, pjrt::HostSemantics::kCopy, dev, nullptr));
  return Ref<program::Value>(new program::Value(shape, std::move(buffer)));
}

program::Key KeyOf(const Signature& signature) {
  program::Key key;
  key.words.assign(signature.words.begin(), signature.words.end());
  key.hash = signature.Hash();
  return key;
}

// The storage value's shape that an output gives.
hlo::Shape StoredShape(const ops::Output& output) {
  if (output.written.value >= 0) return output.written.view.base;
  hlo::Shape shape = output.shape;
  if (output.stored != hlo::DType::kInvalid) shape.dtype = output.stored;
  for (size_t i = 0; i < output.storage_order.size(); ++i) {
    shape.dims[i] = output.shape.dims[output.storage_order[i]];
  }
  return shape;
}

// Numbers go to the device; pending values are resolved by whoever needs buffers.
void PlaceNumbers(Signature* signature, pjrt::Device* dev) {
  for (CallInput& input : signature->inputs) {
    if (input.value || input.zeros()) continue;
    input.value = device::ValueOrThrow(program::ScalarValue(dev, input.number, input.bits));
  }
}

// Runs the program on the signature's inputs. Gives every result, bounds checks' extremes last.
using RawOutputs = c10::SmallVector<PJRT_Buffer*, 8>;
RawOutputs Execute(const program::CompiledProgram& program, Signature& signature,
                   pjrt::Device* dev) {
  PlaceNumbers(&signature, dev);
  c10::SmallVector<PJRT_Buffer*, 16> arguments;
  for (const CallInput& input : signature.inputs) {
    if (!input.value) continue;
    ThrowIfError(input.value->Resolve(program::CloseReason::kMode));
    arguments.push_back(input.value->buffer().raw());
  }
  RawOutputs outputs(program.num_results());
  ThrowIfError(program.executable(dev->index())
                   ->Execute(arguments.data(), arguments.size(), outputs.data()));
  Count(Counter::kExecutions);
  return outputs;
}

Ref<program::Value> TakeOutput(const program::CompiledProgram& program, const RawOutputs& raw,
                               int index, pjrt::Device* dev) {
  const hlo::Shape* shape = program.outputs()[index];
  return Ref<program::Value>(
      new program::Value(shape, pjrt::Buffer(dev, raw[index], program.output_bytes(index))));
}

int ArgumentOfAlias(const c10::FunctionSchema& schema, const c10::AliasInfo& alias) {
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::AliasInfo* info = schema.arguments()[i].alias_info();
    if (info && info->isWrite() && info->beforeSets() == alias.beforeSets()) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

hlo::Shape ShapeOf(const at::Tensor& tensor, const char* op) {
  return {ToHloOrThrow(tensor.scalar_type(), op), tensor.sizes().vec()};
}

}  // namespace

TableOp::TableOp(const ops::OpDef* def, const c10::OperatorHandle& called,
                 std::optional<c10::OperatorHandle> functional)
    : def_(def), called_(called), functional_(std::move(functional)) {
  const c10::FunctionSchema& schema = called_.schema();
  plans_ = PlanArguments(schema, def->options);
  schema_.name = "aten::" + (schema.overload_name().empty()
                                 ? schema.name().substr(schema.name().find("::") + 2)
                                 : schema.name().substr(schema.name().find("::") + 2) + "." +
                                       schema.overload_name());
  for (size_t i = 0; i < plans_.size(); ++i) {
    schema_.args.push_back(plans_[i].name);
    if (schema.arguments()[i].is_out()) has_out_ = true;
    if (plans_[i].name == "generator") generator_ = static_cast<int>(i);
    if (plans_[i].name == "indices" && plans_[i].kind == ops::ArgKind::kTensorList) {
      indices_ = static_cast<int>(i);
    }
    if (indices_ >= 0 && plans_[i].name == "values") values_ = static_cast<int>(i);
  }
  // In-place and out= twins of one row are different programs (what they write differs).
  const auto& all = ops::AllOps();
  uint64_t row = static_cast<uint64_t>(
      std::lower_bound(all.begin(), all.end(), def,
                       [](const ops::OpDef* a, const ops::OpDef* b) { return a->name < b->name; }) -
      all.begin());
  id_ = row << 40 | (functional_ ? (has_out_ ? 2ull : 1ull) : 0ull) << 56;
}

void TableOp::operator()(const c10::OperatorHandle&, c10::DispatchKeySet,
                         torch::jit::Stack* stack) {
  Count(Counter::kDispatches);
  if (indices_ >= 0 && PrepareIndexing(stack)) return;
  const IValue* args = stack->data() + stack->size() - plans_.size();
  Signature signature = Sign(args);
  Hash128 hash = signature.Hash();
  const Entry* entry = FindEntry(signature, hash);
  if (entry == nullptr) [[unlikely]] {
    if (has_out_ && ResizeOut(args)) {
      signature = Sign(args);
      hash = signature.Hash();
      entry = FindEntry(signature, hash);
    }
    if (entry == nullptr) entry = Miss(args, signature);
  } else {
    Count(Counter::kMemoryHits);
  }
  pjrt::Device* dev = Runtime::Require().device(signature.device);
  Deliver(*entry, dev->index(),
          Defers() ? Defer(*entry, signature, dev) : Launch(*entry, signature, dev), stack);
}

bool TableOp::PrepareIndexing(torch::jit::Stack* stack) const {
  const size_t first = stack->size() - plans_.size();
  const at::Tensor& self = (*stack)[first].toTensor();
  IValue& indices = (*stack)[first + indices_];
  if (values_ >= 0 && schema_.args[0] == "self" && plans_[0].written &&
      PutUnderMask(self, indices, (*stack)[first + values_].toTensor(),
                   (*stack)[first + values_ + 1].toBool())) {
    stack->resize(first + 1);  // self comes back
    return true;
  }
  indices = PrepareIndices(self, indices, schema_.name.c_str());
  return false;
}

Signature TableOp::Sign(const IValue* args) const {
  Signature signature;
  signature.words.push_back(GlobalWord(id_));
  signature.may_donate = !Defers();
  Collect(plans_, args, schema_.name.c_str(), &signature);
  if (signature.device < 0) signature.device = device::CurrentDevice();
  SettleDonations(&signature);
  if (def_->options.random) {
    std::optional<at::Generator> generator;
    if (generator_ >= 0 && !args[generator_].isNone()) generator = args[generator_].toGenerator();
    CallInput input;
    input.value = PhiloxState(generator, Runtime::Require().device(signature.device));
    signature.inputs.push_back(std::move(input));
  }
  return signature;
}

bool TableOp::ResizeOut(const IValue* args) const {
  std::vector<IValue> returns = RunMeta(called_, args, plans_.size());
  bool resized = false;
  const auto& schema_returns = called_.schema().returns();
  for (size_t r = 0; r < schema_returns.size(); ++r) {
    const c10::AliasInfo* alias = schema_returns[r].alias_info();
    if (alias == nullptr || !returns[r].isTensor()) continue;
    int position = ArgumentOfAlias(called_.schema(), *alias);
    if (position < 0 || !args[position].isTensor()) continue;
    const at::Tensor& out = args[position].toTensor();
    if (returns[r].toTensor().sizes() != out.sizes()) {
      resized |= at::native::resize_output(out, returns[r].toTensor().sizes());
    }
  }
  return resized;
}

const Entry* TableOp::Miss(const IValue* args, Signature& signature) {
  auto entry = std::make_unique<Entry>();
  program::Template& recorded = entry->recorded;
  recorded.words.assign(signature.words.begin(), signature.words.end());
  ops::Call& call = recorded.call;
  call.def = def_;
  call.schema = &schema_;
  call.default_dtype = ToHlo(c10::get_default_dtype_as_scalartype());
  call.dot_precision = DotPrecision();
  call.check_bounds = CurrentMode() == Mode::kDebug;
  Record(plans_, args, signature, &call.args, &recorded.inputs);
  if (def_->options.random) {
    call.rng = static_cast<int>(recorded.inputs.size());
    recorded.inputs.emplace_back().shape = {hlo::DType::kU64, {2}};
  }
  PlanOutputs(args, entry.get());
  for (int position : recorded.live) {
    recorded.outputs.push_back(program::InternShape(StoredShape(call.outputs[position])));
    recorded.bytes.push_back(recorded.outputs.back()->bytes());
  }
  for (size_t i = 0; i < recorded.inputs.size(); ++i) {
    if (!signature.inputs[i].donate) continue;
    for (OutputPlan& plan : entry->outputs) {
      if (plan.argument < 0 || plan.output < 0) continue;
      int value = call.args[plan.argument].tensors[std::max(plan.element, 0)].value;
      if (value == static_cast<int>(i) &&
          *recorded.outputs[plan.output] == recorded.inputs[i].shape) {
        recorded.inputs[i].donated_to = plan.output;
      }
    }
  }
  NoteNewSignature(call);
  // A lowering's refusal belongs to the line that called, not to the window's end.
  if (Defers()) ThrowIfError(program::Emit(recorded.Alone()).status());
  return AddEntry(std::move(entry), signature.Hash());
}

void TableOp::PlanOutputs(const IValue* args, Entry* entry) {
  ops::Call& call = entry->recorded.call;
  const char* name = schema_.name.c_str();
  const c10::FunctionSchema& schema = called_.schema();
  auto add = [&](ops::Output output, OutputPlan plan) {
    if (output.shape.dtype != hlo::DType::kInvalid) {
      plan.output = static_cast<int>(entry->recorded.live.size());
      entry->recorded.live.push_back(static_cast<int>(call.outputs.size()));
    }
    call.outputs.push_back(std::move(output));
    entry->outputs.push_back(std::move(plan));
  };
  auto fresh = [&](const at::Tensor& meta) {
    ops::Output output{};
    OutputPlan plan;
    if (meta.defined()) {
      output.shape = ShapeOf(meta, name);
      plan.dtype = meta.dtype();
      plan.sizes.assign(meta.sizes().begin(), meta.sizes().end());
      plan.contiguous = meta.is_contiguous() || !meta.is_non_overlapping_and_dense();
      if (!plan.contiguous) {
        plan.strides.assign(meta.strides().begin(), meta.strides().end());
        output.storage_order = StorageOrder(meta.sizes(), meta.strides());
      }
      plan.bytes = static_cast<size_t>(meta.numel()) * meta.itemsize();
    }
    add(std::move(output), std::move(plan));
  };

  // 1. The returns of the overload as called: checks, fresh tensors, and which arguments come back.
  std::vector<IValue> returns = RunMeta(called_, args, plans_.size());
  for (size_t r = 0; r < returns.size(); ++r) {
    const c10::AliasInfo* alias = schema.returns()[r].alias_info();
    ReturnPlan plan{ReturnPlan::Kind::kConstant, static_cast<int>(entry->outputs.size()), 1, {}};
    if (alias != nullptr && alias->isWrite()) {
      plan.kind = ReturnPlan::Kind::kArgument;
      plan.index = ArgumentOfAlias(schema, *alias);
    } else if (returns[r].isTensor()) {
      plan.kind = ReturnPlan::Kind::kFresh;
      fresh(returns[r].toTensor());
    } else if (returns[r].isTensorList()) {
      plan.kind = ReturnPlan::Kind::kFreshList;
      std::vector<at::Tensor> list = FlattenTensors({returns[r]});
      plan.count = static_cast<int>(list.size());
      for (const at::Tensor& tensor : list) fresh(tensor);
    } else {
      plan.constant = returns[r];
    }
    entry->returns.push_back(std::move(plan));
  }

  // 2. The written arguments. A twin's results are those of the functional overload.
  std::vector<at::Tensor> results;
  if (functional_) {
    results = FlattenTensors(RunMeta(*functional_, args, functional_->schema().arguments().size()));
  }
  size_t written = 0;
  auto write = [&](const at::Tensor& tensor, int argument, int element) {
    ops::Output output{};
    hlo::Shape own = ShapeOf(tensor, name);
    if (functional_) {
      TORCH_CHECK(written < results.size(), "[", name, "] writes more tensors than ",
                  functional_->operator_name(), " returns");
      // Not every meta kernel checks this for its in-place and out= forms.
      TORCH_CHECK(c10::canCast(results[written].scalar_type(), tensor.scalar_type()), "[", name,
                  "] result type ", results[written].scalar_type(),
                  " can't be cast to the desired output type ", tensor.scalar_type());
      output.shape = ShapeOf(results[written], name);
      if (output.shape.dtype != own.dtype) output.stored = own.dtype;
    } else {
      output.shape = own;
    }
    ++written;
    if (CoversStorage(*tensor.unsafeGetTensorImpl())) {
      output.storage_order = StorageOrder(tensor.sizes(), tensor.strides());
    } else {
      output.written = call.args[argument].tensors[std::max(element, 0)];
    }
    OutputPlan plan;
    plan.argument = argument;
    plan.element = element;
    add(std::move(output), std::move(plan));
  };
  for (size_t i = 0; i < plans_.size(); ++i) {
    if (!plans_[i].written || args[i].isNone()) continue;
    if (args[i].isTensor()) {
      if (args[i].toTensor().defined()) write(args[i].toTensor(), static_cast<int>(i), -1);
    } else {
      int element = 0;
      for (const IValue& v : args[i].toListRef())
        write(v.toTensor(), static_cast<int>(i), element++);
    }
  }
}

const program::CompiledProgram& TableOp::Compiled(const Entry& entry, pjrt::Device* dev) const {
  program::CompiledProgram* program = entry.program.load(std::memory_order_acquire);
  if (program != nullptr && program->executable(dev->index()) != nullptr) [[likely]] {
    return *program;
  }
  program::Key key;
  key.words = entry.recorded.words;
  key.hash = HashWords(key.words.data(), key.words.size());
  auto record = [&]() -> StatusOr<program::Program> { return entry.recorded.Alone(); };
  std::string line = program::Explain::CurrentLine();
  program::Outcome outcome;
  Ref<program::CompiledProgram> made =
      device::ValueOrThrow(program::ProgramCache::Get().Find(key, dev, record, line));
  if (program::Explain::on()) {
    program::Explain::Add({CurrentMode() == Mode::kDebug ? "debug" : "strict",
                           outcome.name(),
                           1,
                           static_cast<int>(entry.recorded.inputs.size()),
                           static_cast<int>(entry.recorded.live.size()),
                           outcome.milliseconds(),
                           {{schema_.name, 1}},
                           line,
                           line});
  }
  // Entries live for the process, and so do their programs.
  if (program == nullptr && entry.program.compare_exchange_strong(program, made.get()))
    made->AddRef();
  return *made;
}

TableOp::Values TableOp::Launch(const Entry& entry, Signature& signature, pjrt::Device* dev) const {
  const program::CompiledProgram& program = Compiled(entry, dev);
  RawOutputs raw = Execute(program, signature, dev);
  if (program.num_results() > program.outputs().size()) [[unlikely]] {
    CheckBounds(program, raw.data() + program.outputs().size(), dev);
  }
  Values values;
  for (size_t i = 0; i < program.outputs().size(); ++i) {
    values.push_back(TakeOutput(program, raw, static_cast<int>(i), dev));
  }
  if (!values.empty()) device::Timeline::Of(dev->index()).Launched(values[0]);
  if (CurrentMode() == Mode::kDebug) [[unlikely]] {
    for (const Ref<program::Value>& value : values) {
      ThrowIfError(value->Await().Annotate("[" + schema_.name + "] "));
    }
  }
  return values;
}

TableOp::Values TableOp::Defer(const Entry& entry, Signature& signature, pjrt::Device* dev) const {
  PlaceNumbers(&signature, dev);
  c10::SmallVector<Ref<program::Value>, 8> inputs;
  for (CallInput& input : signature.inputs) inputs.push_back(std::move(input.value));
  Values values(entry.recorded.outputs.size());
  ThrowIfError(
      program::Window::Of(dev).Record(&entry.recorded, inputs.data(), InBackward(), values.data()));
  return values;
}

void TableOp::Deliver(const Entry& entry, int dev, Values values, torch::jit::Stack* stack) const {
  const size_t first = stack->size() - plans_.size();
  c10::SmallVector<at::Tensor, 4> fresh;
  for (const OutputPlan& plan : entry.outputs) {
    if (plan.output < 0) {
      fresh.emplace_back();
    } else if (plan.argument >= 0) {
      const IValue& v = (*stack)[first + plan.argument];
      const IValue& target = plan.element >= 0 ? v.toListRef()[plan.element] : v;
      device::SlotOf(*target.unsafeToTensorImpl()).Set(std::move(values[plan.output]));
      fresh.emplace_back();  // keeps positions
    } else {
      fresh.push_back(Wrap(std::move(values[plan.output]), dev, plan));
    }
  }

  c10::SmallVector<IValue, 4> results;
  for (const ReturnPlan& plan : entry.returns) {
    switch (plan.kind) {
      case ReturnPlan::Kind::kFresh: results.emplace_back(std::move(fresh[plan.index])); break;
      case ReturnPlan::Kind::kFreshList: {
        c10::List<at::Tensor> list;
        for (int i = 0; i < plan.count; ++i) list.push_back(std::move(fresh[plan.index + i]));
        results.emplace_back(std::move(list));
        break;
      }
      case ReturnPlan::Kind::kArgument: results.push_back((*stack)[first + plan.index]); break;
      case ReturnPlan::Kind::kConstant: results.push_back(plan.constant); break;
    }
  }
  stack->resize(first);
  for (IValue& result : results) stack->push_back(std::move(result));
}

void TableOp::CheckBounds(const program::CompiledProgram& program, PJRT_Buffer* const* extremes,
                          pjrt::Device* dev) const {
  // Owns all of them first, so that none leaks when one is out of bounds.
  std::vector<pjrt::Buffer> buffers;
  for (size_t i = 0; i < 2 * program.checks().size(); ++i) {
    buffers.emplace_back(dev, extremes[i], sizeof(int64_t));
  }
  for (size_t i = 0; i < program.checks().size(); ++i) {
    const ops::BoundsCheck& check = program.checks()[i];
    int64_t range[2];
    for (int k = 0; k < 2; ++k) {
      pjrt::Event event =
          device::ValueOrThrow(buffers[2 * i + k].ToHost(&range[k], sizeof(int64_t)));
      ThrowIfError(event.Await());
    }
    int64_t low = check.wrap ? -check.bound : 0;
    int64_t bad = range[0] < low ? range[0] : range[1];
    TORCH_CHECK_INDEX(range[0] >= low && range[1] < check.bound, "[", schema_.name, "] index ", bad,
                      " of argument ", check.argument, " is out of bounds for size ", check.bound,
                      ": expected a value in [", low, ", ", check.bound - 1, "]");
  }
}

std::vector<at::Tensor> RunDirect(const char* op, const std::vector<DirectArg>& args) {
  const ops::OpDef* def = ops::FindOp(op);
  TORCH_CHECK(def != nullptr, "no row named ", op, " in the op table");
  std::vector<ArgPlan> plans;
  std::vector<IValue> values;
  auto schema = std::make_shared<ops::Schema>();
  schema->name = op;
  uint64_t id = 0;
  for (const char* c = op; *c != '\0'; ++c) id = id * 131 + static_cast<unsigned char>(*c);
  for (const DirectArg& arg : args) {
    ArgPlan plan;
    plan.name = arg.name;
    plan.kind = arg.value.isNone()     ? ops::ArgKind::kOther
                : arg.value.isTensor() ? ops::ArgKind::kTensor
                : arg.value.isInt()    ? ops::ArgKind::kInt
                                       : ops::ArgKind::kIntList;
    plans.push_back(std::move(plan));
    values.push_back(arg.value);
    schema->args.emplace_back(arg.name);
  }
  Signature signature;
  // Above every row of the table proper: its ids are below 2^58.
  signature.words.push_back(GlobalWord(0));
  signature.words.push_back(id | uint64_t{1} << 63);
  Collect(plans, values.data(), op, &signature);
  Runtime& runtime = Runtime::Require();
  pjrt::Device* dev = runtime.device(signature.device);
  auto record = [&]() -> StatusOr<program::Program> {
    program::Program program;
    program.calls.emplace_back();
    ops::Call& call = program.calls[0];
    call.def = def;
    call.schema = schema.get();
    call.default_dtype = ToHlo(c10::get_default_dtype_as_scalartype());
    call.dot_precision = DotPrecision();
    Record(plans, values.data(), signature, &call.args, &program.inputs);
    return program;
  };
  Ref<program::CompiledProgram> program =
      device::ValueOrThrow(program::ProgramCache::Get().Find(KeyOf(signature), dev, record));
  RawOutputs raw = Execute(*program, signature, dev);
  std::vector<at::Tensor> results;
  for (size_t i = 0; i < program->outputs().size(); ++i) {
    const hlo::Shape& shape = *program->outputs()[i];
    results.push_back(Wrap(TakeOutput(*program, raw, static_cast<int>(i), dev), dev->index(),
                           c10::scalarTypeToTypeMeta(FromHlo(shape.dtype)), shape.dims));
  }
  return results;
}

}  // namespace torch_tpu::eager
