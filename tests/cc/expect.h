// SPDX-License-Identifier: Apache-2.0
// Expected values of builder tests: results of any type, compared as floats.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "tests/cc/run_module.h"

namespace torch_tpu::testing {

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInf = std::numeric_limits<float>::infinity();

inline void ExpectNear(const std::vector<float>& got, const std::vector<float>& expected,
                       float tolerance, const std::string& what) {
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
inline void Expect(const std::vector<Array>& inputs, const hlo::Body& body,
                   const std::vector<std::vector<float>>& expected, float tolerance = 0) {
  auto joined = [&](const hlo::Values& p) {
    hlo::Values out = body(p);
    for (hlo::Value& v : out) v = hlo::Reshape(hlo::Convert(v, hlo::DType::kF32), {v.numel()});
    EXPECT_EQ(out.size(), expected.size());
    for (size_t i = 0; i < out.size(); ++i) {
      EXPECT_EQ(out[i].numel(), static_cast<int64_t>(expected[i].size())) << "result " << i;
    }
    return hlo::Values{out[0].builder().Concatenate(out, 0)};
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

inline std::vector<float> Count(int n, float from = 0) {
  std::vector<float> out(n);
  std::iota(out.begin(), out.end(), from);
  return out;
}

}  // namespace torch_tpu::testing
