// SPDX-License-Identifier: Apache-2.0
// Compiles and runs a module on the CPU plugins: the default one, and the one that
// TORCH_TPU_TEST_PLUGIN names when it is set. With TORCH_TPU_TEST_LIBTPU (the path of libtpu.so) it
// is compiled ahead of time for a TPU instead, and nothing runs.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "csrc/hlo/builder.h"
#include "csrc/pjrt/client.h"
#include "csrc/pjrt/topology.h"

namespace torch_tpu::testing {

// An array on the host.
struct Array {
  hlo::Shape shape;
  std::string bytes;

  template <typename T>
  std::vector<T> as() const {
    std::vector<T> out(bytes.size() / sizeof(T));
    std::memcpy(out.data(), bytes.data(), out.size() * sizeof(T));
    return out;
  }
};

template <typename T>
Array MakeArray(hlo::DType dtype, const hlo::Dims& dims, const std::vector<T>& values) {
  Array a{{dtype, dims}, std::string(values.size() * sizeof(T), '\0')};
  std::memcpy(a.bytes.data(), values.data(), a.bytes.size());
  EXPECT_EQ(a.shape.bytes(), static_cast<int64_t>(a.bytes.size()));
  return a;
}

inline Array Floats(const hlo::Dims& dims, const std::vector<float>& values) {
  return MakeArray(hlo::DType::kF32, dims, values);
}
inline Array Ints(const hlo::Dims& dims, const std::vector<int32_t>& values) {
  return MakeArray(hlo::DType::kS32, dims, values);
}

inline std::vector<std::string> PluginPaths() {
  std::vector<std::string> paths = {CPU_PLUGIN_PATH};
  if (const char* other = std::getenv("TORCH_TPU_TEST_PLUGIN")) paths.push_back(other);
  return paths;
}

inline pjrt::Device* DeviceOf(const std::string& path) {
  static std::vector<std::pair<std::string, pjrt::Device*>> known;
  for (const auto& [name, device] : known) {
    if (name == path) return device;
  }
  auto plugin = pjrt::Plugin::Load(path);
  if (!plugin.ok()) throw std::runtime_error(plugin.status().message());
  auto client = pjrt::Client::Create(*plugin, 1);
  if (!client.ok()) throw std::runtime_error(client.status().message());
  known.emplace_back(path, (*client)->devices()[0]);
  return known.back().second;
}

inline void CompileForTpu(const std::string& libtpu, const std::string& module) {
  static pjrt::Topology* topology = [&] {
    pjrt::SetAheadOfTimeEnvironment();
    auto plugin = pjrt::Plugin::Load(libtpu);
    if (!plugin.ok()) throw std::runtime_error(plugin.status().message());
    auto created = pjrt::Topology::Create(*plugin, "tpu7x:2x2x1");
    if (!created.ok()) throw std::runtime_error(created.status().message());
    return created->release();
  }();
  const auto report = topology->Compile(module, {.effort = 9});
  EXPECT_TRUE(report.ok()) << report.status().message() << "\n" << module;
}

inline std::vector<Array> RunOn(const std::string& path, const std::string& module,
                                const std::vector<Array>& inputs,
                                const std::vector<hlo::Shape>& results) {
  pjrt::Device* device = DeviceOf(path);
  auto executable = device->client().Compile(module, device);
  if (!executable.ok()) throw std::runtime_error(executable.status().message() + "\n" + module);
  std::vector<pjrt::Buffer> buffers;
  std::vector<PJRT_Buffer*> arguments, outputs((*executable)->num_outputs());
  for (const Array& a : inputs) {
    auto buffer = device->client().FromHost(a.bytes.data(), a.shape, nullptr,
                                            pjrt::HostSemantics::kCopy, device);
    if (!buffer.ok()) throw std::runtime_error(buffer.status().message());
    buffers.push_back(std::move(*buffer));
    arguments.push_back(buffers.back().raw());
  }
  const Status status = (*executable)->Execute(arguments.data(), arguments.size(), outputs.data());
  if (!status.ok()) throw std::runtime_error(status.message() + "\n" + module);
  std::vector<Array> out;
  for (size_t i = 0; i < outputs.size(); ++i) {
    Array a{results.at(i), std::string(results[i].bytes(), '\0')};
    pjrt::Buffer buffer(device, outputs[i], a.shape.bytes());
    auto event = buffer.ToHost(a.bytes.data(), a.shape.bytes());
    if (!event.ok()) throw std::runtime_error(event.status().message() + "\n" + module);
    if (Status done = event->Await(); !done.ok()) {
      throw std::runtime_error(done.message() + "\n" + module);
    }
    out.push_back(std::move(a));
  }
  return out;
}

// Builds main(inputs) = body(inputs), runs it on each plugin and hands the results to `check`.
inline void OnEachPlugin(const std::vector<Array>& inputs, const hlo::Body& body,
                         const std::function<void(const std::vector<Array>&)>& check) {
  hlo::Builder builder;
  hlo::Values parameters;
  for (const Array& a : inputs) parameters.push_back(builder.Parameter(a.shape));
  const hlo::Values results = body(parameters);
  std::vector<hlo::Shape> shapes;
  for (const hlo::Value& v : results) shapes.push_back(v.shape());
  builder.Return(results);
  if (const char* libtpu = std::getenv("TORCH_TPU_TEST_LIBTPU")) {
    return CompileForTpu(libtpu, builder.Text());
  }
  for (const std::string& path : PluginPaths()) {
    SCOPED_TRACE(path);
    check(RunOn(path, builder.Text(), inputs, shapes));
  }
}

}  // namespace torch_tpu::testing
