// SPDX-License-Identifier: Apache-2.0
// Philox-4x32-10 (Salmon et al., SC 2011) in integer ops, one counter per element.
#include <array>
#include <cmath>
#include <limits>

#include "csrc/ops/op.h"

namespace torch_tpu::ops {
namespace {

using hlo::Builder;

constexpr int64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
constexpr int64_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;

Value Low(Value v) { return Convert(v, DType::kU32); }

Value High(Value v) {
  Value shift = v.builder().ConstantInt(DType::kU64, 32);
  return Low(v.builder().Binary("stablehlo.shift_right_logical", v, shift));
}

// Parts that are the same for all elements stay rank 0 as long as they can.
std::array<Value, 4> Philox(std::array<Value, 4> counter, std::array<Value, 2> key) {
  Builder& b = key[0].builder();
  auto multiply = [&](Value v, int64_t by) {
    return Convert(v, DType::kU64) * b.ConstantInt(DType::kU64, by);
  };
  for (int round = 0; round < 10; ++round) {
    if (round > 0) {
      key[0] = key[0] + b.ConstantInt(DType::kU32, kWeyl0);
      key[1] = key[1] + b.ConstantInt(DType::kU32, kWeyl1);
    }
    Value p0 = multiply(counter[0], kMultiplier0), p1 = multiply(counter[2], kMultiplier1);
    counter = {High(p1) ^ counter[1] ^ key[0], Low(p1), High(p0) ^ counter[3] ^ key[1], Low(p0)};
  }
  return counter;
}

// The row-major index, built from one iota per dim so that it follows any layout or sharding.
Value LinearIndex(Builder& b, const Dims& dims, DType dtype) {
  Value index = b.ConstantInt(dtype, 0, dims);
  int64_t stride = 1;
  for (int d = static_cast<int>(dims.size()); d-- > 0;) {
    if (dims[d] != 1) index = index + b.Iota(dtype, dims, d) * b.ConstantInt(dtype, stride);
    stride *= dims[d];
  }
  return index;
}

// 24 random bits (of f32's 24) from the top of a word: k * 2^-24.
Value Fraction24(Value word) {
  Builder& b = word.builder();
  Value top = b.Binary("stablehlo.shift_right_logical", word, b.ConstantInt(DType::kU32, 8));
  return Convert(top, DType::kF32) * std::ldexp(1.0, -24);
}

// 53 random bits from two words.
Value Fraction53(Value high, Value low) {
  Builder& b = high.builder();
  Value word = Convert(high, DType::kU64) * b.ConstantInt(DType::kU64, int64_t{1} << 32) +
               Convert(low, DType::kU64);
  Value top = b.Binary("stablehlo.shift_right_logical", word, b.ConstantInt(DType::kU64, 11));
  return Convert(top, DType::kF64) * std::ldexp(1.0, -53);
}

}  // namespace

Values Random::Words(const Dims& dims) const {
  Builder& b = state_.builder();
  Value seed = Reshape(b.Slice(state_, {0}, {1}), {}),
        offset = Reshape(b.Slice(state_, {1}, {2}), {});
  std::array<Value, 4> counter = {Value(), b.ConstantInt(DType::kU32, 0), Low(offset),
                                  High(offset)};
  if (Shape{DType::kU32, dims}.numel() <= std::numeric_limits<uint32_t>::max()) {
    counter[0] = LinearIndex(b, dims, DType::kU32);
  } else {
    Value index = LinearIndex(b, dims, DType::kU64);
    counter[0] = Low(index);
    counter[1] = High(index);
  }
  std::array<Value, 4> words = Philox(counter, {Low(seed), High(seed)});
  return Values(words.begin(), words.end());
}

Value Random::Bits(const Dims& dims, int stream) const { return Words(dims)[stream]; }

Value Random::Uniform(DType dtype, const Dims& dims, int stream) const {
  Values words = Words(dims);
  if (dtype != DType::kF64) return Fraction24(words[stream]);
  return Fraction53(words[stream], words[(stream + 2) % 4]);
}

Value Random::Normal(DType dtype, const Dims& dims) const {
  Values words = Words(dims);
  const bool wide = dtype == DType::kF64;
  // In (0, 1], which keeps log(0) away; f32 takes all 32 bits for the sake of the tails.
  Value radius = wide ? 1.0 - Fraction53(words[0], words[1])
                      : (Convert(words[0], DType::kF32) + 1.0) * std::ldexp(1.0, -32);
  Value turn = wide ? Fraction53(words[2], words[3]) : Fraction24(words[1]);
  return Sqrt(-2.0 * Log(radius)) * Cos(2.0 * M_PI * turn);
}

}  // namespace torch_tpu::ops
