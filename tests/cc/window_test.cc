// SPDX-License-Identifier: Apache-2.0
// The window without torch, on the CPU plugin: liveness, donation, cuts that recur, failures.
#include "csrc/program/window.h"

#include <memory>
#include <thread>

#include "csrc/program/disk_cache.h"
#include "tests/cc/execute.h"

namespace torch_tpu::program {
namespace {

using ops::Cpu;

const ops::Schema kUnary{{"self"}, "aten::neg"};

// A template for neg or exp of one tensor of `shape`.
std::unique_ptr<Template> Unary(const char* op, const hlo::Shape& shape) {
  auto made = std::make_unique<Template>();
  ops::TensorArg self;
  self.value = 0;
  self.view.base = shape;
  self.view.dtype = shape.dtype;
  self.view.sizes = shape.dims;
  self.view.strides = hlo::Dims(shape.rank(), 1);
  for (int i = shape.rank() - 2; i >= 0; --i) {
    self.view.strides[i] = self.view.strides[i + 1] * shape.dims[i + 1];
  }
  ops::Arg arg;
  arg.kind = ops::ArgKind::kTensor;
  arg.tensors = {self};
  ops::Output output{};
  output.shape = shape;
  made->call.def = ops::FindOp(op);
  made->call.schema = &kUnary;
  made->call.args = {arg};
  made->call.outputs = {output};
  made->inputs.push_back({Input::Kind::kArgument, shape, -1});
  made->live = {0};
  made->outputs = {InternShape(shape)};
  made->bytes = {shape.bytes()};
  made->words = {std::hash<std::string>()(op), static_cast<uint64_t>(shape.numel())};
  return made;
}

class WindowTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ProgramCache::Set(new ProgramCache("test", std::make_unique<DiskCache>("", 0)));
  }

  void SetUp() override { Window::ResetFlushes(); }

  Ref<Value> Ready(const std::vector<float>& numbers) {
    hlo::Shape shape{hlo::DType::kF32, {static_cast<int64_t>(numbers.size())}};
    auto buffer = Cpu()->client().FromHost(numbers.data(), shape, nullptr,
                                           pjrt::HostSemantics::kCopy, Cpu(), nullptr);
    EXPECT_TRUE(buffer.ok()) << buffer.status().message();
    return Ref<Value>(new Value(InternShape(shape), std::move(buffer).value()));
  }

  Ref<Value> Record(const Template& call, const Ref<Value>& input) {
    Ref<Value> output;
    Status status = window_.Record(&call, &input, /*continues=*/false, &output);
    EXPECT_TRUE(status.ok()) << status.message();
    return output;
  }

  std::vector<float> Read(const Value& value) {
    EXPECT_TRUE(value.Await().ok());
    std::vector<float> numbers(value.shape().numel());
    auto done = value.buffer().ToHost(numbers.data(), value.bytes());
    EXPECT_TRUE(done.ok() && done->Await().ok());
    return numbers;
  }

  Window& window_ = Window::Of(Cpu());
  hlo::Shape two_{hlo::DType::kF32, {2}};
  std::unique_ptr<Template> neg_ = Unary("aten::neg", two_);
};

TEST_F(WindowTest, AReadClosesItAndDeadValuesAreNoOutputs) {
  Ref<Value> x = Ready({1, -2});
  Ref<Value> last = Record(*neg_, Record(*neg_, Record(*neg_, x)));
  EXPECT_TRUE(last->pending());
  EXPECT_EQ(Read(*last), (std::vector<float>{-1, 2}));
  EXPECT_FALSE(last->pending());
  EXPECT_EQ(Window::Flushes(), (std::map<std::string, int64_t>{{"host_read", 1}}));
}

TEST_F(WindowTest, EqualWindowsAreOneProgram) {
  auto run = [&] { return Read(*Record(*neg_, Record(*neg_, Ready({3, 4})))); };
  EXPECT_EQ(run(), (std::vector<float>{3, 4}));
  int64_t programs = ProgramCache::Get().size();
  EXPECT_EQ(run(), (std::vector<float>{3, 4}));
  EXPECT_EQ(ProgramCache::Get().size(), programs);
}

TEST_F(WindowTest, LivenessIsPartOfTheProgram) {
  Ref<Value> x = Ready({5, 6});
  Ref<Value> middle = Record(*neg_, x);
  Ref<Value> last = Record(*neg_, middle);
  EXPECT_EQ(Read(*last), (std::vector<float>{5, 6}));
  EXPECT_FALSE(middle->pending());
  EXPECT_EQ(Read(*middle), (std::vector<float>{-5, -6}));
}

TEST_F(WindowTest, LargeInputThatNobodyHoldsIsDonated) {
  int64_t count = (1 << 20) / 4 + 1024;
  auto neg = Unary("aten::neg", {hlo::DType::kF32, {count}});
  std::vector<float> numbers(count, 1.0f);
  int64_t before = Cpu()->memory_stats().bytes_in_use;
  Ref<Value> x = Ready(numbers);
  Ref<Value> y = Record(*neg, x);
  x = Ref<Value>();
  EXPECT_EQ(Read(*y)[count - 1], -1.0f);
  EXPECT_EQ(Cpu()->memory_stats().bytes_in_use - before, count * 4);
}

TEST_F(WindowTest, ALongStreamIsCutWhereItRecursAndStaysBounded) {
  Ref<Value> x = Ready({1, 1});
  for (int i = 0; i < 5000; ++i) x = Record(*neg_, x);
  EXPECT_EQ(Read(*x), (std::vector<float>{1, 1}));
  auto flushes = Window::Flushes();
  EXPECT_GE(flushes["repeat"] + flushes["size"], 5000 / 256);
  // Few distinct programs: the run is the same everywhere.
  Window::ResetFlushes();
  int64_t programs = ProgramCache::Get().size();
  for (int i = 0; i < 5000; ++i) x = Record(*neg_, x);
  EXPECT_EQ(Read(*x), (std::vector<float>{1, 1}));
  EXPECT_LE(ProgramCache::Get().size() - programs, 2);
}

TEST_F(WindowTest, AnotherThreadClosesItUnlessItContinues) {
  Ref<Value> x = Ready({7, 8});
  Ref<Value> mine = Record(*neg_, x), theirs, continued;
  std::thread([&] {
    EXPECT_TRUE(window_.Record(neg_.get(), &mine, /*continues=*/true, &continued).ok());
  }).join();
  EXPECT_TRUE(mine->pending());
  std::thread([&] { theirs = Record(*neg_, mine); }).join();
  EXPECT_FALSE(mine->pending());
  EXPECT_EQ(Window::Flushes()["other_thread"], 1);
  EXPECT_EQ(Read(*theirs), (std::vector<float>{7, 8}));
}

TEST_F(WindowTest, AFailedCompileIsTheErrorOfEveryPendingValue) {
  auto bad = Unary("aten::neg", two_);
  // The template promises another shape than its lowering gives.
  bad->call.outputs[0].shape = {hlo::DType::kF32, {3}};
  bad->words.push_back(1);
  Ref<Value> first = Record(*bad, Ready({1, 2}));
  Status status = first->Resolve();
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("aten::neg"), std::string::npos) << status.message();
  // Using it again tells the same; the window goes on with sound values.
  Ref<Value> output;
  EXPECT_FALSE(window_.Record(neg_.get(), &first, false, &output).ok());
  EXPECT_EQ(Read(*Record(*neg_, Ready({1, 2}))), (std::vector<float>{-1, -2}));
}

}  // namespace
}  // namespace torch_tpu::program
