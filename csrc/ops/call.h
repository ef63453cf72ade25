// SPDX-License-Identifier: Apache-2.0
// One recorded call of a table op, free of torch types: what the eager layer hands to programs and
// lowerings.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "csrc/hlo/type.h"

namespace torch_tpu::ops {

using hlo::Dims;
using hlo::DType;
using hlo::Shape;

struct OpDef;

// How a tensor sees its storage's value: an as_strided over the value's row-major bytes.
struct View {
  Shape base;                     // the value in the slot, as it was produced
  DType dtype = DType::kInvalid;  // what the tensor calls the bytes
  Dims sizes, strides;            // in elements of dtype
  int64_t offset = 0;             // in elements of dtype
  bool conj = false, neg = false;
  // Offset 0, row-major, same dtype and sizes as base: reads and writes are the value itself.
  bool identity() const;
};

enum class ArgKind : uint8_t {
  kNone,  // None, or an undefined tensor
  kTensor,
  kTensorList,  // elements may be absent (index of -1)
  kScalar,      // a run-time number: 0-dim CPU tensor, Python number, Scalar, float argument
  kScalarList,  // Scalar[]: run-time numbers
  kInt,
  kBool,
  kDouble,  // constants
  kIntList,
  kBoolList,
  kDoubleList,
  kString,
  kDType,
  kOther,  // Device, Layout, Generator, MemoryFormat ...: not visible to lowerings
};

struct TensorArg {
  int value = -1;  // index into the program's values; -1: absent
  View view;
};

struct ScalarArg {
  int value = -1;  // index of the rank-0 program value that carries it
  // torch's dtype for it: kF64, kS64, kPred, kC128 for numbers; a 0-dim tensor's own.
  DType dtype = DType::kInvalid;
  bool wrapped = true;  // a Python number: does not take part in promotion within its category
};

struct Arg {
  ArgKind kind = ArgKind::kNone;
  std::vector<TensorArg> tensors;
  std::vector<ScalarArg> scalars;
  std::vector<int64_t> ints;    // kInt, kBool, kIntList, kBoolList
  std::vector<double> doubles;  // kDouble, kDoubleList
  std::string string;
  DType dtype = DType::kInvalid;
};

// The schema's argument names, kept once per op.
struct Schema {
  std::vector<std::string> args;
  std::string name;  // as called, for messages
};

struct Output {
  // Logical sizes and dtype of the tensor. kInvalid: torch returns an undefined tensor here, and
  // the block may return an absent Value.
  Shape shape;
  // A fresh result: dims in storage order (row-major of the transposed value). Empty: identity.
  Dims storage_order;
  // The dtype the stored value gets when it differs from shape.dtype (out= of another dtype).
  DType stored = DType::kInvalid;
  // Written through a view that does not cover its slot: where. The new slot value is the output.
  TensorArg written;
};

struct Call {
  const OpDef* def = nullptr;
  const Schema* schema = nullptr;
  std::vector<Arg> args;
  std::vector<Output> outputs;
  int rng = -1;  // program value index of the u64[2] {seed, offset}; -1: none
  DType default_dtype = DType::kF32;
  const char* dot_precision = "HIGHEST";  // XLA's precision of f32 dots and convolutions
  bool check_bounds = false;              // debug mode: CheckBounds adds outputs
};

}  // namespace torch_tpu::ops
