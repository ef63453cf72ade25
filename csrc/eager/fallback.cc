// SPDX-License-Identifier: Apache-2.0
// An op that is not in the table runs on the CPU: counted, and named in one warning. Random,
// factory and view ops never do: they would draw other numbers or lose the alias.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/CPUFallback.h>
#include <torch/library.h>

#include <mutex>
#include <set>
#include <string>

#include "csrc/base/counters.h"
#include "csrc/base/env.h"

namespace torch_tpu::eager {
namespace {

std::string NameOf(const c10::OperatorHandle& op) {
  const c10::OperatorName& name = op.operator_name();
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

void Refuse(const c10::OperatorHandle& op, const std::string& name) {
  const c10::FunctionSchema& schema = op.schema();
  const char* kind = nullptr;
  for (const c10::Argument& result : schema.returns()) {
    if (result.alias_info() && !result.alias_info()->isWrite()) kind = "a view";
  }
  for (c10::Argument const& argument : schema.arguments()) {
    if (argument.name() == "generator") kind = "a random";
  }
  TORCH_CHECK_NOT_IMPLEMENTED(
      kind == nullptr, "[", name, "] is ", kind,
      " op without a tpu kernel, and running it on the CPU would give ",
      kind != nullptr && kind[2] == 'v' ? "the wrong alias" : "another random stream",
      ". Try: tensor.cpu() before it, explicitly.");
}

void Warn(const std::string& name) {
  static std::mutex mutex;
  static auto* seen = new std::set<std::string>();
  std::lock_guard<std::mutex> lock(mutex);
  if (!seen->insert(name).second) return;
  TORCH_WARN("tpu: ", name,
             " has no tpu kernel and runs on the CPU, with a copy there and back. "
             "This warning comes once per op; torch.tpu.metrics()['fallbacks'] counts the calls. "
             "TORCH_TPU_FALLBACK=error makes it an error.");
}

void Fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  std::string name = NameOf(op);
  Refuse(op, name);
  static const std::string policy = GetEnv("TORCH_TPU_FALLBACK");
  TORCH_CHECK_NOT_IMPLEMENTED(
      policy != "error", "[", name,
      "] has no tpu kernel, and "
      "TORCH_TPU_FALLBACK=error forbids running it on the CPU. Try: unset the "
      "variable.");
  CountFallback(name);
  if (policy != "silent") Warn(name);
  at::native::cpu_fallback(op, stack);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&Fallback>());
}

}  // namespace
}  // namespace torch_tpu::eager
