// SPDX-License-Identifier: Apache-2.0
// Microseconds per PJRT execute of a 4x4 float32 add: the floor of every small op.
// Usage: pjrt_execute PLUGIN [ROUNDS]. Prints the median over rounds of 2,000 executes each.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "csrc/pjrt/client.h"
#include "csrc/pjrt/plugin.h"

namespace {
constexpr char kAdd[] = R"(module @add {
  func.func public @main(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %0 = stablehlo.add %a, %b : tensor<4x4xf32>
    return %0 : tensor<4x4xf32>
  }
})";
constexpr int64_t kBytes = 4 * 4 * sizeof(float);
constexpr int kExecutes = 2000;

using torch_tpu::pjrt::Buffer;

template <typename T>
T Require(torch_tpu::StatusOr<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", result.status().message().c_str());
    std::exit(1);
  }
  return std::move(*result);
}
}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s PLUGIN [ROUNDS]\n", argv[0]);
    return 2;
  }
  auto* client =
      Require(torch_tpu::pjrt::Client::Create(Require(torch_tpu::pjrt::Plugin::Load(argv[1])), 1));
  torch_tpu::pjrt::Device* device = client->devices()[0];
  auto add = Require(client->Compile(kAdd, device));
  const std::vector<float> data(16, 1.0f);
  const torch_tpu::hlo::Shape shape{torch_tpu::hlo::DType::kF32, {4, 4}};
  Buffer x = Require(
      client->FromHost(data.data(), shape, nullptr, torch_tpu::pjrt::HostSemantics::kCopy, device));
  PJRT_Buffer* arguments[] = {x.raw(), x.raw()};

  std::vector<double> rounds(argc > 2 ? std::atoi(argv[2]) : 15);
  for (double& micros : rounds) {
    const auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < kExecutes; ++i) {
      PJRT_Buffer* output = nullptr;
      torch_tpu::Status status = add->Execute(arguments, 2, &output);
      if (!status.ok()) {
        std::fprintf(stderr, "%s\n", status.message().c_str());
        return 1;
      }
      Buffer owned(device, output, kBytes);
    }
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - began;
    micros = took.count() / kExecutes;
  }
  std::sort(rounds.begin(), rounds.end());
  std::printf("%.3f\n", rounds[rounds.size() / 2]);
}
