// SPDX-License-Identifier: Apache-2.0
// The signature of one call: the key's words and the run-time inputs, gathered in one walk over the
// boxed arguments without strings and, for ordinary calls, without allocation.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <vector>

#include "csrc/base/hash.h"
#include "csrc/hlo/type.h"
#include "csrc/ops/op.h"
#include "csrc/program/program.h"
#include "csrc/program/scalars.h"
#include "csrc/program/value.h"

namespace torch_tpu::eager {

// What a schema argument is to the key and to the lowering; derived once per op.
struct ArgPlan {
  ops::ArgKind kind = ops::ArgKind::kOther;  // of a present argument
  bool read = true;                          // out= arguments are not read
  bool written = false;
  bool constant = false;  // a number whose value is part of the key
  std::string name;
};
// `constants` and `writes` name arguments (ops::Options).
std::vector<ArgPlan> PlanArguments(const c10::FunctionSchema& schema, const ops::Options& options);

// A value that the program takes: a tensor's storage, zeros for storage never written, or a number.
struct CallInput {
  Ref<program::Value> value;  // null for zeros, and for numbers until Resolve
  hlo::DType number = hlo::DType::kInvalid;
  program::ScalarBits bits;
  bool donate = false;
  uint32_t word = 0;  // of a tensor: where its flags are
  bool zeros() const { return number == hlo::DType::kInvalid && !value; }
};

// The bit in a tensor's first word that says it is donated.
inline constexpr uint64_t kDonateWord = uint64_t{4} << 24;

struct Signature {
  c10::SmallVector<uint64_t, 96> words;
  c10::SmallVector<CallInput, 6> inputs;  // in program order
  int device = -1;
  bool may_donate = true;  // a window decides itself, when it closes

  Hash128 Hash() const { return HashWords(words.data(), words.size()); }
};

// Appends the arguments to the signature. Throws torch's error when tensors are on several devices.
void Collect(const std::vector<ArgPlan>& plans, const c10::IValue* args, const char* op,
             Signature* signature);

// The same arguments for the lowering, with the program inputs that the signature's describe. On a
// miss only, right after Collect.
void Record(const std::vector<ArgPlan>& plans, const c10::IValue* args, const Signature& signature,
            std::vector<ops::Arg>* recorded, std::vector<program::Input>* inputs);

// How a tensor sees the value in its slot (null value: zeros of the slot's size).
ops::View ViewOf(const c10::TensorImpl& tensor, const program::Value* value);
// True when the tensor is its whole storage, dense in some order of its dims: a write replaces the
// value.
bool CoversStorage(const c10::TensorImpl& tensor);
// Dims from outermost to innermost in storage; empty when row-major.
hlo::Dims StorageOrder(c10::IntArrayRef sizes, c10::IntArrayRef strides);

}  // namespace torch_tpu::eager
