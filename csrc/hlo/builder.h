// SPDX-License-Identifier: Apache-2.0
// Writes one StableHLO module, op by op, as text. Every call infers its result type and checks its
// operands, so that a plugin's parser never sees bad text; a mistake throws hlo::Error. Only what
// StableHLO 1.13 and its CHLO know.
//
// Not thread safe: one Builder belongs to one thread. Values are handles into their Builder and
// die with it. A Builder may hand out values of nested regions; using one outside its region
// throws.
#pragma once

#include <functional>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "csrc/hlo/type.h"

namespace torch_tpu::hlo {

// A lowering or builder mistake, or a case a lowering does not cover. Caught by ops::Lower.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Builder;

// An SSA value. Cheap to copy. A default-made one is "absent".
class Value {
 public:
  Value() = default;
  explicit operator bool() const { return builder_ != nullptr; }
  const Shape& shape() const;
  DType dtype() const { return shape().dtype; }
  const Dims& dims() const { return shape().dims; }
  int rank() const { return shape().rank(); }
  int64_t dim(int i) const;  // negative counts from the end
  int64_t numel() const { return shape().numel(); }
  Builder& builder() const { return *builder_; }
  int id() const { return id_; }

 private:
  friend class Builder;
  Value(Builder* builder, int id) : builder_(builder), id_(id) {}
  Builder* builder_ = nullptr;
  int id_ = -1;
};

using Values = std::vector<Value>;
// A region's body: block arguments in, yielded values out.
using Body = std::function<Values(const Values&)>;

enum class Direction { kEq, kNe, kLt, kLe, kGt, kGe };

struct DotDims {
  Dims lhs_batch, rhs_batch, lhs_contract, rhs_contract;
};

struct ConvDims {
  // Input NC+spatial, kernel OI+spatial, output NC+spatial by default (torch's order).
  Dims strides, pad_low, pad_high, lhs_dilation, rhs_dilation;
  int64_t feature_groups = 1, batch_groups = 1;
  // Positions of (batch, feature, spatial...), (output feature, input feature, spatial...),
  // (batch, feature, spatial...). Empty: torch's order.
  Dims input, kernel, output;
  std::vector<bool> reversed;  // window reversal per spatial dimension; empty: none
};

struct GatherDims {
  Dims offset_dims, collapsed_slice_dims, operand_batching_dims, start_indices_batching_dims;
  Dims start_index_map;
  int64_t index_vector_dim = 0;
  Dims slice_sizes;
  bool indices_are_sorted = false;
};

struct ScatterDims {
  Dims update_window_dims, inserted_window_dims, input_batching_dims, scatter_indices_batching_dims;
  Dims scatter_dims_to_operand_dims;
  int64_t index_vector_dim = 0;
  bool indices_are_sorted = false, unique_indices = false;
};

struct Window {  // one entry per operand dimension; empty vectors mean ones (sizes: required) or
                 // zeros (pads)
  Dims sizes, strides, base_dilations, window_dilations, pad_low, pad_high;
};

class Builder {
 public:
  explicit Builder(std::string module_name = "program");
  ~Builder();
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  // ---- module -------------------------------------------------------------------------------
  // Adds an argument of @main. `aliased_output` >= 0 donates it to that output.
  Value Parameter(const Shape& shape, int aliased_output = -1);
  // Ends @main. Call once.
  void Return(const Values& results);
  // The whole module. Valid after Return.
  std::string Text() const;

  // ---- constants ----------------------------------------------------------------------------
  Value Constant(DType dtype, double value, const Dims& dims = {});      // splat
  Value ConstantInt(DType dtype, int64_t value, const Dims& dims = {});  // splat, exact for 64 bits
  Value ConstantArray(DType dtype, const std::vector<int64_t>& values);  // 1-D integers or bools
  Value Iota(DType dtype, const Dims& dims, int dim);
  // The type's neutral elements, splat to `dims`. For floats: -inf, +inf.
  Value MinValue(DType dtype, const Dims& dims = {});
  Value MaxValue(DType dtype, const Dims& dims = {});

  // ---- elementwise (named by StableHLO / CHLO op) ---------------------------------------------
  // `op` is the mnemonic with dialect: "stablehlo.exponential", "chlo.erf". Same shape and dtype
  // out unless the op says otherwise (is_finite, real, imag, abs of complex, chlo.is_inf ...).
  Value Unary(std::string_view op, Value x);
  // Operands must agree in shape and dtype; a rank-0 operand is broadcast.
  Value Binary(std::string_view op, Value a, Value b);
  Value Compare(Value a, Value b,
                Direction direction);  // floats: IEEE (NaN compares false, kNe true)
  Value Select(Value pred, Value on_true, Value on_false);  // pred may be rank 0; branches too
  Value Clamp(Value lo, Value x, Value hi);
  Value Convert(Value x, DType dtype);  // value conversion; float->int truncates; to i1 means != 0
  Value BitcastConvert(Value x,
                       DType dtype);  // StableHLO rule: a width change adds/removes the last dim
  Value ReducePrecision(Value x, int exponent_bits, int mantissa_bits);
  Value Complex(Value re, Value im);

  // ---- shape ----------------------------------------------------------------------------------
  Value Reshape(Value x, const Dims& dims);           // no-op when equal
  Value Transpose(Value x, const Dims& permutation);  // no-op when identity
  Value BroadcastInDim(Value x, const Dims& dims, const Dims& broadcast_dimensions);
  Value BroadcastTo(Value x, const Dims& dims);  // numpy rule: aligns trailing dims
  Value Slice(Value x, const Dims& start, const Dims& limit, const Dims& strides = {});
  Value SliceDim(Value x, int dim, int64_t start, int64_t limit, int64_t stride = 1);
  Value DynamicSlice(Value x, const Values& starts, const Dims& sizes);  // starts: rank-0 integers
  Value DynamicUpdateSlice(Value x, Value update, const Values& starts);
  Value Pad(Value x, Value padding, const Dims& low, const Dims& high, const Dims& interior = {});
  Value Concatenate(const Values& xs, int dim);
  Value Reverse(Value x, const Dims& dims);
  Value Gather(Value operand, Value indices, const GatherDims& dims);
  // `combiner(old, update)`; empty body overwrites.
  Value Scatter(Value operand, Value indices, Value updates, const ScatterDims& dims,
                const Body& combiner = nullptr);

  // ---- reductions and windows -------------------------------------------------------------------
  // `op` is a binary mnemonic ("stablehlo.add"); result drops `dims`.
  Value Reduce(std::string_view op, Value x, Value init, const Dims& dims);
  // Variadic: body takes 2n rank-0 values (accumulators, elements), yields n.
  Values Reduce(const Values& xs, const Values& inits, const Dims& dims, const Body& body);
  Value ReduceWindow(std::string_view op, Value x, Value init, const Window& window);
  Values ReduceWindow(const Values& xs, const Values& inits, const Window& window,
                      const Body& body);
  Value SelectAndScatter(Value operand, Value source, Value init, const Window& window,
                         Direction select, std::string_view scatter_op);
  // Stable when asked. `less` takes 2n values (a0, b0, a1, b1, ...) and yields one i1.
  Values Sort(const Values& xs, int dim, bool stable, const Body& less);

  // ---- contractions
  // ------------------------------------------------------------------------------ Emitted
  // canonically: explicit transposes so that batch dims lead, lhs contracts its last dim and rhs
  // its first non-batch one. Result [batch..., lhs free..., rhs free...] of type `result`
  // (kInvalid: f32 accumulation for f16/bf16, rounded back to the operands' type).
  // f32 operands are multiplied at `precision` "HIGHEST" unless SetDotPrecision says otherwise.
  Value Dot(Value lhs, Value rhs, const DotDims& dims, DType result = DType::kInvalid);
  Value Convolution(Value input, Value kernel, const ConvDims& dims,
                    DType result = DType::kInvalid);
  // "DEFAULT", "HIGH" or "HIGHEST" for the dots and convolutions that follow (f32 operands only).
  void SetDotPrecision(std::string_view precision);

  // ---- control, linear algebra, the rest
  // -----------------------------------------------------------
  Values While(const Values& init, const Body& condition, const Body& body);
  Values If(Value pred, const std::function<Values()>& on_true,
            const std::function<Values()>& on_false);
  Values Case(Value index, const std::vector<std::function<Values()>>& branches);
  Value Cholesky(Value x, bool lower);
  Value TriangularSolve(Value a, Value b, bool left_side, bool lower, bool unit_diagonal,
                        std::string_view transpose_a);  // "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"
  Value Fft(Value x, std::string_view type, const Dims& lengths);  // "FFT","IFFT","RFFT","IRFFT"
  Values OptimizationBarrier(const Values& xs);
  Values CustomCall(std::string_view target, const Values& operands,
                    const std::vector<Shape>& results,
                    std::string_view attributes);  // attributes: generic-form text, may be empty

 private:
  friend class Value;
  struct Impl;
  Impl* impl_;
};

}  // namespace torch_tpu::hlo

#include "csrc/hlo/operators.h"  // a Value is of little use without its operators
