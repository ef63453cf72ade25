// SPDX-License-Identifier: Apache-2.0
#include "csrc/program/window.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "csrc/base/counters.h"

namespace torch_tpu::program {
namespace {

constexpr int32_t kZerosOperand = INT32_MIN;
// Length of the run of ops whose hash marks a place in the stream.
constexpr size_t kContext = 16;
constexpr uint64_t kBase = 0x9E3779B97F4A7C15ull;
constexpr size_t kMaxAnchors = 1024;
// Below this a donated buffer saves nothing.
constexpr int64_t kMinDonatedBytes = (1 << 20) + 1;

std::array<std::atomic<int64_t>, static_cast<size_t>(CloseReason::kCount)> flushes{};
std::atomic<void (*)(const Ref<Value>&)> launch_hook{nullptr};

std::array<std::atomic<Window*>, CompiledProgram::kMaxDevices>& Windows() {
  static auto* windows = new std::array<std::atomic<Window*>, CompiledProgram::kMaxDevices>();
  return *windows;
}

uint64_t PowBase(size_t n) {
  uint64_t power = 1;
  for (size_t i = 0; i < n; ++i) power *= kBase;
  return power;
}

// Moves a template's value numbers to the window's.
void Renumber(ops::Call* call, const std::vector<int>& number) {
  for (ops::Arg& arg : call->args) {
    for (ops::TensorArg& tensor : arg.tensors) {
      if (tensor.value >= 0) tensor.value = number[tensor.value];
    }
    for (ops::ScalarArg& scalar : arg.scalars) scalar.value = number[scalar.value];
  }
  for (ops::Output& output : call->outputs) {
    if (output.written.value >= 0) output.written.value = number[output.written.value];
  }
  if (call->rng >= 0) call->rng = number[call->rng];
}

}  // namespace

Program Template::Alone() const {
  Program program;
  program.inputs = inputs;
  program.calls = {call};
  for (int position : live) {
    program.outputs.push_back(static_cast<int>(inputs.size()) + position);
  }
  return program;
}

Window& Window::Of(pjrt::Device* device) {
  std::atomic<Window*>& place = Windows()[device->index()];
  Window* window = place.load(std::memory_order_acquire);
  if (window != nullptr) [[likely]]
    return *window;
  auto* fresh = new Window(device);
  if (place.compare_exchange_strong(window, fresh)) return *fresh;
  delete fresh;
  return *window;
}

Status Window::CloseIfOpen(int device, CloseReason reason) {
  Window* window = Windows()[device].load(std::memory_order_acquire);
  return window == nullptr ? OkStatus() : window->Close(reason);
}

void Window::SetLaunchHook(void (*hook)(const Ref<Value>&)) { launch_hook.store(hook); }

std::map<std::string, int64_t> Window::Flushes() {
  std::map<std::string, int64_t> counts;
  for (size_t i = 0; i < flushes.size(); ++i) {
    int64_t n = flushes[i].load(std::memory_order_relaxed);
    if (n > 0) counts[CloseReasonName(static_cast<CloseReason>(i))] = n;
  }
  return counts;
}

void Window::ResetFlushes() {
  for (auto& count : flushes) count.store(0, std::memory_order_relaxed);
}

int Window::External(const Ref<Value>& value) {
  Value* v = value.get();
  if (v->window_ == serial_) return v->number_;
  int number = -1 - static_cast<int>(externals_.size());
  v->window_ = serial_;
  v->number_ = number;
  externals_.push_back(value);
  return number;
}

bool Window::CutBefore(const Template* next, CloseReason* reason) {
  static const WindowLimits limits;
  int n = static_cast<int>(nodes_.size());
  bool cut = false;
  if (n >= limits.max_ops) {
    *reason = CloseReason::kSize;
    cut = true;
  } else if (bytes_ > limits.max_bytes) {
    *reason = CloseReason::kBytes;
    cut = true;
  } else if (recorded_ >= kContext && n > 0) {
    // The same context as at an earlier cut, or as earlier in this window: cut here again.
    bool known = std::find(anchors_.begin(), anchors_.end(), rolling_) != anchors_.end();
    auto [place, first] = seen_.try_emplace(rolling_, n);
    if (n >= limits.min_repeat && (known || (!first && n - place->second >= limits.min_repeat))) {
      *reason = CloseReason::kRepeat;
      cut = true;
    }
  }
  // A cut by size or bytes is one to come back to: otherwise the windows of the next step would lie
  // elsewhere.
  if (cut && std::find(anchors_.begin(), anchors_.end(), rolling_) == anchors_.end()) {
    if (anchors_.size() >= kMaxAnchors) anchors_.clear();
    anchors_.push_back(rolling_);
  }
  static const uint64_t kDrop = PowBase(kContext);
  uint64_t hash = reinterpret_cast<uintptr_t>(next) * 0xD6E8FEB86659FD93ull;
  uint64_t& oldest = recent_[recorded_ % kContext];
  rolling_ = rolling_ * kBase + hash - oldest * kDrop;
  oldest = hash;
  ++recorded_;
  return cut;
}

Status Window::Record(const Template* call, const Ref<Value>* inputs, bool continues,
                      Ref<Value>* outputs) {
  // Before the lock: finding the line takes the GIL, which a thread that waits for us may hold.
  std::string line = Explain::on() ? Explain::CurrentLine() : std::string();
  std::lock_guard<std::mutex> lock(mutex_);
  std::thread::id self = std::this_thread::get_id();
  if (owner_ != self && !continues) {
    if (!nodes_.empty()) TT_RETURN_IF_ERROR(CloseLocked(CloseReason::kOtherThread));
    owner_ = self;
  }
  CloseReason reason;
  if (CutBefore(call, &reason) && !nodes_.empty()) TT_RETURN_IF_ERROR(CloseLocked(reason));

  if (!line.empty()) [[unlikely]] {
    lines_.resize(nodes_.size());
    lines_.push_back(std::move(line));
  }
  nodes_.push_back(
      {call, static_cast<uint32_t>(operands_.size()), static_cast<uint32_t>(values_.size())});
  words_.push_back(reinterpret_cast<uintptr_t>(call));
  for (size_t i = 0; i < call->inputs.size(); ++i) {
    int32_t operand = kZerosOperand;
    if (call->inputs[i].kind == Input::Kind::kArgument) {
      Value* value = inputs[i].get();
      switch (value->state_.load(std::memory_order_acquire)) {
        case Value::State::kPending: operand = value->number_; break;
        case Value::State::kReady: operand = External(inputs[i]); break;
        case Value::State::kFailed: {
          Status failed = *value->error_;
          nodes_.pop_back();
          words_.resize(words_.size() - 1 - i);
          operands_.resize(operands_.size() - i);
          return failed;
        }
      }
    }
    operands_.push_back(operand);
    words_.push_back(static_cast<uint64_t>(static_cast<uint32_t>(operand)));
  }
  for (size_t k = 0; k < call->outputs.size(); ++k) {
    auto* value = new Value(call->outputs[k], call->bytes[k], device_);
    value->window_ = serial_;
    value->number_ = static_cast<int32_t>(values_.size());
    values_.emplace_back(value);
    outputs[k] = values_.back();
    bytes_ += call->bytes[k];
  }
  return OkStatus();
}

Status Window::Close(CloseReason reason) {
  std::lock_guard<std::mutex> lock(mutex_);
  return nodes_.empty() ? OkStatus() : CloseLocked(reason);
}

Status Window::CloseLocked(CloseReason reason) {
  flushes[static_cast<size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
  // Ours is one reference: others mean that somebody may still read the value.
  std::vector<int> live;
  for (size_t i = 0; i < values_.size(); ++i) {
    if (values_[i]->use_count() > 1) live.push_back(static_cast<int>(i));
  }
  // An input that only this window holds gives its buffer to an output of its shape.
  std::vector<int> donated_to(externals_.size(), -1);
  std::vector<bool> taken(live.size(), false);
  for (size_t e = 0; e < externals_.size(); ++e) {
    if (externals_[e]->bytes() < kMinDonatedBytes || externals_[e]->use_count() > 1) continue;
    for (size_t l = 0; l < live.size(); ++l) {
      if (taken[l] || values_[live[l]]->interned_shape() != externals_[e]->interned_shape())
        continue;
      donated_to[e] = static_cast<int>(l);
      taken[l] = true;
      break;
    }
  }
  Outcome outcome;
  Status status = live.empty() ? OkStatus() : Launch(live, donated_to);
  if (Explain::on()) [[unlikely]]
    ExplainClose(reason, live.size(), outcome);
  if (!status.ok()) {
    for (const Ref<Value>& value : values_) {
      if (value->state_.load() != Value::State::kPending) continue;
      value->error_ = std::make_unique<Status>(status);
      value->state_.store(Value::State::kFailed, std::memory_order_release);
    }
  }
  nodes_.clear();
  lines_.clear();
  operands_.clear();
  words_.clear();
  externals_.clear();
  values_.clear();
  seen_.clear();
  bytes_ = 0;
  ++serial_;
  return status;
}

Status Window::Launch(const std::vector<int>& live, const std::vector<int>& donated_to) {
  TT_ASSIGN_OR_RETURN(Ref<CompiledProgram> program, Compiled(live, donated_to));
  std::vector<PJRT_Buffer*> arguments;
  arguments.reserve(externals_.size());
  for (const Ref<Value>& external : externals_) arguments.push_back(external->buffer().raw());
  std::vector<PJRT_Buffer*> outputs(program->num_results());
  TT_RETURN_IF_ERROR(program->executable(device_->index())
                         ->Execute(arguments.data(), arguments.size(), outputs.data()));
  Count(Counter::kExecutions);
  for (size_t l = 0; l < live.size(); ++l) {
    Value& value = *values_[live[l]];
    value.buffer_ = pjrt::Buffer(device_, outputs[l], value.bytes_);
    value.state_.store(Value::State::kReady, std::memory_order_release);
  }
  if (auto hook = launch_hook.load()) hook(values_[live.back()]);
  return OkStatus();
}

StatusOr<Ref<CompiledProgram>> Window::Compiled(const std::vector<int>& live,
                                                const std::vector<int>& donated_to) {
  size_t recorded = words_.size();
  for (int l : live) words_.push_back(static_cast<uint64_t>(l) | uint64_t{1} << 40);
  for (int d : donated_to) words_.push_back(static_cast<uint64_t>(d + 1) | uint64_t{1} << 41);
  uint64_t hash = HashWords(words_.data(), words_.size()).lo;
  std::vector<Plan>& plans = plans_[hash];
  for (const Plan& plan : plans) {
    // ProgramCache::Clear may have taken the executable.
    if (plan.words == words_ && plan.program->executable(device_->index()) != nullptr) {
      Count(Counter::kMemoryHits);
      return plan.program;
    }
  }
  auto record = [&]() -> StatusOr<Program> { return Build(live, donated_to); };
  Ref<CompiledProgram> program;
  TT_ASSIGN_OR_RETURN(program,
                      ProgramCache::Get().Find(ContentKey(live, donated_to), device_, record));
  plans.push_back({words_, program});
  words_.resize(recorded);
  return program;
}

void Window::ExplainClose(CloseReason reason, size_t live, const Outcome& outcome) const {
  ExplainRecord record;
  record.reason = CloseReasonName(reason);
  record.outcome = outcome.name();
  record.milliseconds = outcome.milliseconds();
  record.ops = static_cast<int>(nodes_.size());
  record.inputs = static_cast<int>(externals_.size());
  record.outputs = static_cast<int>(live);
  for (const Node& node : nodes_) {
    const std::string& name = node.call->call.schema->name;
    auto place = std::find_if(record.op_counts.begin(), record.op_counts.end(),
                              [&](const auto& entry) { return entry.first == name; });
    if (place == record.op_counts.end()) {
      record.op_counts.emplace_back(name, 1);
    } else {
      ++place->second;
    }
  }
  for (const std::string& line : lines_) {
    if (line.empty()) continue;
    if (record.first_line.empty()) record.first_line = line;
    record.last_line = line;
  }
  Explain::Add(std::move(record));
}

Program Window::Build(const std::vector<int>& live, const std::vector<int>& donated_to) const {
  Program program;
  for (size_t e = 0; e < externals_.size(); ++e) {
    Input& input = program.inputs.emplace_back();
    input.shape = externals_[e]->shape();
    input.donated_to = donated_to[e];
  }
  // Zeros take a number each, before any call's outputs.
  for (const Node& node : nodes_) {
    for (const Input& input : node.call->inputs) {
      if (input.kind == Input::Kind::kZeros) program.inputs.push_back(input);
    }
  }
  int next_zeros = static_cast<int>(externals_.size());
  int next_value = static_cast<int>(program.inputs.size());
  std::vector<int> number_of_value(values_.size());
  for (const Node& node : nodes_) {
    std::vector<int> number;
    for (size_t i = 0; i < node.call->inputs.size(); ++i) {
      int32_t operand = operands_[node.first_input + i];
      number.push_back(operand == kZerosOperand ? next_zeros++
                       : operand >= 0           ? number_of_value[operand]
                                                : -1 - operand);
    }
    ops::Call call = node.call->call;
    Renumber(&call, number);
    for (size_t k = 0; k < node.call->live.size(); ++k) {
      number_of_value[node.first_output + k] = next_value + node.call->live[k];
    }
    next_value += static_cast<int>(call.outputs.size());
    program.calls.push_back(std::move(call));
  }
  for (int l : live) program.outputs.push_back(number_of_value[l]);
  return program;
}

Key Window::ContentKey(const std::vector<int>& live, const std::vector<int>& donated_to) const {
  constexpr uint64_t kWindowTag = uint64_t{3} << 62;  // no single call's first word looks like it
  Key key;
  key.words = {kWindowTag | nodes_.size()};
  for (const Node& node : nodes_) {
    key.words.push_back(node.call->words.size());
    key.words.insert(key.words.end(), node.call->words.begin(), node.call->words.end());
    for (size_t i = 0; i < node.call->inputs.size(); ++i) {
      key.words.push_back(static_cast<uint32_t>(operands_[node.first_input + i]));
    }
  }
  key.words.push_back(live.size());
  key.words.insert(key.words.end(), live.begin(), live.end());
  for (int d : donated_to) key.words.push_back(static_cast<uint64_t>(d + 1));
  key.hash = HashWords(key.words.data(), key.words.size());
  return key;
}

}  // namespace torch_tpu::program
