// SPDX-License-Identifier: Apache-2.0
// Operator syntax and short names over the Builder; builder.h includes it.
#pragma once

#include "csrc/hlo/builder.h"

namespace torch_tpu::hlo {

// Same dtype on both sides; a rank-0 side is broadcast. A C++ number takes the other side's dtype.
Value operator+(Value a, Value b);
Value operator-(Value a, Value b);
Value operator*(Value a, Value b);
Value operator/(Value a, Value b);  // integers: truncates
Value operator-(Value x);
Value operator+(Value a, double b);
Value operator-(Value a, double b);
Value operator*(Value a, double b);
Value operator/(Value a, double b);
Value operator+(double a, Value b);
Value operator-(double a, Value b);
Value operator*(double a, Value b);
Value operator/(double a, Value b);
Value operator&(Value a, Value b);  // integers and i1
Value operator|(Value a, Value b);
Value operator^(Value a, Value b);
Value operator~(Value x);
// Comparisons give i1.
Value operator<(Value a, Value b);
Value operator<=(Value a, Value b);
Value operator>(Value a, Value b);
Value operator>=(Value a, Value b);
Value Eq(Value a, Value b);
Value Ne(Value a, Value b);
Value Eq(Value a, double b);
Value Ne(Value a, double b);
Value operator<(Value a, double b);
Value operator<=(Value a, double b);
Value operator>(Value a, double b);
Value operator>=(Value a, double b);

// Short names for the common elementwise ops.
Value Abs(Value x);
Value Sign(Value x);
Value Exp(Value x);
Value Expm1(Value x);
Value Log(Value x);
Value Log1p(Value x);
Value Sqrt(Value x);
Value Rsqrt(Value x);
Value Sin(Value x);
Value Cos(Value x);
Value Tanh(Value x);
Value Logistic(Value x);
Value Floor(Value x);
Value Ceil(Value x);
Value RoundEven(Value x);
Value Erf(Value x);
Value IsNan(Value x);     // i1; false for non-floats
Value IsFinite(Value x);  // i1; true for non-floats
Value Pow(Value a, Value b);
Value Rem(Value a, Value b);  // sign of the dividend (C fmod)
Value Max(Value a, Value b);  // NaN wins, as torch.maximum
Value Min(Value a, Value b);
Value Select(Value pred, Value on_true, Value on_false);
Value Convert(Value x, DType dtype);
Value Reshape(Value x, const Dims& dims);
Value Transpose(Value x, const Dims& permutation);
Value BroadcastTo(Value x, const Dims& dims);
// Constants shaped and typed like x.
Value Like(Value x, double value);
Value ZerosLike(Value x);
Value OnesLike(Value x);
// Sums and extrema over dims; accumulates f16/bf16 in f32 and gives f32 then (the caller rounds
// once).
Value Sum(Value x, const Dims& dims, bool keepdim = false);
Value MaxReduce(Value x, const Dims& dims, bool keepdim = false);  // NaN wins
Value MinReduce(Value x, const Dims& dims, bool keepdim = false);
Value AllReduceAnd(Value pred, const Dims& dims, bool keepdim = false);
Value AnyReduceOr(Value pred, const Dims& dims, bool keepdim = false);
// Puts back dims of size 1 that a reduction dropped.
Value Unsqueeze(Value x, const Dims& dims);  // positions in the result

}  // namespace torch_tpu::hlo
