// SPDX-License-Identifier: Apache-2.0
// The op table. An op is one adjacent block:
//
//   OP("aten::addcmul") {
//     return x.arg("self") + x.scalar("value") * x.arg("tensor1") * x.arg("tensor2");
//   }
//
// A block names a *functional* overload where aten has one; its in-place and out= twins are found
// by schema and need no block. Ops that exist only as in-place or out= (normal_, arange.start_out,
// _foreach_add_, _fused_adamw_) are named as they are. A block returns the fresh results first, in
// schema order, then the new value of each written argument (each element of a written list).
//
// Generic machinery converts each returned value to the dtype torch's meta kernel gave and checks
// its sizes, so a block may return the compute type (f32 for bf16) and is rounded once.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "csrc/base/status.h"
#include "csrc/hlo/builder.h"
#include "csrc/hlo/type.h"
#include "csrc/ops/call.h"

namespace torch_tpu::ops {

using hlo::Value;
using hlo::Values;

class Lowering;

// What a lowering returns: one value, or one per result.
struct Results : Values {
  Results(Value v) : Values{v} {}                // NOLINT: implicit by design
  Results(Values vs) : Values(std::move(vs)) {}  // NOLINT
  Results(std::initializer_list<Value> vs) : Values(vs) {}
};

using LowerFn = Results (*)(Lowering& x);

// How far an op's result may lie from torch CPU's, for the op suite.
enum class Tolerance : uint8_t {
  kExact,        // bit for bit (data movement, integers, comparisons)
  kElementwise,  // a few ulp (default)
  kAccumulate,   // sums and dots: order of accumulation differs
  kApproximate,  // transcendental approximations, iterative algorithms
  kRandom,       // compare moments, not values
};

struct Options {
  // Scalar or float arguments whose value is part of the key (decides shapes or the lowering).
  std::vector<std::string> constants = {};
  Tolerance tolerance = Tolerance::kElementwise;
  // Uses x.random(): needs a Philox seed and offset as run-time arguments.
  bool random = false;
  // Arguments the op writes although its schema does not say so (native_batch_norm's running_mean).
  std::vector<std::string> writes = {};
  // What the block does not cover, shown in the coverage page; a call outside it throws hlo::Error.
  std::string limitation = "";
};

// One row of the table. Lives for the process.
struct OpDef {
  std::string name;  // "aten::add.Tensor"
  LowerFn lower;
  Options options;
  const char* file;
};

const OpDef* FindOp(std::string_view name);  // null when absent
const std::vector<const OpDef*>& AllOps();   // sorted by name

struct OpRegistration {
  OpRegistration(std::initializer_list<const char*> names, LowerFn lower, const char* file,
                 Options options = {});
};

// ---- what a lowering sees ----------------------------------------------------------------------

struct ArgRef {
  ArgRef(const char* name) : name(name) {}      // NOLINT: implicit by design
  ArgRef(int position) : position(position) {}  // NOLINT
  const char* name = nullptr;
  int position = -1;
};

struct BoundsCheck {
  Value lowest, highest;  // rank-0 s64: extremes of the index
  int64_t bound;          // valid: -bound <= index < bound (wrap) or 0 <= index < bound
  bool wrap;
  std::string argument;
};

// Philox-4x32-10 keyed by the generator's seed and the call's offset, one counter per element.
class Random {
 public:
  explicit Random(Value seed_offset) : state_(seed_offset) {}
  Value state() const { return state_; }
  // Uniform 32-bit words, ui32. `stream` tells apart several draws within one call (0..3: words of
  // the same Philox block, at no extra cost when drawn together by Words).
  Value Bits(const Dims& dims, int stream = 0) const;
  // The four words of each element's block.
  Values Words(const Dims& dims) const;
  // In [0, 1): f32 from 24 bits; f64 from 53.
  Value Uniform(DType dtype, const Dims& dims, int stream = 0) const;
  Value Normal(DType dtype, const Dims& dims) const;  // mean 0, deviation 1 (Box-Muller)

 private:
  Value state_;
};

class Lowering {
 public:
  Lowering(const Call& call, hlo::Builder& builder, const Values& values);

  // ---- tensors
  bool has(ArgRef a) const;                 // not None and defined
  bool takes(std::string_view name) const;  // the overload has such an argument
  ArgKind kind(ArgRef a) const;             // how it arrived: a 0-dim CPU tensor is a kScalar
  Value tensor(
      ArgRef a);  // as passed: own dtype and sizes; a 0-dim number becomes rank 0 of its dtype
  Values tensors(ArgRef a);  // Tensor[]; absent elements are absent Values
  // For pointwise ops. `arg`: converted to the compute type of result 0's dtype (bf16 -> f32) and
  // broadcast to its sizes. `common`: to the compute type of the promoted dtype of all tensor and
  // Scalar arguments (comparisons, logical ops), same broadcast.
  Value arg(ArgRef a);
  Value common(ArgRef a);
  DType common_dtype();  // promoted dtype by torch's rules, before ComputeType
  // ---- run-time numbers: rank 0
  Value scalar(ArgRef a);  // in the compute type of result 0
  Value scalar(ArgRef a, DType dtype);
  Values scalars(ArgRef a, DType dtype);  // Scalar[] / float[] run-time
  DType scalar_dtype(ArgRef a) const;     // kF64, kS64, kPred, kC128 or a 0-dim tensor's own
  // ---- constants
  int64_t integer(ArgRef a) const;
  int64_t integer_or(ArgRef a, int64_t fallback) const;
  bool boolean(ArgRef a) const;
  double number(ArgRef a) const;  // only for arguments in Options::constants
  Dims ints(ArgRef a) const;      // int[] (also a single int)
  std::vector<bool> bools(ArgRef a) const;
  std::string_view string(ArgRef a) const;  // "" when None
  std::optional<DType> dtype(ArgRef a) const;
  // ---- results, as torch's meta kernel gives them
  int num_results() const;
  const Shape& result(int i = 0) const;
  DType compute_type(int i = 0) const { return hlo::ComputeType(result(i).dtype); }
  DType default_dtype() const { return call_.default_dtype; }
  // ---- helpers
  hlo::Builder& builder() { return builder_; }
  // Normalizes a dim argument that may be negative; rank 0 counts as rank 1.
  static int64_t WrapDim(int64_t dim, int64_t rank);
  // dim lists: empty means all dims.
  static Dims WrapDims(const Dims& dims, int64_t rank);
  Random random();
  // Debug mode only: the run checks the index and raises IndexError naming `a` and the bound.
  void CheckBounds(ArgRef a, Value index, int64_t bound, bool wrap = true);
  [[noreturn]] void Unsupported(
      const std::string& what) const;  // throws hlo::Error with the op's name

  const std::vector<BoundsCheck>& bounds_checks() const { return checks_; }
  const Call& call() const { return call_; }

 private:
  const Arg& at(ArgRef a) const;
  int index_of(ArgRef a) const;
  Value Read(const TensorArg& t);
  Value Number(const ScalarArg& s, DType dtype);

  const Call& call_;
  hlo::Builder& builder_;
  const Values& values_;
  std::vector<BoundsCheck> checks_;
  std::vector<std::vector<Value>> read_cache_;
};

// Emits one call: reads its views, lowers it, rounds and checks the results, writes through views.
// Gives the storage values (one per call.outputs) followed by the bounds checks' extremes.
// hlo::Error becomes a Status that names the op.
StatusOr<Values> Lower(const Call& call, hlo::Builder& builder, const Values& values,
                       std::vector<BoundsCheck>* checks = nullptr);

}  // namespace torch_tpu::ops

// OP("aten::neg") { ... }    OP("aten::pow.Tensor_Scalar", {.constants = {"exponent"}}) { ... }
#define OP(name, ...) OPS(({name}), ##__VA_ARGS__)
// OPS(({"aten::eq.Tensor", "aten::eq.Scalar"})) { ... }: one body, several overloads.
#define OPS(names, ...)                                                                        \
  static ::torch_tpu::ops::Results TT_CONCAT(Lower, __LINE__)(::torch_tpu::ops::Lowering & x); \
  static const ::torch_tpu::ops::OpRegistration TT_CONCAT(registration, __LINE__)(             \
      TT_UNPAREN names, &TT_CONCAT(Lower, __LINE__), __FILE__, ##__VA_ARGS__);                 \
  static ::torch_tpu::ops::Results TT_CONCAT(                                                  \
      Lower, __LINE__)([[maybe_unused]] ::torch_tpu::ops::Lowering & x)
#define TT_UNPAREN(...) __VA_ARGS__
