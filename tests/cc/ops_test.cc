// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "csrc/ops/op.h"

namespace torch_tpu::ops {
namespace {

using hlo::Builder;

OP("test::double") { return x.arg("self") * x.scalar("by"); }
OP("test::less") { return hlo::Value(x.common("self") < x.common("other")); }
OP("test::fill_") { return x.scalar("value"); }
OP("test::wrong_size") { return hlo::Reshape(x.tensor("self"), {3, 2}); }
OP("test::index") {
  x.CheckBounds("self", x.tensor("self"), 7);
  return x.tensor("self");
}

View Plain(const Shape& shape) {
  View view{.base = shape, .dtype = shape.dtype, .sizes = shape.dims, .strides = shape.dims};
  int64_t stride = 1;
  for (size_t i = shape.dims.size(); i-- > 0;) {
    view.strides[i] = stride;
    stride *= shape.dims[i];
  }
  return view;
}

// A call with its schema, and the module text that Lower makes of it.
struct Recorded {
  Schema schema;
  Call call;
  std::vector<Shape> parameters;

  explicit Recorded(const char* name) {
    schema.name = name;
    call.def = FindOp(name);
    call.schema = &schema;
  }
  void Tensor(const char* name, const Shape& shape) { Tensor(name, shape, Plain(shape)); }
  void Tensor(const char* name, const Shape& shape, const View& view) {
    schema.args.push_back(name);
    Arg arg{.kind = ArgKind::kTensor};
    arg.tensors.push_back({static_cast<int>(parameters.size()), view});
    call.args.push_back(arg);
    parameters.push_back(shape);
  }
  void Number(const char* name, DType dtype, bool wrapped = true) {
    schema.args.push_back(name);
    Arg arg{.kind = ArgKind::kScalar};
    arg.scalars.push_back({static_cast<int>(parameters.size()), dtype, wrapped});
    call.args.push_back(arg);
    parameters.push_back(Shape{dtype, {}});
  }
  StatusOr<Values> Run(Builder& builder, std::vector<BoundsCheck>* checks = nullptr) {
    Values values;
    for (const Shape& p : parameters) values.push_back(builder.Parameter(p));
    return Lower(call, builder, values, checks);
  }
};

DType Common(Recorded r) {
  Builder builder;
  Values values;
  for (const Shape& p : r.parameters) values.push_back(builder.Parameter(p));
  return Lowering(r.call, builder, values).common_dtype();
}

TEST(Registry, FindsAndSorts) {
  ASSERT_NE(FindOp("test::double"), nullptr);
  EXPECT_EQ(FindOp("test::absent"), nullptr);
  const auto& all = AllOps();
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end(),
                             [](const OpDef* a, const OpDef* b) { return a->name < b->name; }));
}

TEST(View, Identity) {
  View view = Plain({DType::kF32, {2, 1, 3}});
  EXPECT_TRUE(view.identity());
  view.strides[1] = 77;  // a size-1 dim's stride says nothing
  EXPECT_TRUE(view.identity());
  view.offset = 1;
  EXPECT_FALSE(view.identity());
  View transposed = Plain({DType::kF32, {3, 3}});
  transposed.strides = {1, 3};
  EXPECT_FALSE(transposed.identity());
  View bits = Plain({DType::kF32, {2}});
  bits.dtype = DType::kS32;
  EXPECT_FALSE(bits.identity());
}

TEST(Lower, ComputesBfloat16InFloat32AndRoundsOnce) {
  Recorded r("test::double");
  r.Tensor("self", {DType::kBF16, {2, 3}});
  r.Number("by", DType::kF64);
  r.call.outputs.push_back({.shape = {DType::kBF16, {2, 3}}});
  Builder builder;
  auto out = r.Run(builder);
  ASSERT_TRUE(out.ok()) << out.status().ToString();
  EXPECT_EQ((*out)[0].shape(), (Shape{DType::kBF16, {2, 3}}));
  builder.Return(*out);
  const std::string text = builder.Text();
  EXPECT_NE(text.find("stablehlo.multiply"), std::string::npos) << text;
  EXPECT_NE(text.find("tensor<2x3xf32>"), std::string::npos) << text;
}

TEST(Lower, BroadcastsAndTransposesIntoStorageOrder) {
  Recorded r("test::double");
  r.Tensor("self", {DType::kF32, {3}});
  r.Number("by", DType::kS64);
  r.call.outputs.push_back({.shape = {DType::kF32, {2, 3}}, .storage_order = {1, 0}});
  Builder builder;
  auto out = r.Run(builder);
  ASSERT_TRUE(out.ok()) << out.status().ToString();
  EXPECT_EQ((*out)[0].dims(), (Dims{3, 2}));
}

TEST(Lower, FillsAnySizeWithOneElement) {
  Recorded r("test::fill_");
  r.Tensor("self", {DType::kS64, {4, 2}});
  r.Number("value", DType::kS64);
  r.call.outputs.push_back({.shape = {DType::kS64, {4, 2}}});
  Builder builder;
  auto out = r.Run(builder);
  ASSERT_TRUE(out.ok()) << out.status().ToString();
  EXPECT_EQ((*out)[0].shape(), (Shape{DType::kS64, {4, 2}}));
}

TEST(Lower, NamesTheOpAndTheSizes) {
  Recorded r("test::wrong_size");
  r.Tensor("self", {DType::kF32, {2, 3}});
  r.call.outputs.push_back({.shape = {DType::kF32, {2, 3}}});
  Builder builder;
  auto out = r.Run(builder);
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.status().message(),
            "[test::wrong_size] result 0 expected tensor<2x3xf32>, got tensor<3x2xf32>");
}

TEST(Lower, AppendsBoundsOnlyInDebug) {
  Recorded r("test::index");
  r.Tensor("self", {DType::kS32, {5}});
  r.call.outputs.push_back({.shape = {DType::kS32, {5}}});
  {
    Builder builder;
    EXPECT_EQ(r.Run(builder)->size(), 1u);
  }
  r.call.check_bounds = true;
  Builder builder;
  std::vector<BoundsCheck> checks;
  auto out = r.Run(builder, &checks);
  ASSERT_TRUE(out.ok()) << out.status().ToString();
  ASSERT_EQ(out->size(), 3u);
  EXPECT_EQ((*out)[2].shape(), (Shape{DType::kS64, {}}));
  ASSERT_EQ(checks.size(), 1u);
  EXPECT_EQ(checks[0].bound, 7);
  EXPECT_EQ(checks[0].argument, "self");
}

TEST(Promotion, FollowsTorch) {
  struct Case {
    DType dims, zero_dim, number, want;
  };
  const DType none = DType::kInvalid;
  const Case cases[] = {
      {DType::kS32, none, DType::kS64, DType::kS32},
      {DType::kS32, none, DType::kF64, DType::kF32},
      {DType::kBF16, none, DType::kF64, DType::kBF16},
      {DType::kPred, none, DType::kS64, DType::kS64},
      {DType::kBF16, DType::kF32, none, DType::kBF16},
      {DType::kS8, DType::kF16, none, DType::kF16},
      {DType::kU8, DType::kS64, none, DType::kU8},
      {DType::kF64, none, DType::kC128, DType::kC128},
      {none, DType::kS32, DType::kF64, DType::kF32},
      {none, DType::kF64, DType::kC128, DType::kC128},
      {DType::kPred, DType::kPred, DType::kPred, DType::kPred},
  };
  for (const Case& c : cases) {
    Recorded r("test::less");
    if (c.dims != none) r.Tensor("self", {c.dims, {2}});
    if (c.zero_dim != none) r.Number("zero", c.zero_dim, /*wrapped=*/false);
    if (c.number != none) r.Number("other", c.number);
    EXPECT_EQ(Common(r), c.want) << Name(c.dims) << " " << Name(c.zero_dim) << " "
                                 << Name(c.number);
  }
}

}  // namespace
}  // namespace torch_tpu::ops
