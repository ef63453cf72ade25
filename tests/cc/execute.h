// SPDX-License-Identifier: Apache-2.0
// Programs run on the CPU plugin: host tensors in, host tensors out.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "csrc/hlo/builder.h"
#include "csrc/ops/op.h"
#include "csrc/pjrt/client.h"

namespace torch_tpu::ops {

inline pjrt::Device* Cpu() {
  static pjrt::Device* device = [] {
    auto plugin = pjrt::Plugin::Load(CPU_PLUGIN_PATH);
    if (!plugin.ok()) ADD_FAILURE() << plugin.status().message();
    auto client = pjrt::Client::Create(*plugin, 1);
    if (!client.ok()) ADD_FAILURE() << client.status().message();
    return (*client)->devices()[0];
  }();
  return device;
}

struct Tensor {
  Shape shape;
  std::string bytes;

  template <typename T>
  std::vector<T> as() const {
    std::vector<T> out(bytes.size() / sizeof(T));
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  }
};

template <typename T>
Tensor Make(DType dtype, const Dims& dims, const std::vector<T>& values) {
  Tensor t{{dtype, dims}, std::string(values.size() * sizeof(T), '\0')};
  std::memcpy(t.bytes.data(), values.data(), t.bytes.size());
  EXPECT_EQ(t.shape.bytes(), static_cast<int64_t>(t.bytes.size()));
  return t;
}

// Compiles main(tensors) = results of `body` and runs it.
inline std::vector<Tensor> Execute(const std::vector<Tensor>& inputs, const hlo::Body& body) {
  hlo::Builder builder;
  Values parameters;
  for (const Tensor& t : inputs) parameters.push_back(builder.Parameter(t.shape));
  Values results = body(parameters);
  builder.Return(results);
  auto executable = Cpu()->client().Compile(builder.Text(), Cpu());
  if (!executable.ok()) {
    ADD_FAILURE() << executable.status().message() << "\n" << builder.Text();
    return {};
  }
  std::vector<pjrt::Buffer> buffers;
  std::vector<PJRT_Buffer*> raw, outputs((*executable)->num_outputs());
  for (const Tensor& t : inputs) {
    auto buffer = Cpu()->client().FromHost(t.bytes.data(), t.shape, nullptr,
                                           pjrt::HostSemantics::kCopy, Cpu());
    EXPECT_TRUE(buffer.ok()) << buffer.status().message();
    buffers.push_back(std::move(*buffer));
    raw.push_back(buffers.back().raw());
  }
  Status status = (*executable)->Execute(raw.data(), raw.size(), outputs.data());
  EXPECT_TRUE(status.ok()) << status.message();
  std::vector<Tensor> out;
  for (size_t i = 0; i < outputs.size(); ++i) {
    Tensor t{results[i].shape(), std::string(results[i].shape().bytes(), '\0')};
    pjrt::Buffer buffer(Cpu(), outputs[i], t.shape.bytes());
    auto event = buffer.ToHost(t.bytes.data(), t.shape.bytes());
    EXPECT_TRUE(event.ok()) << event.status().message();
    EXPECT_TRUE(event->Await().ok());
    out.push_back(std::move(t));
  }
  return out;
}

}  // namespace torch_tpu::ops
