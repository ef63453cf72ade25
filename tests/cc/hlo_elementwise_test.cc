// SPDX-License-Identifier: Apache-2.0
// Elementwise op forms of the builder, compiled and run on the CPU plugins.
#include <cmath>
#include <complex>
#include <string>
#include <vector>

#include "tests/cc/expect.h"

namespace torch_tpu::hlo {
namespace {

using testing::Array;
using testing::Count;
using testing::Expect;
using testing::Floats;
using testing::Ints;
using testing::kNan;
using testing::OnEachPlugin;

TEST(Run, UnaryFloats) {
  const std::vector<float> x = {0.25f, -0.75f, 1.5f, -2.5f, 3.f};
  struct Op {
    const char* name;
    double (*f)(double);
  };
  const Op ops[] = {
      {"stablehlo.abs", std::fabs},
      {"stablehlo.cbrt", std::cbrt},
      {"stablehlo.ceil", std::ceil},
      {"stablehlo.cosine", std::cos},
      {"stablehlo.exponential", std::exp},
      {"stablehlo.exponential_minus_one", std::expm1},
      {"stablehlo.floor", std::floor},
      {"stablehlo.imag", [](double) { return 0.0; }},
      {"stablehlo.is_finite", [](double) { return 1.0; }},
      {"stablehlo.log", std::log},
      {"stablehlo.log_plus_one", std::log1p},
      {"stablehlo.logistic", [](double v) { return 1 / (1 + std::exp(-v)); }},
      {"stablehlo.negate", [](double v) { return -v; }},
      {"stablehlo.real", [](double v) { return v; }},
      {"stablehlo.round_nearest_afz", std::round},
      {"stablehlo.round_nearest_even", std::nearbyint},
      {"stablehlo.rsqrt", [](double v) { return 1 / std::sqrt(v); }},
      {"stablehlo.sign", [](double v) { return v < 0 ? -1.0 : 1.0; }},
      {"stablehlo.sine", std::sin},
      {"stablehlo.sqrt", std::sqrt},
      {"stablehlo.tan", std::tan},
      {"stablehlo.tanh", std::tanh},
      {"chlo.acos", std::acos},
      {"chlo.acosh", std::acosh},
      {"chlo.asin", std::asin},
      {"chlo.asinh", std::asinh},
      {"chlo.atan", std::atan},
      {"chlo.atanh", std::atanh},
      {"chlo.cosh", std::cosh},
      {"chlo.erf", std::erf},
      {"chlo.erfc", std::erfc},
      {"chlo.is_inf", [](double) { return 0.0; }},
      {"chlo.is_neg_inf", [](double) { return 0.0; }},
      {"chlo.is_pos_inf", [](double) { return 0.0; }},
      {"chlo.lgamma", std::lgamma},
      {"chlo.sinh", std::sinh},
      {"chlo.tan", std::tan},
  };
  std::vector<std::vector<float>> expected;
  for (const Op& op : ops) {
    auto& row = expected.emplace_back();
    for (float v : x) row.push_back(static_cast<float>(op.f(v)));
  }
  for (DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
    SCOPED_TRACE(Name(dtype));
    const float tolerance = dtype == DType::kBF16 ? 0.02f : dtype == DType::kF16 ? 4e-3f : 3e-6f;
    Expect(
        {Floats({5}, x)},
        [&](const Values& p) {
          Values out;
          for (const Op& op : ops) {
            out.push_back(p[0].builder().Unary(op.name, Convert(p[0], dtype)));
          }
          return out;
        },
        expected, tolerance);
  }
  // Without a twin in the standard library: known values at 0.5 and 2.
  Expect(
      {Floats({2}, {0.5f, 2.f})},
      [](const Values& p) {
        Builder& b = p[0].builder();
        return Values{b.Unary("chlo.digamma", p[0]),
                      b.Unary("chlo.bessel_i1e", p[0]),
                      b.Unary("chlo.erf_inv", p[0] * 0.25),
                      b.Binary("chlo.zeta", p[0] + 1, p[0]),
                      b.Binary("chlo.polygamma", OnesLike(p[0]), p[0]),
                      b.Binary("chlo.next_after", p[0], p[0] + 1)};
      },
      {{-1.9635100f, 0.4227843f},
       {0.1564208f, 0.2152693f},
       {0.1112376f, 0.4769363f},
       {4.7765384f, 0.2020569f},
       {4.9348022f, 0.6449341f},
       {0.50000006f, 2.0000002f}},
      1e-5f);
}

TEST(Run, BinaryAndIntegers) {
  Expect(
      {Floats({3}, {5, -7, 0.5f}), Floats({3}, {2, 2, -3})},
      [](const Values& p) {
        const Value x = p[0], y = p[1];
        return Values{x + y,
                      x - y,
                      x * y,
                      x / y,
                      Rem(x, y),
                      Max(x, y),
                      Min(x, y),
                      Pow(y, 3 + ZerosLike(x)),
                      x.builder().Binary("stablehlo.atan2", x, y),
                      1 - x,
                      2 / y,
                      x + 1};
      },
      {{7, -5, -2.5f},
       {3, -9, 3.5f},
       {10, -14, -1.5f},
       {2.5f, -3.5f, -1.f / 6},
       {1, -1, 0.5f},
       {5, 2, 0.5f},
       {2, -7, -3},
       {8, 8, -27},
       {std::atan2(5.f, 2.f), std::atan2(-7.f, 2.f), std::atan2(0.5f, -3.f)},
       {-4, 8, 0.5f},
       {1, 1, -2.f / 3},
       {6, -6, 1.5f}},
      1e-6f);
  for (DType dtype : {DType::kS8, DType::kS16, DType::kS32, DType::kS64}) {
    SCOPED_TRACE(Name(dtype));
    Expect({Ints({4}, {7, -7, 100, 12}), Ints({4}, {2, 2, -3, 5})},
           [&](const Values& p) {
             const Value x = Convert(p[0], dtype), y = Convert(p[1], dtype);
             Builder& b = x.builder();
             const Value two = b.ConstantInt(dtype, 2);
             return Values{x / y,
                           Rem(x, y),
                           x & y,
                           x | y,
                           x ^ y,
                           ~x,
                           Abs(x),
                           Sign(x),
                           -x,
                           Max(x, y),
                           b.Binary("stablehlo.shift_left", y, two),
                           b.Binary("stablehlo.shift_right_arithmetic", x, two),
                           b.Unary("stablehlo.popcnt", y & two),
                           Pow(y, two)};
           },
           {{3, -3, -33, 2},
            {1, -1, 1, 2},
            {7 & 2, -7 & 2, 100 & -3, 12 & 5},
            {7 | 2, -7 | 2, 100 | -3, 12 | 5},
            {7 ^ 2, -7 ^ 2, 100 ^ -3, 12 ^ 5},
            {-8, 6, -101, -13},
            {7, 7, 100, 12},
            {1, -1, 1, 1},
            {-7, 7, -100, -12},
            {7, 2, 100, 12},
            {8, 8, -12, 20},
            {1, -2, 25, 3},
            {1, 1, 0, 0},
            {4, 4, 9, 25}});
  }
  for (DType dtype : {DType::kU8, DType::kU16, DType::kU32, DType::kU64}) {
    SCOPED_TRACE(Name(dtype));
    Expect({Ints({2}, {200, 3}), Ints({2}, {7, 5})},
           [&](const Values& p) {
             const Value x = Convert(p[0], dtype), y = Convert(p[1], dtype);
             Builder& b = x.builder();
             return Values{x / y,
                           Rem(x, y),
                           Max(x, y),
                           x > y,
                           Abs(x),
                           Sign(x),
                           b.Binary("stablehlo.shift_right_logical", x, OnesLike(x)),
                           b.Unary("stablehlo.count_leading_zeros", OnesLike(x)) + 1};
           },
           {{28, 0},
            {4, 3},
            {200, 5},
            {1, 0},
            {200, 3},
            {1, 1},
            {100, 1},
            std::vector<float>(2, static_cast<float>(8 * ByteSize(dtype)))});
  }
}

TEST(Run, NanWinsInExtrema) {
  for (DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
    SCOPED_TRACE(Name(dtype));
    Expect({Floats({3}, {kNan, 1, 5}), Floats({3}, {2, kNan, 4})},
           [&](const Values& p) {
             const Value x = Convert(p[0], dtype), y = Convert(p[1], dtype);
             Builder& b = x.builder();
             return Values{Max(x, y), Min(x, y), MaxReduce(x, {0}), MinReduce(y, {0}),
                           b.Clamp(b.Constant(dtype, 0), x, b.Constant(dtype, 3))};
           },
           {{kNan, kNan, 5}, {kNan, kNan, 4}, {kNan}, {kNan}, {kNan, 1, 3}});
  }
  // Long rows: vectorized loops differ from short ones.
  std::vector<float> rows = Count(2 * 1000);
  rows[1500] = kNan;
  Expect({Floats({2, 1000}, rows)},
         [](const Values& p) {
           return Values{MaxReduce(p[0], {1}), MinReduce(p[0], {1}), Sum(p[0], {1}) * 0};
         },
         {{999, kNan}, {0, kNan}, {0, kNan}});
}

TEST(Run, CompareSelectClamp) {
  Expect({Floats({4}, {1, 2, kNan, 3}), Floats({4}, {2, 2, 2, 2})},
         [](const Values& p) {
           const Value x = p[0], y = p[1];
           const Value flag = x.builder().Constant(DType::kPred, 1);
           return Values{Eq(x, y),
                         Ne(x, y),
                         x<y, x <= y, x>
                             y,
                         x >= y,
                         IsNan(x),
                         IsFinite(x),
                         Select(x < y, x, y),
                         Select(flag, x, y),
                         Select(x < y, x, x.builder().Constant(DType::kF32, 9)),
                         Eq(x, 2),
                         x >= 3};
         },
         {{0, 1, 0, 0},
          {1, 0, 1, 1},
          {1, 0, 0, 0},
          {1, 1, 0, 0},
          {0, 0, 0, 1},
          {0, 1, 0, 1},
          {0, 0, 1, 0},
          {1, 1, 0, 1},
          {1, 2, 2, 2},
          {1, 2, kNan, 3},
          {1, 9, 9, 9},
          {0, 1, 0, 0},
          {0, 0, 0, 1}});
  // A number as a bound for a whole tensor, and as a branch.
  Expect({Floats({4}, {-1, 0.5f, 7, kNan})},
         [](const Values& p) {
           Builder& b = p[0].builder();
           const Value lo = b.Constant(DType::kF32, 0), hi = b.Constant(DType::kF32, 1);
           return Values{b.Clamp(lo, p[0], hi), b.Clamp(lo, p[0], OnesLike(p[0])),
                         Select(p[0] > 0, hi, lo)};
         },
         {{0, 0.5f, 1, kNan}, {0, 0.5f, 1, kNan}, {0, 1, 1, 0}});
}

TEST(Run, Convert) {
  const std::vector<float> x = {-1.75f, 0.f, 0.5f, 2.9f, -300.f};
  Expect({Floats({5}, x), Floats({2}, {kNan, -0.f})},
         [](const Values& p) {
           const Value v = p[0];
           return Values{
               Convert(v, DType::kS32),    Convert(v, DType::kS64),
               Convert(v, DType::kPred),   Convert(v, DType::kU8),
               Convert(v, DType::kS8),     Convert(v, DType::kF16),
               Convert(v, DType::kC64),    Convert(Convert(v, DType::kC128), DType::kPred),
               Convert(p[1], DType::kPred)};
         },
         {{-1, 0, 0, 2, -300},
          {-1, 0, 0, 2, -300},
          {1, 0, 1, 1, 1},
          {255, 0, 0, 2, 212},
          {-1, 0, 0, 2, -44},
          {-1.75f, 0, 0.5f, 2.9003906f, -300},
          x,
          {1, 0, 1, 1, 1},
          {1, 0}});
  // Every pair of types.
  Expect({Floats({2}, {0, 3})},
         [](const Values& p) {
           Value all = p[0].builder().Constant(DType::kPred, 1, {2});
           for (int from = 1; from <= static_cast<int>(DType::kF8E5M2); ++from) {
             const Value v = Convert(p[0], static_cast<DType>(from));
             for (int to = 1; to <= static_cast<int>(DType::kF8E5M2); ++to) {
               all = all & Eq(Ne(Convert(v, static_cast<DType>(to)), 0), Ne(p[0], 0));
             }
           }
           return Values{all};
         },
         {{1, 1}});
}

TEST(Run, BitcastComplexPrecision) {
  const Array x = Floats({2, 2}, {1, -2, 0.1f, 3});
  OnEachPlugin(
      {x},
      [](const Values& p) {
        Builder& b = p[0].builder();
        const Value bytes = b.BitcastConvert(p[0], DType::kU8);
        const Value z = b.Complex(p[0], p[0] * 2);
        return Values{bytes,
                      b.BitcastConvert(bytes, DType::kF32),
                      b.BitcastConvert(p[0], DType::kF64),
                      z,
                      b.Unary("stablehlo.abs", z),
                      b.Unary("chlo.conj", z),
                      z * z,
                      Exp(z) / z,
                      Ne(z, z + 1),
                      b.ReducePrecision(p[0], 8, 7)};
      },
      [&](const std::vector<Array>& got) {
        EXPECT_EQ(got[0].bytes, x.bytes);
        EXPECT_EQ(got[1].bytes, x.bytes);
        EXPECT_EQ(got[2].bytes, x.bytes);
        const auto z = got[3].as<std::complex<float>>();
        EXPECT_EQ(z[1], std::complex<float>(-2, -4));
        EXPECT_NEAR(got[4].as<float>()[0], std::sqrt(5.f), 1e-6);
        EXPECT_EQ(got[5].as<std::complex<float>>()[1], std::conj(z[1]));
        EXPECT_EQ(got[6].as<std::complex<float>>()[0], z[0] * z[0]);
        EXPECT_LT(std::abs(got[7].as<std::complex<float>>()[3] - std::exp(z[3]) / z[3]), 1e-5);
        EXPECT_EQ(got[8].bytes, std::string(4, '\1'));
        EXPECT_EQ(got[9].as<float>()[2], 0.10009765625f);
      });
}

}  // namespace
}  // namespace torch_tpu::hlo
