// SPDX-License-Identifier: Apache-2.0
// Every op form of the builder, compiled and run on the CPU plugins.
#include <cmath>
#include <complex>
#include <limits>
#include <numeric>

#include "tests/cc/run_module.h"

namespace torch_tpu::hlo {
namespace {

using testing::Array;
using testing::Floats;
using testing::Ints;
using testing::MakeArray;
using testing::OnEachPlugin;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

void ExpectNear(const std::vector<float>& got, const std::vector<float>& expected, float tolerance,
                const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(got[i])) << what << " at " << i << ": " << got[i];
    } else if (got[i] != expected[i]) {
      EXPECT_NEAR(got[i], expected[i], tolerance * std::fmax(1, std::fabs(expected[i])))
          << what << " at " << i;
    }
  }
}

// Runs body and compares each result, converted to f32, with what is expected. The results are
// joined into one array: plugins compile one loop much faster than forty.
void Expect(const std::vector<Array>& inputs, const Body& body,
            const std::vector<std::vector<float>>& expected, float tolerance = 0) {
  auto joined = [&](const Values& p) {
    Values out = body(p);
    for (Value& v : out) v = Reshape(Convert(v, DType::kF32), {v.numel()});
    EXPECT_EQ(out.size(), expected.size());
    for (size_t i = 0; i < out.size(); ++i) {
      EXPECT_EQ(out[i].numel(), static_cast<int64_t>(expected[i].size())) << "result " << i;
    }
    return Values{out[0].builder().Concatenate(out, 0)};
  };
  OnEachPlugin(inputs, joined, [&](const std::vector<Array>& got) {
    const std::vector<float> all = got[0].as<float>();
    size_t at = 0;
    for (size_t i = 0; i < expected.size(); at += expected[i++].size()) {
      if (at + expected[i].size() > all.size()) return;  // sizes differ: reported above
      const auto from = all.begin() + static_cast<std::ptrdiff_t>(at);
      ExpectNear({from, from + static_cast<std::ptrdiff_t>(expected[i].size())}, expected[i],
                 tolerance, "result " + std::to_string(i));
    }
  });
}

std::vector<float> Count(int n, float from = 0) {
  std::vector<float> out(n);
  std::iota(out.begin(), out.end(), from);
  return out;
}

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

TEST(Run, Constants) {
  using enum DType;
  const Body body = [](const Values& p) {
    Builder& b = p[0].builder();
    return Values{b.ConstantInt(kS64, INT64_MIN),
                  b.ConstantInt(kU64, -1),
                  b.MinValue(kS8),
                  b.MaxValue(kU16),
                  b.MaxValue(kS64, {2}),
                  b.ConstantArray(kS64, {3, -4}),
                  b.ConstantArray(kPred, {1, 0}),
                  b.ConstantArray(kS32, {}),
                  b.Constant(kF32, 1.0 / 3),
                  b.Constant(kF64, 1e-310),
                  b.Constant(kBF16, 1.0 / 3),
                  b.Constant(kF16, 6e-8),
                  b.Constant(kF8E4M3FN, 0.3),
                  b.Constant(kF8E5M2, INFINITY),
                  b.Constant(kF32, NAN, {0, 3}),
                  b.Constant(kC64, 0.1),
                  b.MinValue(kF32),
                  b.Iota(kS32, {2, 3}, 1),
                  b.Constant(kPred, 1, {2, 2})};
  };
  OnEachPlugin({Floats({}, {0})}, body, [](const std::vector<Array>& got) {
    EXPECT_EQ(got[0].as<int64_t>()[0], INT64_MIN);
    EXPECT_EQ(got[1].as<uint64_t>()[0], UINT64_MAX);
    EXPECT_EQ(got[2].as<int8_t>()[0], -128);
    EXPECT_EQ(got[3].as<uint16_t>()[0], 65535);
    EXPECT_EQ(got[4].as<int64_t>(), (std::vector<int64_t>{INT64_MAX, INT64_MAX}));
    EXPECT_EQ(got[5].as<int64_t>(), (std::vector<int64_t>{3, -4}));
    EXPECT_EQ(got[6].bytes, std::string("\1\0", 2));
    EXPECT_EQ(got[7].bytes, "");
    EXPECT_EQ(got[8].as<float>()[0], 1.f / 3);
    EXPECT_EQ(got[9].as<double>()[0], 1e-310);
    EXPECT_EQ(got[10].as<uint16_t>()[0], 0x3EAB);
    EXPECT_EQ(got[11].as<uint16_t>()[0], 0x0001);
    EXPECT_EQ(got[12].as<uint8_t>()[0], 0x2A);
    EXPECT_EQ(got[13].as<uint8_t>()[0], 0x7C);
    EXPECT_EQ(got[14].bytes, "");
    EXPECT_EQ(got[15].as<float>(), (std::vector<float>{0.1f, 0}));
    EXPECT_EQ(got[16].as<float>()[0], -kInf);
    EXPECT_EQ(got[17].as<int32_t>(), (std::vector<int32_t>{0, 1, 2, 0, 1, 2}));
    EXPECT_EQ(got[18].bytes, std::string(4, '\1'));
  });
}

TEST(Run, Shapes) {
  Expect({Floats({2, 3}, Count(6)), Ints({}, {1})},
         [](const Values& p) {
           Builder& b = p[0].builder();
           const Value x = p[0], one = p[1], zero = b.ConstantInt(DType::kS32, 0);
           const Value nine = b.Constant(DType::kF32, 9);
           return Values{b.Reshape(x, {3, 2}),
                         b.Transpose(x, {1, 0}),
                         b.BroadcastTo(b.SliceDim(x, 0, 1, 2), {2, 3}),
                         b.BroadcastInDim(b.Reshape(b.SliceDim(x, 1, 0, 1), {2}), {2, 2}, {0}),
                         b.SliceDim(x, -1, 0, 3, 2),
                         b.DynamicSlice(x, {zero, one}, {2, 2}),
                         b.DynamicUpdateSlice(x, b.Constant(DType::kF32, 9, {1, 2}), {one, one}),
                         b.Pad(b.SliceDim(x, 0, 0, 1), nine, {0, 1}, {0, -1}, {0, 1}),
                         b.Concatenate({x, b.SliceDim(x, 1, 0, 1)}, 1),
                         b.Reverse(x, {1}),
                         Unsqueeze(x, {0, -1})};
         },
         {{0, 1, 2, 3, 4, 5},
          {0, 3, 1, 4, 2, 5},
          {3, 4, 5, 3, 4, 5},
          {0, 0, 3, 3},
          {0, 2, 3, 5},
          {1, 2, 4, 5},
          {0, 1, 2, 3, 9, 9},
          {9, 0, 9, 1, 9},
          {0, 1, 2, 0, 3, 4, 5, 3},
          {2, 1, 0, 5, 4, 3},
          {0, 1, 2, 3, 4, 5}});
}

TEST(Run, GatherScatter) {
  Expect({Floats({3, 2}, Count(6)), Ints({2}, {2, 0}), Floats({2, 2}, {10, 20, 30, 40}),
          Ints({2}, {1, 1})},
         [](const Values& p) {
           Builder& b = p[0].builder();
           GatherDims rows;
           rows.offset_dims = {1};
           rows.collapsed_slice_dims = {0};
           rows.start_index_map = {0};
           rows.index_vector_dim = 1;
           rows.slice_sizes = {1, 2};
           ScatterDims into;
           into.update_window_dims = {1};
           into.inserted_window_dims = {0};
           into.scatter_dims_to_operand_dims = {0};
           into.index_vector_dim = 1;
           auto add = [](const Values& v) { return Values{v[0] + v[1]}; };
           // One index per row: batching dims.
           GatherDims along;
           along.operand_batching_dims = {0};
           along.start_indices_batching_dims = {0};
           along.collapsed_slice_dims = {1};
           along.start_index_map = {1};
           along.index_vector_dim = 1;
           along.slice_sizes = {1, 1};
           const Value two = b.SliceDim(p[0], 0, 0, 2);
           ScatterDims batched;
           batched.input_batching_dims = {0};
           batched.scatter_indices_batching_dims = {0};
           batched.inserted_window_dims = {1};
           batched.scatter_dims_to_operand_dims = {1};
           batched.index_vector_dim = 1;
           return Values{b.Gather(p[0], p[1], rows), b.Scatter(p[0], p[1], p[2], into),
                         b.Scatter(p[0], p[3], p[2], into, add), b.Gather(two, p[3], along),
                         b.Scatter(two, p[3], b.Constant(DType::kF32, 7, {2}), batched)};
         },
         {{4, 5, 0, 1}, {30, 40, 2, 3, 10, 20}, {0, 1, 42, 63, 4, 5}, {1, 3}, {0, 7, 2, 7}});
}

TEST(Run, ReduceWindowsSort) {
  const Body argmax = [](const Values& v) {  // (max, index): the first one wins
    const Value take = (v[2] > v[0]) | (Eq(v[2], v[0]) & (v[3] < v[1]));
    return Values{Select(take, v[2], v[0]), Select(take, v[3], v[1])};
  };
  Expect({Floats({2, 4}, {3, 1, 4, 1, 5, 9, 2, 6})},
         [&](const Values& p) {
           Builder& b = p[0].builder();
           const Value x = p[0], index = b.Iota(DType::kS32, {2, 4}, 1);
           const Value lowest = b.MinValue(DType::kF32), zero = b.Constant(DType::kF32, 0);
           const Values best = b.Reduce({x, index}, {lowest, b.MaxValue(DType::kS32)}, {1}, argmax);
           const Window pool{.sizes = {1, 2}, .strides = {1, 2}};
           // TPUs want two dims that the window leaves alone.
           const Window images{.sizes = {1, 1, 1, 2}, .strides = {1, 1, 1, 2}};
           const Window padded{
               .sizes = {1, 3}, .window_dilations = {1, 2}, .pad_low = {0, 2}, .pad_high = {0, 2}};
           const Values sorted =
               b.Sort({x, index}, 1, true, [](const Values& v) { return Values{v[0] < v[1]}; });
           const Value pooled = b.ReduceWindow("stablehlo.maximum", x, lowest, pool);
           const Values pooled_index =
               b.ReduceWindow({x, index}, {lowest, b.MaxValue(DType::kS32)}, pool, argmax);
           return Values{
               Sum(x, {0, 1}),
               Sum(x, {-1}, true),
               MaxReduce(x, {0}),
               MinReduce(x, {1}),
               AllReduceAnd(x > 1, {1}),
               AnyReduceOr(x > 8, {1}),
               best[0],
               best[1],
               b.Reduce("stablehlo.multiply", x, b.Constant(DType::kF32, 2), {1}),
               pooled,
               pooled_index[1],
               b.ReduceWindow("stablehlo.add", x, zero, padded),
               b.SelectAndScatter(Unsqueeze(x, {0, 1}), OnesLike(Unsqueeze(pooled, {0, 1})), zero,
                                  images, Direction::kGe, "stablehlo.add"),
               sorted[0],
               sorted[1],
               Sum(Convert(x, DType::kBF16) * 100, {1})};
         },
         {{31},
          {9, 22},
          {5, 9, 4, 6},
          {1, 2},
          {0, 1},
          {0, 1},
          {4, 9},
          {2, 1},
          {24, 1080},
          {3, 4, 9, 6},
          {0, 2, 1, 3},
          {7, 2, 7, 2, 7, 15, 7, 15},
          {1, 0, 1, 0, 0, 1, 0, 1},
          {1, 1, 3, 4, 2, 5, 6, 9},
          {1, 3, 0, 2, 2, 0, 3, 1},
          {900, 2200}});
}

TEST(Run, SumsAndDotsAccumulateInFloat32) {
  // 1 + 4096 * 2^-8 would stay 1 in bf16.
  std::vector<float> x(4097, 1.f / 256);
  x[0] = 1;
  for (DType dtype : {DType::kBF16, DType::kF16}) {
    Expect({Floats({4097}, x)},
           [&](const Values& p) {
             const Value v = Convert(p[0], dtype);
             EXPECT_EQ(Sum(v, {0}).dtype(), DType::kF32);
             return Values{Sum(v, {0}), v.builder().Dot(v, OnesLike(v), {{}, {}, {0}, {0}})};
           },
           {{17}, {17}});
  }
}

TEST(Run, DotsOfAllTypesAndForms) {
  // x[b,k,m] and y[b,k,n] of small whole numbers: exact in every type but float8.
  const int B = 2, K = 3, M = 2, N = 2;
  std::vector<float> x(12), y(12);
  for (int i = 0; i < 12; ++i) x[i] = static_cast<float>(i % 4), y[i] = static_cast<float>(i % 3);
  std::vector<float> batched, both, outer;
  auto X = [&](int b, int k, int m) { return x[(b * K + k) * M + m]; };
  auto Y = [&](int b, int k, int n) { return y[(b * K + k) * N + n]; };
  for (int b = 0; b < B; ++b) {
    for (int m = 0; m < M; ++m) {
      for (int n = 0; n < N; ++n) {
        float sum = 0;
        for (int k = 0; k < K; ++k) sum += X(b, k, m) * Y(b, k, n);
        batched.push_back(sum);
      }
    }
  }
  for (int m = 0; m < M; ++m) {
    for (int n = 0; n < N; ++n) {
      float sum = 0;
      for (int b = 0; b < B; ++b) {
        for (int k = 0; k < K; ++k) sum += X(b, k, m) * Y(b, k, n);
      }
      both.push_back(sum);
    }
  }
  for (int m = 0; m < 12; ++m) {
    for (int n = 0; n < 12; ++n) outer.push_back(x[m] * y[n]);
  }
  for (int t = static_cast<int>(DType::kU8); t <= static_cast<int>(DType::kF8E5M2); ++t) {
    const auto dtype = static_cast<DType>(t);
    SCOPED_TRACE(Name(dtype));
    const bool tiny = IsFloat(dtype) && ByteSize(dtype) == 1;
    Expect({Floats({B, K, M}, x), Floats({B, K, N}, y)},
           [&](const Values& p) {
             const Value a = Convert(p[0], dtype), c = Convert(p[1], dtype);
             Builder& b = a.builder();
             const DType out = tiny ? DType::kF32 : DType::kInvalid;
             const Value flat = b.Reshape(a, {12}), other = b.Reshape(c, {12});
             return Values{b.Dot(a, c, {{0}, {0}, {1}, {1}}, out),
                           b.Dot(a, c, {{}, {}, {0, 1}, {0, 1}}, out),
                           b.Dot(flat, other, {{}, {}, {}, {}}, out),
                           b.Dot(b.Transpose(a, {1, 2, 0}), c, {{2}, {0}, {0}, {1}}, out)};
           },
           {batched, both, outer, batched});
  }
  // The attention form that fails in bf16 when it is not canonical.
  Expect({Floats({2, 8, 64, 256}, std::vector<float>(2 * 8 * 64 * 256, 0.5f)),
          Floats({2, 256, 8, 64}, std::vector<float>(2 * 256 * 8 * 64, 2))},
         [](const Values& p) {
           const Value q = Convert(p[0], DType::kBF16), k = Convert(p[1], DType::kBF16);
           const Value scores = q.builder().Dot(q, k, {{0, 1}, {0, 2}, {2}, {3}});
           return Values{MaxReduce(scores, {0, 1, 2, 3}), MinReduce(scores, {0, 1, 2, 3})};
         },
         {{64}, {64}});
}

TEST(Run, Convolutions) {
  const std::vector<float> x = Count(16);
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kF64, DType::kS32}) {
    SCOPED_TRACE(Name(dtype));
    Expect({Floats({1, 1, 4, 4}, x), Floats({1, 1, 2, 2}, {1, 0, 0, 2})},
           [&](const Values& p) {
             const Value in = Convert(p[0], dtype), ker = Convert(p[1], dtype);
             Builder& b = in.builder();
             ConvDims strided;
             strided.strides = {2, 2};
             strided.pad_low = {1, 1};
             ConvDims dilated;
             dilated.rhs_dilation = {2, 3};
             ConvDims transposed;  // the gradient of a stride
             transposed.lhs_dilation = {2, 2};
             transposed.pad_low = transposed.pad_high = {1, 1};
             transposed.reversed = {true, true};
             ConvDims last;  // NHWC
             last.input = last.output = {0, 3, 1, 2};
             const Value small = b.Slice(in, {0, 0, 0, 0}, {1, 1, 2, 2});
             return Values{b.Convolution(in, ker, {}), b.Convolution(in, ker, strided),
                           b.Convolution(in, ker, dilated), b.Convolution(small, ker, transposed),
                           b.Convolution(b.Reshape(in, {1, 4, 4, 1}), ker, last)};
           },
           {{10, 13, 16, 22, 25, 28, 34, 37, 40},
            {0, 4, 16, 25},
            {22, 34},
            {0, 0, 1, 0, 0, 0, 0, 2, 4, 0, 5, 0, 0, 8, 0, 10},
            {10, 13, 16, 22, 25, 28, 34, 37, 40}});
  }
  // Depthwise, grouped over the batch, and one and three spatial dims.
  Expect({Floats({2, 2, 3}, Count(12)), Floats({2, 1, 2}, {1, 1, 1, 2})},
         [](const Values& p) {
           Builder& b = p[0].builder();
           ConvDims depthwise, batches;
           depthwise.feature_groups = 2;
           batches.batch_groups = 2;
           const Value one = b.SliceDim(p[0], 1, 0, 1);
           const Value cube = b.Reshape(b.SliceDim(one, 0, 0, 1), {1, 1, 1, 1, 3});
           return Values{
               b.Convolution(p[0], p[1], depthwise), b.Convolution(one, p[1], batches),
               b.Convolution(cube, b.Reshape(b.SliceDim(p[1], 0, 1, 2), {1, 1, 1, 1, 2}), {})};
         },
         {{1, 3, 11, 14, 13, 15, 29, 32}, {1, 3, 20, 23}, {2, 5}});
}

TEST(Run, ControlFlow) {
  Expect({Floats({3}, {1, 1, 2}), Floats({}, {2}), Ints({}, {1})},
         [](const Values& p) {
           Builder& b = p[0].builder();
           const Value limit = b.Constant(DType::kF32, 100), step = p[1], add = p[0];
           const Values loop = b.While(
               {step, add}, [&](const Values& v) { return Values{v[0] < limit}; },
               [&](const Values& v) { return Values{v[0] * step, v[1] + add}; });
           const Values branch = b.If(
               step < limit, [&] { return Values{add + add, step}; },
               [&] { return Values{add, step + 1}; });
           const Values chosen =
               b.Case(p[2], {[&] { return Values{add}; }, [&] { return Values{add * step}; },
                             [&] { return Values{add - step}; }});
           // A reduction inside a loop inside a branch.
           const Values nested = b.If(
               step < limit,
               [&] {
                 return b.While(
                     {step}, [&](const Values& v) { return Values{v[0] < limit}; },
                     [&](const Values& v) { return Values{v[0] + Sum(add, {0})}; });
               },
               [&] { return Values{step}; });
           return Values{loop[0],
                         loop[1],
                         branch[0],
                         branch[1],
                         chosen[0],
                         nested[0],
                         b.OptimizationBarrier({add, step})[1]};
         },
         {{128}, {7, 7, 14}, {2, 2, 4}, {2}, {2, 2, 4}, {102}, {2}});
}

TEST(Run, LinearAlgebraAndFft) {
  Expect(
      {Floats({2, 2}, {4, 2, 2, 5}), Floats({2, 1}, {2, 6}), Floats({4}, {1, 2, 3, 4})},
      [](const Values& p) {
        Builder& b = p[0].builder();
        const Value l = b.Cholesky(p[0], true);
        const Value lower = Select(b.Iota(DType::kS32, {2, 2}, 0) >= b.Iota(DType::kS32, {2, 2}, 1),
                                   l, ZerosLike(l));
        const Value f = b.Fft(p[2], "RFFT", {4});
        const Value z = b.Complex(p[2], ZerosLike(p[2]));
        return Values{lower,
                      b.TriangularSolve(lower, p[1], true, true, false, "NO_TRANSPOSE"),
                      b.TriangularSolve(lower, p[1], true, true, false, "TRANSPOSE"),
                      b.Unary("stablehlo.real", f),
                      b.Unary("stablehlo.imag", f),
                      b.Fft(f, "IRFFT", {4}),
                      b.Unary("stablehlo.imag", b.Fft(z, "FFT", {4})),
                      b.Unary("stablehlo.real", b.Fft(b.Fft(z, "FFT", {4}), "IFFT", {4}))};
      },
      {{2, 0, 1, 2},
       {1, 2.5f},
       {-0.5f, 3},
       {10, -2, -2},
       {0, 2, 0},
       {1, 2, 3, 4},
       {0, 2, 0, -2},
       {1, 2, 3, 4}},
      1e-5f);
}

}  // namespace
}  // namespace torch_tpu::hlo
