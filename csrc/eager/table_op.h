// SPDX-License-Identifier: Apache-2.0
// The boxed kernel of a table op: one functor per aten overload, which holds its table row, so that
// no call looks anything up by name. A hit runs on the calling thread: signature, entry, execute,
// wrap.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Storage.h>

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "csrc/eager/signature.h"
#include "csrc/program/cache.h"
#include "csrc/program/window.h"

namespace torch_tpu::eager {

// A tensor to make, or a written argument to update, from one program output.
struct OutputPlan {
  int output = -1;  // index among the live outputs; -1: torch returns an undefined tensor
  // Fresh tensors.
  caffe2::TypeMeta dtype;
  c10::SmallVector<int64_t, 5> sizes, strides;
  bool contiguous = true;
  size_t bytes = 0;
  // Written arguments: position, and element for lists (-1: the argument itself).
  int argument = -1, element = -1;
};

// How one schema return is built.
struct ReturnPlan {
  enum class Kind : uint8_t { kFresh, kFreshList, kArgument, kConstant } kind;
  int index = 0;  // first OutputPlan, or the argument's position
  int count = 1;  // of a list
  c10::IValue constant;
};

// What a signature stands for: found on a hit, made on a miss.
struct Entry {
  program::Template recorded;
  // The call alone as a program; made when it first runs at once.
  mutable std::atomic<program::CompiledProgram*> program{nullptr};
  std::vector<OutputPlan> outputs;
  std::vector<ReturnPlan> returns;
};

class TableOp : public c10::OperatorKernel {
 public:
  // `called` is the overload registered; `functional` the overload whose results are written when
  // `called` is an in-place or out= twin of the table's op.
  TableOp(const ops::OpDef* def, const c10::OperatorHandle& called,
          std::optional<c10::OperatorHandle> functional);

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack);

 private:
  using Values = c10::SmallVector<Ref<program::Value>, 4>;

  // Masks and CPU tensors among `indices`; true when that finished the call.
  bool PrepareIndexing(torch::jit::Stack* stack) const;
  Signature Sign(const c10::IValue* args) const;
  const Entry* Miss(const c10::IValue* args, Signature& signature);
  // Makes the entry's plans and the call's outputs from torch's meta kernels.
  void PlanOutputs(const c10::IValue* args, Entry* entry);
  // One value per live output: computed at once, or pending in the window.
  Values Launch(const Entry& entry, Signature& signature, pjrt::Device* device) const;
  Values Defer(const Entry& entry, Signature& signature, pjrt::Device* device) const;
  void Deliver(const Entry& entry, int device, Values values, torch::jit::Stack* stack) const;
  // out= of another size is resized first; true when that happened.
  bool ResizeOut(const c10::IValue* args) const;
  void CheckBounds(const program::CompiledProgram& program, PJRT_Buffer* const* extremes,
                   pjrt::Device* device) const;
  const program::CompiledProgram& Compiled(const Entry& entry, pjrt::Device* device) const;

  const ops::OpDef* def_;
  c10::OperatorHandle called_;
  std::optional<c10::OperatorHandle> functional_;
  ops::Schema schema_;
  std::vector<ArgPlan> plans_;
  uint64_t id_;
  int generator_ = -1;              // position of the Generator argument
  int indices_ = -1, values_ = -1;  // positions in indexing ops
  bool has_out_ = false;
};

// Runs a row of ours that has no aten schema (tpu::...): named tensors and ints in, one new
// row-major tensor per result out, with the sizes and dtypes the lowering gave.
struct DirectArg {
  const char* name;
  c10::IValue value;  // a tensor, None, an int or an int list
};
std::vector<at::Tensor> RunDirect(const char* op, const std::vector<DirectArg>& args);

}  // namespace torch_tpu::eager
