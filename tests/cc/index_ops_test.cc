// SPDX-License-Identifier: Apache-2.0
// The index families run on the CPU plugin: values, not text. What torch has a twin for is compared
// with torch in the op suite; here are the padded forms, which it has not.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "csrc/ops/indexing.h"
#include "csrc/ops/op.h"
#include "csrc/ops/scan.h"
#include "tests/cc/execute.h"

namespace torch_tpu::ops {
namespace {

// Runs a table row on plain tensors, followed by `ints`.
std::vector<Tensor> RunOp(const char* name, const std::vector<Tensor>& inputs,
                          const std::vector<int64_t>& ints = {}) {
  Schema schema{.args = {}, .name = name};
  Call call{.def = FindOp(name), .schema = &schema};
  if (call.def == nullptr) {
    ADD_FAILURE() << name << " is not in the table";
    return {};
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    schema.args.push_back("t" + std::to_string(i));
    Arg arg{.kind = ArgKind::kTensor};
    arg.tensors.push_back({static_cast<int>(i), ContiguousView(inputs[i].shape)});
    call.args.push_back(arg);
  }
  for (int64_t value : ints) {
    schema.args.push_back("i" + std::to_string(call.args.size()));
    call.args.push_back(Arg{.kind = ArgKind::kInt, .ints = {value}});
  }
  return Execute(inputs, [&](const Values& values) -> Values {
    auto results = Lower(call, values.at(0).builder(), values);
    if (!results.ok()) throw hlo::Error(std::string(results.status().message()));
    return *results;
  });
}

int64_t Count(const Tensor& t) { return t.as<int64_t>().at(0); }

TEST(Scan, CountsAcrossBlockLevels) {
  for (int64_t n : {1, 127, 128, 129, 16384, 16385, 300001}) {
    std::vector<uint8_t> flags(n);
    std::vector<int32_t> expected(n);
    int32_t sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      flags[i] = (i * 2654435761u >> 7) % 3 != 0;
      expected[i] = sum += flags[i];
    }
    auto out = Execute({Make(DType::kPred, {n}, flags)},
                       [](const Values& v) -> Values { return {CountScan(v[0])}; });
    EXPECT_EQ(out.at(0).as<int32_t>(), expected) << n;
  }
}

TEST(Scan, SumsLargeIntegersExactly) {
  int64_t n = 1000;
  std::vector<int64_t> values(n), expected(n);
  int64_t sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    values[i] = (int64_t{1} << 40) + i;
    expected[i] = sum += values[i];
  }
  auto out = Execute({Make(DType::kS64, {n}, values)},
                     [](const Values& v) -> Values { return {CumulativeSum(v[0], 0)}; });
  EXPECT_EQ(out.at(0).as<int64_t>(), expected);
}

TEST(LowerBound, FindsFirstNotBelow) {
  float nan = std::numeric_limits<float>::quiet_NaN();
  auto out = Execute({Make<float>(DType::kF32, {5}, {1, 3, 3, 5, nan}),
                      Make<float>(DType::kF32, {6}, {0, 1, 3, 4, 6, nan})},
                     [](const Values& v) -> Values { return {LowerBound(v[0], v[1])}; });
  EXPECT_EQ(out.at(0).as<int32_t>(), (std::vector<int32_t>{0, 0, 1, 3, 4, 4}));
}

TEST(NonzeroPadded, GivesRowMajorCoordinates) {
  auto out = RunOp("tpu::nonzero_padded", {Make<float>(DType::kF32, {2, 3}, {0, 1, 0, 2, 0, -3})});
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].shape.dims, (Dims{6, 2}));
  EXPECT_EQ(Count(out[1]), 3);
  auto rows = out[0].as<int64_t>();
  rows.resize(6);
  EXPECT_EQ(rows, (std::vector<int64_t>{0, 1, 1, 0, 1, 2}));
}

TEST(NonzeroPadded, RankZeroAndEmpty) {
  auto scalar = RunOp("tpu::nonzero_padded", {Make<int64_t>(DType::kS64, {}, {4})});
  EXPECT_EQ(scalar.at(0).shape.dims, (Dims{1, 0}));
  EXPECT_EQ(Count(scalar.at(1)), 1);
  auto empty = RunOp("tpu::nonzero_padded", {Make<float>(DType::kF32, {0, 3}, {})});
  EXPECT_EQ(empty.at(0).shape.dims, (Dims{0, 2}));
  EXPECT_EQ(Count(empty.at(1)), 0);
}

TEST(MaskedSelectPadded, KeepsOrder) {
  auto out =
      RunOp("tpu::masked_select_padded", {Make<int32_t>(DType::kS32, {2, 2}, {10, 20, 30, 40}),
                                          Make<uint8_t>(DType::kPred, {2, 2}, {0, 1, 0, 1})});
  EXPECT_EQ(Count(out.at(1)), 2);
  auto values = out[0].as<int32_t>();
  values.resize(2);
  EXPECT_EQ(values, (std::vector<int32_t>{20, 40}));
}

TEST(UniquePadded, SortsAndCounts) {
  float nan = std::numeric_limits<float>::quiet_NaN();
  auto out =
      RunOp("tpu::unique_padded", {Make<float>(DType::kF32, {2, 4}, {3, nan, 1, 3, 1, 3, nan, 2})});
  ASSERT_EQ(out.size(), 4u);
  EXPECT_EQ(Count(out[3]), 5);
  auto values = out[0].as<float>();
  EXPECT_EQ(std::vector<float>(values.begin(), values.begin() + 3), (std::vector<float>{1, 2, 3}));
  EXPECT_TRUE(values[3] != values[3] && values[4] != values[4]);
  EXPECT_EQ(out[1].as<int64_t>(), (std::vector<int64_t>{2, 3, 0, 2, 0, 2, 4, 1}));
  auto counts = out[2].as<int64_t>();
  counts.resize(5);
  EXPECT_EQ(counts, (std::vector<int64_t>{2, 1, 3, 1, 1}));
}

TEST(UniqueConsecutivePadded, KeepsRuns) {
  auto out = RunOp("tpu::unique_consecutive_padded",
                   {Make<int64_t>(DType::kS64, {6}, {1, 1, 2, 2, 1, 1})});
  EXPECT_EQ(Count(out.at(3)), 3);
  auto values = out[0].as<int64_t>(), counts = out[2].as<int64_t>();
  values.resize(3);
  counts.resize(3);
  EXPECT_EQ(values, (std::vector<int64_t>{1, 2, 1}));
  EXPECT_EQ(counts, (std::vector<int64_t>{2, 2, 2}));
  EXPECT_EQ(out[1].as<int64_t>(), (std::vector<int64_t>{0, 0, 1, 1, 2, 2}));
}

TEST(RepeatInterleaveSized, SkipsZeroRepeats) {
  auto out =
      RunOp("tpu::repeat_interleave_sized", {Make<int64_t>(DType::kS64, {4}, {2, 0, 3, 1})}, {6});
  EXPECT_EQ(out.at(0).as<int64_t>(), (std::vector<int64_t>{0, 0, 2, 2, 2, 3}));
}

TEST(ScatterRows, DropsRowsOutOfRange) {
  auto out = Execute(
      {Make<float>(DType::kF32, {2, 2}, {1, 2, 3, 4}), Make<int64_t>(DType::kS64, {3}, {1, 2, 1}),
       Make<float>(DType::kF32, {3, 2}, {10, 20, 30, 40, 50, 60})},
      [](const Values& v) -> Values {
        return {ScatterRows(v[0], v[1], v[2], 0, Combiner("sum"))};
      });
  EXPECT_EQ(out.at(0).as<float>(), (std::vector<float>{1, 2, 63, 84}));
}

}  // namespace
}  // namespace torch_tpu::ops
