// SPDX-License-Identifier: Apache-2.0
// All other op forms: shapes, gathers, reductions, contractions, control flow.
#include <cmath>
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
using testing::kInf;
using testing::OnEachPlugin;

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
