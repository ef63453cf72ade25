// SPDX-License-Identifier: Apache-2.0
// Random words against a plain Philox, which is itself checked on Random123's known answers.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "csrc/ops/op.h"
#include "tests/cc/execute.h"

namespace torch_tpu::ops {
namespace {

using Block = std::array<uint32_t, 4>;

Block Philox(Block c, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t a = uint64_t{0xD2511F53} * c[0], b = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ key[0], static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ c[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return c;
}

Block Expected(uint64_t index, uint64_t seed, uint64_t offset) {
  auto low = [](uint64_t v) { return static_cast<uint32_t>(v); };
  auto high = [](uint64_t v) { return static_cast<uint32_t>(v >> 32); };
  return Philox({low(index), high(index), low(offset), high(offset)}, {low(seed), high(seed)});
}

Tensor State(uint64_t seed, uint64_t offset) {
  return Make<uint64_t>(DType::kU64, {2}, {seed, offset});
}

TEST(Philox, KnownAnswers) {
  EXPECT_EQ(Philox({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t ones = 0xffffffff;
  EXPECT_EQ(Philox({ones, ones, ones, ones}, {ones, ones}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, WordsAreThePhiloxOfTheElementIndex) {
  const Dims dims = {3, 1, 5};
  for (auto [seed, offset] : std::vector<std::pair<uint64_t, uint64_t>>{
           {0, 0}, {0x299f31d0a4093822, 0x0370734413198a2e}, {~uint64_t{0}, 7}}) {
    auto words = Execute({State(seed, offset)},
                         [&](const Values& v) -> Values { return Random(v[0]).Words(dims); });
    ASSERT_EQ(words.size(), 4u);
    for (uint64_t i = 0; i < 15; ++i) {
      const Block expected = Expected(i, seed, offset);
      for (int w = 0; w < 4; ++w) EXPECT_EQ(words[w].as<uint32_t>()[i], expected[w]) << i;
    }
  }
}

TEST(Random, UniformTakesTheTopBits) {
  auto out = Execute({State(5, 6)}, [](const Values& v) -> Values {
    return {Random(v[0]).Uniform(DType::kF32, {64}), Random(v[0]).Uniform(DType::kF64, {64})};
  });
  for (uint64_t i = 0; i < 64; ++i) {
    const Block b = Expected(i, 5, 6);
    EXPECT_EQ(out[0].as<float>()[i], std::ldexp(static_cast<float>(b[0] >> 8), -24));
    const uint64_t word = uint64_t{b[0]} << 32 | b[2];
    EXPECT_EQ(out[1].as<double>()[i], std::ldexp(static_cast<double>(word >> 11), -53));
  }
}

TEST(Random, NormalMoments) {
  const int64_t n = 200000;
  for (DType dtype : {DType::kF32, DType::kF64}) {
    auto out = Execute({State(1, 0)}, [&](const Values& v) -> Values {
      return {Convert(Random(v[0]).Normal(dtype, {n}), DType::kF64)};
    });
    double sum = 0, square = 0, fourth = 0;
    for (double z : out[0].as<double>()) {
      sum += z;
      square += z * z;
      fourth += z * z * z * z;
    }
    EXPECT_NEAR(sum / n, 0, 0.01);
    EXPECT_NEAR(square / n, 1, 0.015);
    EXPECT_NEAR(fourth / n, 3, 0.1);
  }
}

}  // namespace
}  // namespace torch_tpu::ops
