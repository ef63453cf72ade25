// SPDX-License-Identifier: Apache-2.0
// Failures that only the fake plugin can give: on the n-th call, out of memory, late, and on
// platforms that are not the CPU.
#include <atomic>
#include <chrono>
#include <thread>

#include "csrc/pjrt/client.h"
#include "tests/cc/pjrt_fixture.h"

namespace torch_tpu::pjrt {
namespace {

using hlo::DType;
using hlo::Shape;
using torch_tpu::testing::FakePlugin;
using torch_tpu::testing::MessageOf;

const Shape kShape{DType::kF32, {4}};
constexpr const char* kCopy = "func @main(%a: tensor<4xf32>) -> tensor<4xf32> {}";
constexpr const char* kDonate =
    "func @main(%a: tensor<4xf32> {jax.buffer_donor = true}, %b: tensor<4xf32>) -> tensor<4xf32> "
    "{}";

StatusOr<Buffer> Put(Client* client) {
  static const float values[4] = {1, 2, 3, 4};
  return client->FromHost(values, kShape, nullptr, HostSemantics::kCopy, client->devices()[0]);
}

TEST(Failure, OnlyTheNthCallFails) {
  FakePlugin fake("");
  Client* client = fake.NewClient();
  fake.Configure("fail=PJRT_Client_BufferFromHostBuffer 2 14 link down");
  ASSERT_OK(Put(client));
  auto second = Put(client);
  EXPECT_CODE(Code::kUnavailable, second);
  EXPECT_NE(MessageOf(second).find("link down"), std::string::npos);
  ASSERT_OK(Put(client));
}

TEST(Failure, EveryStepOfCreatingAClient) {
  for (const char* step :
       {"PJRT_Client_Create", "PJRT_Client_PlatformName", "PJRT_Client_PlatformVersion",
        "PJRT_Client_AddressableDevices", "PJRT_Device_GetDescription", "PJRT_DeviceDescription_Id",
        "PJRT_DeviceDescription_Kind"}) {
    FakePlugin fake(std::string("fail=") + step + " 1 13 broken");
    auto plugin = Plugin::Load(fake.path());
    ASSERT_OK(plugin);
    auto client = Client::Create(*plugin, 1);
    EXPECT_CODE(Code::kInternal, client);
    EXPECT_NE(MessageOf(client).find("broken"), std::string::npos);
    EXPECT_EQ(fake.Calls("PJRT_Client_Destroy"), step == std::string("PJRT_Client_Create") ? 0 : 1);
  }
  FakePlugin none("devices=0");
  EXPECT_CODE(Code::kFailedPrecondition, Client::Create(*Plugin::Load(none.path()), 0));
}

// Nothing is lost when a step after the compile fails.
TEST(Failure, EveryStepOfCompiling) {
  FakePlugin fake("");
  Client* client = fake.NewClient();
  for (const char* step :
       {"PJRT_Client_Compile", "PJRT_LoadedExecutable_GetExecutable", "PJRT_Executable_NumOutputs",
        "PJRT_Executable_OutputElementTypes", "PJRT_Executable_OutputDimensions"}) {
    fake.Configure(std::string("fail=") + step + " 1 13 broken");
    EXPECT_CODE(Code::kInternal, client->Compile(kCopy, client->devices()[0]));
    EXPECT_EQ(fake.Live(), 0) << step;
  }
}

TEST(Failure, OutOfMemoryIsCountedAndSaysWhatToTry) {
  FakePlugin fake("memory_limit=40");
  Client* client = fake.NewClient();
  Device* device = client->devices()[0];
  auto executable = client->Compile(kCopy, device);
  ASSERT_OK(executable);
  auto a = Put(client), b = Put(client);
  ASSERT_OK(a);
  ASSERT_OK(b);
  auto c = Put(client);
  EXPECT_CODE(Code::kResourceExhausted, c);
  EXPECT_NE(MessageOf(c).find("Try:"), std::string::npos);
  PJRT_Buffer *argument = a->raw(), *output = nullptr;
  EXPECT_CODE(Code::kResourceExhausted, (*executable)->Execute(&argument, 1, &output));
  EXPECT_EQ(device->memory_stats().num_ooms, 2);
  b = Status();  // frees it
  ASSERT_OK((*executable)->Execute(&argument, 1, &output));
  Buffer owned(device, output, kShape.bytes());
}

TEST(Failure, LateErrorsComeThroughReadinessAndSpread) {
  FakePlugin fake("");
  Client* client = fake.NewClient();
  Device* device = client->devices()[0];
  auto executable = client->Compile(kCopy, device);
  ASSERT_OK(executable);
  auto a = Put(client);
  ASSERT_OK(a);
  fake.Configure("late=1 13 chip on fire;delay_ms=20");
  PJRT_Buffer *argument = a->raw(), *first = nullptr, *second = nullptr;
  ASSERT_OK((*executable)->Execute(&argument, 1, &first));
  ASSERT_OK((*executable)->Execute(&first, 1, &second));
  Buffer poisoned(device, first, 16), user(device, second, 16);
  std::atomic<int> seen{-1};
  {
    auto ready = poisoned.Ready();
    ASSERT_OK(ready);
    EXPECT_FALSE(ready->IsReady());
    // The event may go before its callback runs.
    ASSERT_OK(ready->OnReady([&seen](Status status) { seen = static_cast<int>(status.code()); }));
  }
  for (const Buffer* buffer : {&poisoned, &user}) {
    auto ready = buffer->Ready();
    ASSERT_OK(ready);
    Status status = ready->Await();
    EXPECT_CODE(Code::kInternal, status);
    EXPECT_NE(status.message().find("chip on fire"), std::string::npos);
    float values[4];
    auto read = buffer->ToHost(values, 16);
    EXPECT_CODE(Code::kInternal, read.ok() ? read->Await() : read.status());
  }
  for (int i = 0; i < 1000 && seen < 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(seen, static_cast<int>(Code::kInternal));
}

TEST(Failure, ReadsOfPendingBuffersWait) {
  FakePlugin fake("delay_ms=30");
  Client* client = fake.NewClient();
  auto a = Put(client);
  ASSERT_OK(a);
  float values[4] = {};
  auto done = a->ToHost(values, 16);
  ASSERT_OK(done);
  EXPECT_FALSE(done->IsReady());
  ASSERT_OK(done->Await());
  EXPECT_EQ(values[3], 4);
  EXPECT_EQ(fake.Calls("PJRT_Buffer_UnsafePointer"), 0);
}

TEST(Failure, OffTheCpuReadsAskForARowMajorLayout) {
  FakePlugin fake("platform=tpu;memory_stats=1;memory_limit=1000");
  Client* client = fake.NewClient(0);
  EXPECT_EQ(client->platform(), "tpu");
  EXPECT_FALSE(client->is_cpu());
  auto a = Put(client);
  ASSERT_OK(a);
  auto pointer = a->HostPointer();
  ASSERT_OK(pointer);
  EXPECT_EQ(*pointer, nullptr);
  float values[4] = {};
  auto done = a->ToHost(values, 16);
  ASSERT_OK(done);
  ASSERT_OK(done->Await());
  EXPECT_EQ(values[3], 4);
  EXPECT_EQ(fake.Calls("PJRT_Buffer_ToHostBuffer"), 1);
  MemoryStats stats = client->devices()[0]->memory_stats();
  EXPECT_EQ(stats.plugin_bytes_in_use, 16);
  EXPECT_EQ(stats.plugin_peak_bytes, -1);
  EXPECT_EQ(stats.bytes_limit, 1000);
  auto attributes = client->devices()[0]->attributes();
  ASSERT_EQ(attributes.size(), 1u);
  EXPECT_EQ(attributes[0].name + "=" + attributes[0].value, "core_on_chip=0");
}

TEST(Failure, TheSameBufferTwiceIsNotDonated) {
  FakePlugin fake("");
  Client* client = fake.NewClient();
  auto executable = client->Compile(kDonate, client->devices()[0]);
  ASSERT_OK(executable);
  auto a = Put(client), b = Put(client);
  PJRT_Buffer *twice[] = {a->raw(), a->raw()}, *fine[] = {a->raw(), b->raw()}, *output = nullptr;
  EXPECT_CODE(Code::kInvalidArgument, (*executable)->Execute(twice, 2, &output));
  EXPECT_EQ(fake.Violations(), 1);
  ASSERT_OK((*executable)->Execute(fine, 2, &output));
  Buffer owned(client->devices()[0], output, 16);
  EXPECT_CODE(Code::kInvalidArgument, (*executable)->Execute(fine, 2, &output));
  EXPECT_EQ(fake.Violations(), 2);
}

// The hot path is one call of the plugin, and everything made is destroyed.
TEST(Failure, ExecuteIsOneCallAndNothingLeaks) {
  FakePlugin fake("");
  Client* client = fake.NewClient();
  {
    auto executable = client->Compile(kCopy, client->devices()[0]);
    ASSERT_OK(executable);
    auto a = Put(client);
    ASSERT_OK(a);
    fake.Configure("");
    PJRT_Buffer *argument = a->raw(), *output = nullptr;
    ASSERT_OK((*executable)->Execute(&argument, 1, &output));
    {
      Buffer owned(client->devices()[0], output, 16);
    }
    EXPECT_EQ(fake.Log(), "PJRT_LoadedExecutable_Execute\nPJRT_Buffer_Destroy\n");
    float values[4];
    ASSERT_OK(a->ToHost(values, 16));
    ASSERT_OK((*executable)->Serialize());
    ASSERT_OK(a->CopyTo(client->devices()[0]));
    EXPECT_GT(fake.Live(), 0);
  }
  EXPECT_EQ(fake.Live(), 0);
}

}  // namespace
}  // namespace torch_tpu::pjrt
