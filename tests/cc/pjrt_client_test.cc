// SPDX-License-Identifier: Apache-2.0
// What every plugin must do: the same tests on the fake plugin, the CPU plugin, and the one that
// TORCH_TPU_TEST_PLUGIN names. TORCH_TPU_TEST_FAKE_ONLY=1 leaves the real ones out.
#include <atomic>
#include <cstring>
#include <map>
#include <numeric>
#include <thread>

#include "csrc/pjrt/client.h"
#include "tests/cc/pjrt_fixture.h"

namespace torch_tpu::pjrt {
namespace {

using hlo::DType;
using hlo::Shape;
using torch_tpu::testing::FakePlugin;
using torch_tpu::testing::MessageOf;

constexpr const char* kFirst = R"(func.func public @main(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>)
    -> tensor<2x3xf32> { return %a : tensor<2x3xf32> })";
constexpr const char* kDonated = R"(func.func public @main(
    %a: tensor<2x3xf32> {tf.aliasing_output = 0 : i32}) -> tensor<2x3xf32> {
  %0 = stablehlo.negate %a : tensor<2x3xf32>
  return %0 : tensor<2x3xf32> })";

std::vector<std::string> PluginNames() {
  std::vector<std::string> names = {"fake"};
  if (std::getenv("TORCH_TPU_TEST_FAKE_ONLY") != nullptr) return names;
  names.push_back("cpu");
  if (std::getenv("TORCH_TPU_TEST_PLUGIN") != nullptr) names.push_back("other");
  return names;
}

// One client with two devices for each plugin, made once.
Client* ClientOf(const std::string& name) {
  static auto* clients = new std::map<std::string, Client*>();
  Client*& client = (*clients)[name];
  if (client == nullptr && name == "fake") {
    client = FakePlugin("").NewClient(2);
  } else if (client == nullptr) {
    auto plugin =
        Plugin::Load(name == "cpu" ? CPU_PLUGIN_PATH : std::getenv("TORCH_TPU_TEST_PLUGIN"));
    EXPECT_TRUE(plugin.ok()) << plugin.status().ToString();
    auto made = Client::Create(*plugin, 2);
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    client = *made;
  }
  return client;
}

class ClientTest : public ::testing::TestWithParam<std::string> {
 protected:
  Client& client() { return *ClientOf(GetParam()); }
  Device* device(int index = 0) { return client().devices()[index]; }
  bool real() { return GetParam() != "fake"; }

  Buffer Put(const void* data, const Shape& shape, int index = 0) {
    auto buffer = client().FromHost(data, shape, nullptr, HostSemantics::kCopy, device(index));
    EXPECT_TRUE(buffer.ok()) << buffer.status().ToString();
    return buffer.ok() ? std::move(buffer).value() : Buffer();
  }
  Buffer Floats(const std::vector<float>& values, hlo::Dims dims, int index = 0) {
    return Put(values.data(), {DType::kF32, std::move(dims)}, index);
  }
  std::string Get(const Buffer& buffer) {
    std::string bytes(static_cast<size_t>(buffer.bytes()), '?');
    auto done = buffer.ToHost(bytes.data(), buffer.bytes());
    EXPECT_TRUE(done.ok()) << done.status().ToString();
    if (!done.ok()) return "";
    Status status = done->Await();
    EXPECT_TRUE(status.ok()) << status.ToString();
    return bytes;
  }
  std::vector<float> GetFloats(const Buffer& buffer) {
    std::string bytes = Get(buffer);
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  std::unique_ptr<Executable> Compiled(const std::string& text, int index = 0) {
    auto executable = client().Compile(text, device(index));
    EXPECT_TRUE(executable.ok()) << executable.status().ToString();
    return executable.ok() ? std::move(executable).value() : nullptr;
  }
  std::vector<Buffer> Run(const Executable& executable,
                          const std::vector<const Buffer*>& arguments) {
    std::vector<PJRT_Buffer*> raw, out(executable.num_outputs());
    for (const Buffer* argument : arguments) raw.push_back(argument->raw());
    Status status = executable.Execute(raw.data(), raw.size(), out.data());
    EXPECT_TRUE(status.ok()) << status.ToString();
    std::vector<Buffer> outputs;
    for (size_t i = 0; status.ok() && i < out.size(); ++i) {
      outputs.emplace_back(executable.device(), out[i], executable.outputs()[i].bytes());
    }
    return outputs;
  }
};

INSTANTIATE_TEST_SUITE_P(Plugins, ClientTest, ::testing::ValuesIn(PluginNames()),
                         [](const auto& info) { return info.param; });

TEST_P(ClientTest, ListsItsDevices) {
  EXPECT_EQ(client().platform(), "cpu");
  EXPECT_TRUE(client().is_cpu());
  ASSERT_EQ(client().devices().size(), 2u);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(device(i)->index(), i);
    EXPECT_EQ(&device(i)->client(), &client());
    EXPECT_FALSE(device(i)->kind().empty());
  }
  EXPECT_NE(device(0)->id(), device(1)->id());
}

TEST_P(ClientTest, RoundTripsEveryTypeAndShape) {
  for (int d = static_cast<int>(DType::kPred); d <= static_cast<int>(DType::kF8E5M2); ++d) {
    for (const hlo::Dims& dims :
         std::vector<hlo::Dims>{{}, {1}, {5}, {3, 4}, {0}, {2, 0, 3}, {2, 1, 3, 1, 2}, {1000}}) {
      Shape shape{static_cast<DType>(d), dims};
      std::string bytes(static_cast<size_t>(shape.bytes()), '\0');
      for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 37 % 2);
      Buffer buffer = Put(bytes.empty() ? nullptr : bytes.data(), shape);
      ASSERT_TRUE(buffer.valid()) << shape.ToString();
      EXPECT_EQ(buffer.bytes(), shape.bytes());
      EXPECT_EQ(Get(buffer), bytes) << shape.ToString();
      auto queried = buffer.QueryShape();
      ASSERT_OK(queried);
      EXPECT_EQ(*queried, shape) << queried->ToString();
    }
  }
}

TEST_P(ClientTest, ReadsStridedSources) {
  std::vector<float> values(24);
  std::iota(values.begin(), values.end(), 0.0f);
  struct Case {
    hlo::Dims dims;
    std::vector<int64_t> strides;
    size_t offset;
    std::vector<float> expected;
  };
  const std::vector<Case> cases = {
      {{3, 2}, {4, 12}, 0, {0, 3, 1, 4, 2, 5}},   // transposed
      {{2, 3}, {24, 8}, 1, {1, 3, 5, 7, 9, 11}},  // every second
      {{2, 3}, {0, 4}, 2, {2, 3, 4, 2, 3, 4}},    // broadcast
      {{4}, {-4}, 3, {3, 2, 1, 0}},               // reversed
      {{2, 3}, {12, 4}, 0, {0, 1, 2, 3, 4, 5}},   // dense, said with strides
      {{1, 3}, {999, 4}, 4, {4, 5, 6}},           // the stride of one row means nothing
      {{2, 2, 2}, {4, 32, 16}, 0, {0, 4, 8, 12, 1, 5, 9, 13}},
  };
  for (const Case& c : cases) {
    for (HostSemantics semantics :
         {HostSemantics::kCopy, HostSemantics::kUntilTransferred, HostSemantics::kZeroCopy}) {
      Event done;
      auto buffer = client().FromHost(values.data() + c.offset, {DType::kF32, c.dims},
                                      c.strides.data(), semantics, device(), &done);
      ASSERT_OK(buffer);
      EXPECT_EQ(GetFloats(*buffer), c.expected) << hlo::ToString(c.strides);
    }
  }
}

TEST_P(ClientTest, ACopyFreesTheSourceAtReturn) {
  std::vector<float> values(1 << 16, 1.0f);
  Buffer buffer = Floats(values, {1 << 16});
  std::fill(values.begin(), values.end(), 2.0f);
  EXPECT_EQ(GetFloats(buffer), std::vector<float>(1 << 16, 1.0f));
}

TEST_P(ClientTest, ZeroCopyAliasesUntilTheBufferDies) {
  alignas(64) static float values[1024];
  Event done;
  std::atomic<int> fired{0};
  {
    auto buffer = client().FromHost(values, {DType::kF32, {1024}}, nullptr,
                                    HostSemantics::kZeroCopy, device(), &done);
    ASSERT_OK(buffer);
    ASSERT_OK(done.OnReady([&fired](Status status) { fired += status.ok() ? 1 : 100; }));
    auto pointer = buffer->HostPointer();
    ASSERT_OK(pointer);
    EXPECT_EQ(*pointer, values);
    EXPECT_FALSE(done.IsReady());
  }
  ASSERT_OK(done.Await());
  for (int i = 0; i < 1000 && fired == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(fired, 1);
}

TEST_P(ClientTest, Executes) {
  auto executable = Compiled(kFirst);
  ASSERT_NE(executable, nullptr);
  ASSERT_EQ(executable->num_outputs(), 1u);
  EXPECT_EQ(executable->outputs()[0], (Shape{DType::kF32, {2, 3}}));
  Buffer a = Floats({1, 2, 3, 4, 5, 6}, {2, 3}), b = Floats({0, 0, 0, 0, 0, 0}, {2, 3});
  std::vector<Buffer> outputs = Run(*executable, {&a, &b});
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(GetFloats(outputs[0]), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  auto ready = outputs[0].Ready();
  ASSERT_OK(ready);
  ASSERT_OK(ready->Await());
}

TEST_P(ClientTest, ComputesOnRealPlugins) {
  if (!real()) GTEST_SKIP() << "the fake plugin does not compute";
  auto executable = Compiled(R"(func.func public @main(%a: tensor<3xf32>, %b: tensor<3xf32>)
      -> (tensor<3xf32>, tensor<3xi1>) {
    %0 = stablehlo.add %a, %b : tensor<3xf32>
    %1 = stablehlo.compare LT, %a, %b : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    return %0, %1 : tensor<3xf32>, tensor<3xi1> })");
  Buffer a = Floats({1, 2, 3}, {3}), b = Floats({3, 2, 4}, {3});
  std::vector<Buffer> outputs = Run(*executable, {&a, &b});
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_EQ(GetFloats(outputs[0]), (std::vector<float>{4, 4, 7}));
  EXPECT_EQ(Get(outputs[1]), std::string("\1\0\1", 3));
}

TEST_P(ClientTest, RunsOnEmptyArraysAndWithoutArguments) {
  auto empty = Compiled(R"(func.func public @main(%a: tensor<2x0xf32>) -> tensor<2x0xf32> {
    %0 = stablehlo.add %a, %a : tensor<2x0xf32>
    return %0 : tensor<2x0xf32> })");
  ASSERT_NE(empty, nullptr);
  Buffer none = Put(nullptr, {DType::kF32, {2, 0}});
  std::vector<Buffer> outputs = Run(*empty, {&none});
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(Get(outputs[0]), "");
  auto constant = Compiled(R"(func.func public @main() -> (tensor<i32>, tensor<i32>) {
    %0 = stablehlo.constant dense<0> : tensor<i32>
    return %0, %0 : tensor<i32>, tensor<i32> })");
  ASSERT_NE(constant, nullptr);
  outputs = Run(*constant, {});
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_EQ(Get(outputs[1]), std::string(4, '\0'));
}

TEST_P(ClientTest, SerializesAndLoadsOnAnotherDevice) {
  auto bytes = Compiled(kFirst)->Serialize();
  ASSERT_OK(bytes);
  for (int index : {0, 1}) {
    auto loaded = client().Load(*bytes, device(index), 1);
    ASSERT_OK(loaded);
    EXPECT_EQ((*loaded)->device(), device(index));
    EXPECT_EQ((*loaded)->outputs()[0], (Shape{DType::kF32, {2, 3}}));
    Buffer a = Floats({1, 2, 3, 4, 5, 6}, {2, 3}, index);
    EXPECT_EQ(GetFloats(Run(**loaded, {&a, &a})[0]), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  }
  EXPECT_CODE(Code::kDataLoss, client().Load(*bytes, device(), 2));
  EXPECT_CODE(Code::kInvalidArgument, client().Load("", device(), 1));
  EXPECT_FALSE(client().Load("not an executable", device(), 1).ok());
}

TEST_P(ClientTest, DonatedArgumentsAreGone) {
  auto executable = Compiled(kDonated);
  Buffer a = Floats({1, 2, 3, 4, 5, 6}, {2, 3});
  std::vector<Buffer> outputs = Run(*executable, {&a});
  ASSERT_EQ(outputs.size(), 1u);
  char bytes[24];
  auto read = a.ToHost(bytes, 24);
  EXPECT_CODE(Code::kFailedPrecondition, read);
  EXPECT_NE(MessageOf(read).find("donated"), std::string::npos) << MessageOf(read);
  EXPECT_CODE(Code::kFailedPrecondition, a.Ready());
  EXPECT_CODE(Code::kFailedPrecondition, a.CopyTo(device(1)));
  EXPECT_CODE(Code::kFailedPrecondition, a.HostPointer());
  EXPECT_CODE(Code::kFailedPrecondition, a.QueryShape());
  PJRT_Buffer *argument = a.raw(), *output = nullptr;
  EXPECT_FALSE(executable->Execute(&argument, 1, &output).ok());
  EXPECT_EQ(GetFloats(outputs[0]).size(), 6u);
}

TEST_P(ClientTest, RefusesWrongArguments) {
  auto executable = Compiled(kFirst);
  Buffer a = Floats({1, 2, 3, 4, 5, 6}, {2, 3}), other = Floats({1, 2, 3, 4, 5, 6}, {2, 3}, 1);
  PJRT_Buffer* output = nullptr;
  PJRT_Buffer* few[] = {a.raw()};
  EXPECT_FALSE(executable->Execute(few, 1, &output).ok());
  PJRT_Buffer* elsewhere[] = {a.raw(), other.raw()};
  EXPECT_FALSE(executable->Execute(elsewhere, 2, &output).ok());
}

TEST_P(ClientTest, CopiesBetweenDevices) {
  Buffer a = Floats({1, 2, 3}, {3});
  for (int index : {1, 0}) {
    auto copy = a.CopyTo(device(index));
    ASSERT_OK(copy);
    EXPECT_EQ(copy->device(), device(index));
    EXPECT_EQ(GetFloats(*copy), (std::vector<float>{1, 2, 3}));
    EXPECT_NE(copy->raw(), a.raw());
  }
  auto empty = Put(nullptr, {DType::kS64, {0}}).CopyTo(device(1));
  ASSERT_OK(empty);
  EXPECT_EQ(Get(*empty), "");
}

TEST_P(ClientTest, CountsBytes) {
  const MemoryStats before = device()->memory_stats();
  device()->ResetPeak();
  {
    Buffer a = Floats({1, 2, 3, 4}, {4});
    Buffer b = std::move(a);
    EXPECT_FALSE(a.valid());
    EXPECT_EQ(device()->memory_stats().bytes_in_use, before.bytes_in_use + 16);
    a = Floats({1, 2}, {2});
    EXPECT_EQ(device()->memory_stats().bytes_in_use, before.bytes_in_use + 24);
    EXPECT_EQ(device(1)->memory_stats().bytes_in_use, 0);
  }
  MemoryStats after = device()->memory_stats();
  EXPECT_EQ(after.bytes_in_use, before.bytes_in_use);
  EXPECT_EQ(after.peak_bytes_in_use, before.bytes_in_use + 24);
  EXPECT_EQ(after.num_allocs - before.num_allocs, 2);
  EXPECT_EQ(after.num_frees - before.num_frees, 2);
  EXPECT_EQ(after.plugin_bytes_in_use, -1);  // no CPU plugin says
  device()->ResetPeak();
  EXPECT_EQ(device()->memory_stats().peak_bytes_in_use, before.bytes_in_use);
}

TEST_P(ClientTest, RefusesBadInput) {
  float value = 0;
  Event done;
  auto put = [&](const void* data, const Shape& shape, HostSemantics semantics, Event* event) {
    return client().FromHost(data, shape, nullptr, semantics, device(), event);
  };
  EXPECT_CODE(Code::kInvalidArgument, put(&value, {}, HostSemantics::kCopy, nullptr));
  EXPECT_CODE(Code::kInvalidArgument,
              put(nullptr, {DType::kF32, {1}}, HostSemantics::kCopy, nullptr));
  EXPECT_CODE(Code::kInvalidArgument,
              put(&value, {DType::kF32, {-1}}, HostSemantics::kCopy, nullptr));
  EXPECT_CODE(Code::kInvalidArgument,
              put(&value, {DType::kF32, {1}}, HostSemantics::kZeroCopy, nullptr));
  Buffer a = Floats({1}, {1});
  EXPECT_CODE(Code::kInvalidArgument, a.ToHost(&value, 3));
  EXPECT_CODE(Code::kInvalidArgument, a.ToHost(nullptr, 4));
  EXPECT_CODE(Code::kFailedPrecondition, Buffer().Ready());
  EXPECT_CODE(Code::kInvalidArgument, a.CopyTo(FakePlugin("").NewClient()->devices()[0]));
  EXPECT_CODE(Code::kInvalidArgument, client().Compile("", device()));
  EXPECT_FALSE(client().Compile("this is no module", device()).ok());
  CompileOptions options;
  options.num_replicas = 0;
  EXPECT_CODE(Code::kInvalidArgument, client().Compile(kFirst, device(), options));
  options.num_replicas = 2;
  options.device_ids = {0, 0};
  EXPECT_CODE(Code::kInvalidArgument, client().Compile(kFirst, device(), options));
  options.num_replicas = 1;
  options.num_partitions = 2;
  options.device_ids = {0, 1};
  EXPECT_CODE(Code::kInvalidArgument, client().Compile(kFirst, device(), options));
  if (!real()) return;
  CompileOptions unknown;
  unknown.overrides = {{"xla_no_such_option", "1"}};
  auto executable = client().Compile(kFirst, device(), unknown);
  EXPECT_CODE(Code::kInvalidArgument, executable);
  EXPECT_NE(MessageOf(executable).find("xla_no_such_option"), std::string::npos);
  CompileOptions known;
  known.overrides = {{"xla_allow_excess_precision", "false"}};
  ASSERT_OK(client().Compile(kFirst, device(), known));
}

TEST_P(ClientTest, Reports) {
  auto executable = Compiled(kDonated);
  auto memory = executable->memory_report();
  ASSERT_OK(memory);
  EXPECT_EQ(memory->arguments, 24);
  EXPECT_EQ(memory->outputs, 24);
  EXPECT_EQ(memory->aliased, 24);
  auto cost = executable->cost_analysis();
  if (cost.ok()) {
    std::map<std::string, double> named(cost->begin(), cost->end());
    EXPECT_GT(named["flops"], 0);
  } else {
    EXPECT_CODE(Code::kUnimplemented, cost);  // newer CPU plugins
  }
}

TEST_P(ClientTest, EmptyEventsAreDone) {
  Event empty;
  EXPECT_FALSE(empty.valid());
  EXPECT_TRUE(empty.IsReady());
  ASSERT_OK(empty.Await());
  int calls = 0;
  ASSERT_OK(empty.OnReady([&calls](Status status) { calls += status.ok(); }));
  EXPECT_EQ(calls, 1);
}

TEST_P(ClientTest, ManyTransfersKeepMemoryFlat) {
  const int64_t before = device()->memory_stats().bytes_in_use;
  std::vector<float> values(256, 1.5f);
  for (int i = 0; i < 2000; ++i) {
    ASSERT_EQ(Get(Floats(values, {256})).size(), 1024u);
  }
  EXPECT_EQ(device()->memory_stats().bytes_in_use, before);
}

TEST_P(ClientTest, ThreadsShareAnExecutable) {
  auto executable = Compiled(kFirst);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Buffer a = Floats(std::vector<float>(6, static_cast<float>(t)), {2, 3});
      for (int i = 0; i < 200; ++i) {
        std::vector<Buffer> outputs = Run(*executable, {&a, &a});
        if (outputs.size() != 1 || GetFloats(outputs[0]) != GetFloats(a)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace torch_tpu::pjrt
