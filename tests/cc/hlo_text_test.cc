// SPDX-License-Identifier: Apache-2.0
// The builder's text and its errors; nothing is compiled here.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "csrc/hlo/builder.h"

namespace torch_tpu::hlo {
namespace {

const Shape k23{DType::kF32, {2, 3}};

std::string TextOf(const std::function<Values(Builder&)>& body) {
  Builder b;
  b.Return(body(b));
  return b.Text();
}

// The message of the hlo::Error that `body` throws.
std::string ErrorOf(const std::function<void(Builder&)>& body) {
  Builder b;
  try {
    body(b);
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

std::string Literal(DType dtype, double value) {
  const std::string text = TextOf([&](Builder& b) { return Values{b.Constant(dtype, value)}; });
  const size_t from = text.find("dense<") + 6;
  return text.substr(from, text.find('>', from) - from);
}

TEST(Text, WholeModule) {
  EXPECT_EQ(TextOf([](Builder& b) {
              const Value x = b.Parameter(k23, /*aliased_output=*/0), y = b.Parameter(k23);
              return Values{x + y * 2, x};
            }),
            R"(module @program {
  func.func public @main(%arg0: tensor<2x3xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
    %0 = "stablehlo.constant"() <{value = dense<2.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %1 = "stablehlo.constant"() <{value = dense<2.000000e+00> : tensor<2x3xf32>}> : () -> tensor<2x3xf32>
    %2 = "stablehlo.multiply"(%arg1, %1) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %3 = "stablehlo.add"(%arg0, %2) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    return %3, %arg0 : tensor<2x3xf32>, tensor<2x3xf32>
  }
}
)");
}

TEST(Text, RegionsRepeatConstants) {
  const std::string text = TextOf([](Builder& b) {
    const Value x = b.Parameter(k23), two = b.Constant(DType::kF32, 2);
    return b.Reduce(Values{x}, Values{two}, {1},
                    [&](const Values& v) { return Values{v[0] + v[1] * two}; });
  });
  EXPECT_NE(text.find(R"(    %6 = "stablehlo.reduce"(%arg0, %0) <{dimensions = array<i64: 1>}> ({
    ^bb0(%1: tensor<f32>, %2: tensor<f32>):
      %3 = "stablehlo.constant"() <{value = dense<2.000000e+00> : tensor<f32>}> : () -> tensor<f32>
      %4 = "stablehlo.multiply"(%2, %3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      %5 = "stablehlo.add"(%1, %4) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%5) : (tensor<f32>) -> ()
    }) : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
)"),
            std::string::npos)
      << text;
}

TEST(Text, EqualCallsGiveEqualTextAndConstantsAreShared) {
  auto body = [](Builder& b) {
    const Value x = b.Parameter(k23);
    return Values{Tanh(x * 0.1) + 0.1, Sum(x, {-1}, true)};
  };
  EXPECT_EQ(TextOf(body), TextOf(body));
  const std::string text = TextOf(
      [](Builder& b) { return Values{b.Constant(DType::kF32, 3) + b.Constant(DType::kF32, 3)}; });
  EXPECT_EQ(text.find("constant", text.find("constant") + 1), std::string::npos) << text;
}

TEST(Text, FloatLiteralsAreExact) {
  EXPECT_EQ(Literal(DType::kF32, 1), "1.000000e+00");
  EXPECT_EQ(Literal(DType::kF32, -0.0), "-0.000000e+00");
  EXPECT_EQ(Literal(DType::kF32, 0.1), "0x3DCCCCCD");
  EXPECT_EQ(Literal(DType::kF64, 0.1), "1.000000e-01");
  EXPECT_EQ(Literal(DType::kF64, 1.0 / 3), "0x3FD5555555555555");
  EXPECT_EQ(Literal(DType::kF32, INFINITY), "0x7F800000");
  EXPECT_EQ(Literal(DType::kF32, -INFINITY), "0xFF800000");
  EXPECT_EQ(Literal(DType::kF32, NAN), "0x7FC00000");
  EXPECT_EQ(Literal(DType::kF32, -NAN), "0x7FC00000");
  EXPECT_EQ(Literal(DType::kF32, 1e300), "0x7F800000");
  EXPECT_EQ(Literal(DType::kF32, 1e-45), "0x00000001");
  EXPECT_EQ(Literal(DType::kF32, 1e-60), "0.000000e+00");
  EXPECT_EQ(Literal(DType::kBF16, 1.0 / 3), "0x3EAB");
  EXPECT_EQ(Literal(DType::kF16, 65520), "0x7C00");
  EXPECT_EQ(Literal(DType::kF16, 2.0009765625), "2.000000e+00");  // ties to even
  EXPECT_EQ(Literal(DType::kF8E4M3FN, 448), "4.480000e+02");
  EXPECT_EQ(Literal(DType::kF8E4M3FN, 500), "0x7F");
  EXPECT_EQ(Literal(DType::kF8E5M2, 1e9), "0x7C");
  EXPECT_EQ(Literal(DType::kC64, 0.5), "(5.000000e-01, 0.000000e+00)");
}

TEST(Text, IntegerLiterals) {
  auto literal = [](DType dtype, int64_t value) {
    const std::string text =
        TextOf([&](Builder& b) { return Values{b.ConstantInt(dtype, value)}; });
    const size_t from = text.find("dense<") + 6;
    return text.substr(from, text.find('>', from) - from);
  };
  EXPECT_EQ(literal(DType::kS64, INT64_MIN), "-9223372036854775808");
  EXPECT_EQ(literal(DType::kU64, -1), "18446744073709551615");
  EXPECT_EQ(literal(DType::kU8, -1), "255");
  EXPECT_EQ(literal(DType::kS8, 200), "-56");
  EXPECT_EQ(literal(DType::kPred, 7), "true");
  EXPECT_NE(ErrorOf([](Builder& b) {
              b.Constant(DType::kS32, 0.5);
            }).find("[constant] expected a whole number for i32, got 0.5"),
            std::string::npos);
}

TEST(Text, DotsAreCanonical) {
  const std::string text = TextOf([](Builder& b) {
    const Value q = b.Parameter({DType::kBF16, {2, 8, 64, 256}});
    const Value k = b.Parameter({DType::kBF16, {2, 256, 8, 64}});
    return Values{b.Dot(q, k, {{0, 1}, {0, 2}, {2}, {3}})};
  });
  EXPECT_NE(text.find("(%arg0) <{permutation = array<i64: 0, 1, 3, 2>}>"), std::string::npos);
  EXPECT_NE(text.find("(%arg1) <{permutation = array<i64: 0, 2, 3, 1>}>"), std::string::npos);
  EXPECT_NE(text.find("lhs_batching_dimensions = [0, 1], rhs_batching_dimensions = [0, 1], "
                      "lhs_contracting_dimensions = [3], rhs_contracting_dimensions = [2]"),
            std::string::npos);
  EXPECT_NE(text.find("(tensor<2x8x256x64xbf16>, tensor<2x8x64x256xbf16>) -> "
                      "tensor<2x8x256x256xf32>"),
            std::string::npos);
  EXPECT_NE(text.find("(tensor<2x8x256x256xf32>) -> tensor<2x8x256x256xbf16>"), std::string::npos);
  EXPECT_EQ(text.find("precision"), std::string::npos);
}

TEST(Text, DotPrecision) {
  const std::string text = TextOf([](Builder& b) {
    const Value x = b.Parameter({DType::kF32, {4, 4}});
    const DotDims mm{{}, {}, {1}, {0}};
    const Value exact = b.Dot(x, x, mm);
    b.SetDotPrecision("DEFAULT");
    return Values{b.Dot(exact, x, mm)};
  });
  const size_t highest = text.find("#stablehlo<precision HIGHEST>");
  ASSERT_NE(highest, std::string::npos);
  EXPECT_LT(highest, text.find("#stablehlo<precision DEFAULT>"));
  EXPECT_NE(ErrorOf([](Builder& b) { b.SetDotPrecision("BEST"); }).find("got BEST"),
            std::string::npos);
}

TEST(Text, CustomCall) {
  const std::string text = TextOf([](Builder& b) {
    return b.CustomCall("a.b", {b.Parameter(k23)}, {k23, {DType::kS32, {}}},
                        "has_side_effect = true");
  });
  EXPECT_NE(
      text.find(
          R"(%0:2 = "stablehlo.custom_call"(%arg0) <{call_target_name = "a.b", )"
          R"(has_side_effect = true}> : (tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<i32>))"),
      std::string::npos)
      << text;
}

TEST(Text, NoOpsAreNotWritten) {
  Builder b;
  const Value x = b.Parameter(k23);
  for (const Value& v : {b.Reshape(x, {2, 3}), b.Transpose(x, {0, 1}), b.Slice(x, {0, 0}, {2, 3}),
                         b.BroadcastTo(x, {2, 3}), b.Convert(x, DType::kF32), b.Concatenate({x}, 0),
                         b.Pad(x, b.Constant(DType::kF32, 0), {0, 0}, {0, 0})}) {
    EXPECT_EQ(v.id(), x.id());
  }
}

TEST(Errors, NameOpShapesAndRemedy) {
  struct Case {
    const char* expected;
    std::function<void(Builder&, Value, Value)> body;  // x: f32[2,3], n: i32[3,2]
  };
  const std::vector<Case> cases = {
      {"[stablehlo.add] expected equal element types, got tensor<2x3xf32> and tensor<3x2xi32>. "
       "Try: Convert one side",
       [](Builder&, Value x, Value n) { x + n; }},
      {"[stablehlo.add] expected equal shapes, got tensor<2x3xf32> and tensor<3x2xf32>. Try: "
       "BroadcastTo",
       [](Builder& b, Value x, Value) { x + b.Transpose(x, {1, 0}); }},
      {"[stablehlo.exponential] expected element types float, complex, got i32. Try: convert first",
       [](Builder&, Value, Value n) { Exp(n); }},
      {"[stablehlo.foo] expected the name of a unary StableHLO or CHLO op",
       [](Builder& b, Value x, Value) { b.Unary("stablehlo.foo", x); }},
      {"[stablehlo.reshape] expected 6 elements, got tensor<2x3xf32> to [4, 2]",
       [](Builder& b, Value x, Value) { b.Reshape(x, {4, 2}); }},
      {"[stablehlo.transpose] expected the permutation to be distinct and in [0, 2), got [0, 0]",
       [](Builder& b, Value x, Value) { b.Transpose(x, {0, 0}); }},
      {"[stablehlo.slice] expected 0 <= start <= limit <= size and strides of 1 or more, got start "
       "[0, 0], limit [2, 4], strides [1, 1] of tensor<2x3xf32>",
       [](Builder& b, Value x, Value) { b.Slice(x, {0, 0}, {2, 4}); }},
      {"[stablehlo.select] expected an i1 predicate, got tensor<2x3xf32>. Try: Ne(x, 0)",
       [](Builder& b, Value x, Value) { b.Select(x, x, x); }},
      {"[stablehlo.dot_general] expected equal batch and contracted sizes, got tensor<2x3xf32> "
       "(batch [], contract [1]) and tensor<2x3xf32> (batch [], contract [0])",
       [](Builder& b, Value x, Value) { b.Dot(x, x, {{}, {}, {1}, {0}}); }},
      {"[stablehlo.concatenate] expected operands that agree except in dim 0, got tensor<2x3xf32> "
       "and tensor<3x2xf32>",
       [](Builder& b, Value x, Value) { b.Concatenate({x, b.Transpose(x, {1, 0})}, 0); }},
      {"[stablehlo.gather] expected integer indices, got f32",
       [](Builder& b, Value x, Value) { b.Gather(x, x, {}); }},
      {"[stablehlo.reduce] expected an init value of type tensor<f32>, got tensor<2x3xf32>",
       [](Builder& b, Value x, Value) { b.Reduce("stablehlo.add", x, x, {0}); }},
      {"[stablehlo.reduce] expected the dims to be distinct and in [0, 2), got [2]",
       [](Builder& b, Value x, Value) {
         b.Reduce("stablehlo.add", x, b.Constant(DType::kF32, 0), {2});
       }},
      {"[stablehlo.while] expected the body to yield (tensor<2x3xf32>), got (tensor<3x2xi32>)",
       [](Builder& b, Value x, Value n) {
         b.While(
             {x}, [&](const Values&) { return Values{b.Constant(DType::kPred, 1)}; },
             [&](const Values&) { return Values{n}; });
       }},
      {"[stablehlo.sort] expected the body to yield (tensor<i1>), got (tensor<f32>)",
       [](Builder& b, Value x, Value) {
         b.Sort({x}, 0, true, [](const Values& v) { return Values{v[0]}; });
       }},
      {"[stablehlo.bitcast_convert] expected a last dim of 2 to join into f64, got tensor<2x3xf32>",
       [](Builder& b, Value x, Value) { b.BitcastConvert(x, DType::kF64); }},
      {"[value] expected a dim in [-2, 2) of tensor<2x3xf32>, got 2",
       [](Builder&, Value x, Value) { x.dim(2); }},
      {"[stablehlo.negate] expected a value, got an absent one",
       [](Builder&, Value, Value) { -Value(); }},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(ErrorOf([&](Builder& b) {
                const Value x = b.Parameter(k23), n = b.Parameter({DType::kS32, {3, 2}});
                c.body(b, x, n);
              }),
              c.expected);
  }
}

TEST(Errors, Scopes) {
  const std::string isolated = ErrorOf([](Builder& b) {
    const Value x = b.Parameter(k23), y = b.Parameter({DType::kF32, {}});
    b.Reduce(Values{x}, Values{y}, {0}, [&](const Values& v) { return Values{v[0] + y}; });
  });
  EXPECT_NE(isolated.find("expected only arguments and constants inside"), std::string::npos)
      << isolated;
  const std::string closed = ErrorOf([](Builder& b) {
    const Value x = b.Parameter(k23);
    Value inner;
    const Value flag = b.Constant(DType::kPred, 1);
    b.If(flag, [&] { return Values{inner = x + x}; }, [&] { return Values{x}; });
    inner + x;
  });
  EXPECT_NE(closed.find("of a closed region"), std::string::npos) << closed;
  Builder other;
  const Value foreign = other.Parameter(k23);
  EXPECT_NE(ErrorOf([&](Builder& b) { b.Reshape(foreign, {6}); }).find("another builder's"),
            std::string::npos);
}

TEST(Errors, FailedRegionLeavesTheBuilderUsable) {
  Builder b;
  const Value x = b.Parameter(k23);
  const Value flag = b.Constant(DType::kPred, 1);
  EXPECT_THROW(
      b.If(flag, [&] { return Values{b.Reshape(x, {7})}; }, [&] { return Values{x}; }), Error);
  b.Return({x + x});
  EXPECT_EQ(b.Text().find("stablehlo.if"), std::string::npos);
}

TEST(Errors, Return) {
  EXPECT_NE(ErrorOf([](Builder& b) { b.Text(); }).find("expected Return before Text"),
            std::string::npos);
  EXPECT_NE(ErrorOf([](Builder& b) {
              const Value x = b.Parameter(k23, 0);
              b.Return({Convert(x, DType::kS32)});
            }).find("of type tensor<2x3xf32> of the parameter donated to it"),
            std::string::npos);
}

TEST(Types, Promotion) {
  using enum DType;
  EXPECT_EQ(Promote(kPred, kU8), kU8);
  EXPECT_EQ(Promote(kU8, kS8), kS16);
  EXPECT_EQ(Promote(kU8, kS64), kS64);
  EXPECT_EQ(Promote(kS64, kF16), kF16);
  EXPECT_EQ(Promote(kF16, kBF16), kF32);
  EXPECT_EQ(Promote(kBF16, kF32), kF32);
  EXPECT_EQ(Promote(kF32, kC64), kC64);
  EXPECT_EQ(Promote(kF64, kC64), kC128);
  EXPECT_THROW(Promote(kU16, kS32), Error);
  EXPECT_THROW(Promote(kF8E4M3FN, kF32), Error);
  EXPECT_EQ(ComputeType(kBF16), kF32);
  EXPECT_EQ(ComputeType(kF64), kF64);
}

}  // namespace
}  // namespace torch_tpu::hlo
