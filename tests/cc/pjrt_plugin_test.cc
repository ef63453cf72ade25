// SPDX-License-Identifier: Apache-2.0
// Loading a plugin, choosing one, and all that can be wrong with it.
#include <fstream>

#include "csrc/pjrt/plugin.h"
#include "csrc/pjrt/topology.h"
#include "csrc/pjrt/xla_flags.h"
#include "pjrt_c_api.h"
#include "tests/cc/pjrt_fixture.h"

namespace torch_tpu::pjrt {
namespace {

namespace fs = std::filesystem;
using ::testing::Test;
using torch_tpu::testing::FakePlugin;
using torch_tpu::testing::MessageOf;

// Sets variables and puts the old values back.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    const char* old = std::getenv(name);
    if (old != nullptr) old_ = old;
    had_ = old != nullptr;
    ::setenv(name, value.c_str(), 1);
  }
  ~Environment() {
    if (had_) {
      ::setenv(name_, old_.c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }

 private:
  const char* name_;
  std::string old_;
  bool had_ = false;
};

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "pjrt_test_XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  fs::path Write(const std::string& name, const std::string& text) {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
    return path_ / name;
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void ExpectRefused(const std::string& path, Code code, const std::string& words) {
  auto plugin = Plugin::Load(path);
  EXPECT_CODE(code, plugin);
  EXPECT_NE(MessageOf(plugin).find(words), std::string::npos) << MessageOf(plugin);
  EXPECT_NE(MessageOf(plugin).find("Try:"), std::string::npos) << MessageOf(plugin);
}

TEST(Plugin, RefusesWhatIsNoPlugin) {
  Folder folder;
  ExpectRefused("", Code::kNotFound, "no plugin file");
  ExpectRefused("/does/not/exist.so", Code::kNotFound, "/does/not/exist.so");
  ExpectRefused(folder.path(), Code::kInvalidArgument, "which is no file");
  ExpectRefused(folder.Write("text.so", "hello"), Code::kInvalidArgument, "cannot load");
  ExpectRefused(folder.Write("empty.so", ""), Code::kInvalidArgument, "cannot load");
  // A shared library without GetPjrtApi: the C library itself.
  Dl_info libc;
  ASSERT_NE(::dladdr(reinterpret_cast<void*>(&std::getenv), &libc), 0);
  ExpectRefused(libc.dli_fname, Code::kInvalidArgument, "no GetPjrtApi");
}

TEST(Plugin, ChecksTheVersion) {
  ExpectRefused(FakePlugin("api_major=1").path(), Code::kFailedPrecondition, "PJRT API 1.81");
  ExpectRefused(FakePlugin("api_minor=40").path(), Code::kFailedPrecondition, "PJRT API 0.40");
  for (const char* minor : {"api_minor=57", "api_minor=117", "api_minor=900"}) {
    ASSERT_OK(Plugin::Load(FakePlugin(minor).path()));
  }
}

TEST(Plugin, ChecksTheTable) {
  ExpectRefused(FakePlugin("api_struct_size=0").path(), Code::kInvalidArgument, "of 0 bytes");
  ExpectRefused(FakePlugin("api_struct_size=200").path(), Code::kUnimplemented, "has no PJRT_");
  ExpectRefused(FakePlugin("missing=PJRT_LoadedExecutable_Execute").path(), Code::kUnimplemented,
                "PJRT_LoadedExecutable_Execute");
  ExpectRefused(FakePlugin("fail=PJRT_Plugin_Initialize 1 10 lock held").path(), Code::kAborted,
                "lock held");
}

TEST(Plugin, OptionalFunctionsMayBeAbsent) {
  FakePlugin fake("missing=PJRT_Plugin_Attributes,PJRT_Client_Compile,PJRT_Buffer_CopyToDevice");
  auto plugin = Plugin::Load(fake.path());
  ASSERT_OK(plugin);
  EXPECT_TRUE((*plugin)->attributes().empty());
  EXPECT_FALSE((*plugin)->HasFunctionAt(offsetof(PJRT_Api, PJRT_Client_Compile)));
  EXPECT_TRUE((*plugin)->HasFunctionAt(offsetof(PJRT_Api, PJRT_Buffer_Destroy)));
  EXPECT_FALSE((*plugin)->HasFunctionAt(PJRT_Api_STRUCT_SIZE + 64));
  Client* client = fake.NewClient();
  auto executable = client->Compile("module", client->devices()[0]);
  EXPECT_CODE(Code::kUnimplemented, executable);
  EXPECT_NE(MessageOf(executable).find("PJRT_Client_Compile"), std::string::npos);
}

TEST(Plugin, SameFileIsLoadedOnce) {
  FakePlugin fake("");
  auto first = Plugin::Load(fake.path());
  auto second =
      Plugin::Load(fs::path(fake.path()).parent_path() / "." / fs::path(fake.path()).filename());
  ASSERT_OK(first);
  ASSERT_OK(second);
  EXPECT_EQ(*first, *second);
  EXPECT_EQ(fake.Calls("PJRT_Plugin_Initialize"), 1);
  EXPECT_EQ((*first)->api_minor(), 81);
  ASSERT_EQ((*first)->attributes().size(), 1u);
  EXPECT_EQ((*first)->attributes()[0].name, "xla_version");
  EXPECT_EQ((*first)->attributes()[0].value, "2");
}

// A plugin newer than our header has larger args structs: the zeroed tail covers them.
TEST(Plugin, AcceptsLargerArgs) {
  FakePlugin fake("args_growth=128");
  Client* client = fake.NewClient();
  float value = 3;
  ASSERT_OK(client->FromHost(&value, {hlo::DType::kF32, {}}, nullptr, HostSemantics::kCopy,
                             client->devices()[0]));
}

TEST(Plugin, ErrorsKeepCodeAndText) {
  FakePlugin fake("");
  Client* client = fake.NewClient();
  for (int code = 1; code <= 16; ++code) {
    fake.Configure("fail=PJRT_Client_Compile 1 " + std::to_string(code) + " the reason");
    auto executable = client->Compile("x", client->devices()[0]);
    // 16, UNAUTHENTICATED, has no twin.
    EXPECT_CODE(code == 16 ? Code::kUnknown : static_cast<Code>(code), executable);
    EXPECT_NE(MessageOf(executable).find("the reason"), std::string::npos);
  }
}

TEST(Plugin, FingerprintFollowsTheContent) {
  Folder cache;
  Environment variable("TORCH_TPU_CACHE_DIR", cache.path());
  FakePlugin fake("");
  auto plugin = Plugin::Load(fake.path());
  ASSERT_OK(plugin);
  auto first = (*plugin)->Fingerprint();
  ASSERT_OK(first);
  // The second comes from the memo: a spoiled memo for the same file shows that it is read.
  fs::path memo = fs::directory_iterator(cache.path())->path();
  auto again = (*plugin)->Fingerprint();
  ASSERT_OK(again);
  EXPECT_EQ(*first, *again);
  std::ofstream(memo) << "torn";
  again = (*plugin)->Fingerprint();
  ASSERT_OK(again);
  EXPECT_EQ(*first, *again);
  std::ofstream(fake.path(), std::ios::app) << "one more byte";
  auto changed = (*plugin)->Fingerprint();
  ASSERT_OK(changed);
  EXPECT_NE(*first, *changed);
}

TEST(XlaFlags, UnknownOnesAreFoundBeforeXlaDies) {
  void* handle = ::dlopen(CPU_PLUGIN_PATH, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr) << ::dlerror();
  void* symbol = ::dlsym(handle, "GetPjrtApi");
  auto check = [symbol](const std::string& flags) {
    Environment variable("XLA_FLAGS", flags);
    return CheckXlaFlags(symbol, CPU_PLUGIN_PATH);
  };
  ASSERT_OK(check(""));
  ASSERT_OK(check("--xla_cpu_max_isa=AVX --xla_dump_to=/tmp"));
  Status status = check("--xla_cpu_max_isa=AVX --xla_no_such_flag=1");
  EXPECT_CODE(Code::kInvalidArgument, status);
  EXPECT_NE(status.message().find("--xla_no_such_flag"), std::string::npos);
  EXPECT_NE(status.message().find("Try:"), std::string::npos);
  EXPECT_CODE(Code::kInvalidArgument, check("--xla_cpu_max"));  // a part of a name is no name
  EXPECT_CODE(Code::kNotFound, check("no_such_file_of_flags"));
  Environment tpu_only("LIBTPU_INIT_ARGS", "--xla_tpu_of_some_kind=1");
  ASSERT_OK(check(""));  // the CPU plugin does not read that variable
}

TEST(Runtime, ChoosesByVariable) {
  Folder site;
  std::string cpu = site.Write("xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so", "");
  std::vector<std::string> folders = {"/nowhere", site.path()};
  {
    Environment variable("TORCH_TPU_RUNTIME", "cpu");
    auto choice = ChooseRuntime(folders);
    ASSERT_OK(choice);
    EXPECT_EQ(choice->kind, RuntimeKind::kCpu);
    EXPECT_EQ(choice->path, cpu);
    EXPECT_CODE(Code::kNotFound, ChooseRuntime({}));
    EXPECT_NE(MessageOf(ChooseRuntime({})).find("pip install xla-cpu-pjrt"), std::string::npos);
  }
  if (!HasTpu()) {
    Environment variable("TORCH_TPU_RUNTIME", "auto");
    auto choice = ChooseRuntime(folders);
    ASSERT_OK(choice);
    EXPECT_EQ(choice->kind, RuntimeKind::kCpu);
  }
  {
    Environment variable("TORCH_TPU_RUNTIME", "tpu");
    Environment library("TPU_LIBRARY_PATH", "");
    EXPECT_CODE(Code::kNotFound, ChooseRuntime(folders));
    std::string tpu = site.Write("libtpu/libtpu.so", "");
    auto choice = ChooseRuntime(folders);
    ASSERT_OK(choice);
    EXPECT_EQ(choice->path, tpu);
    Environment own("TPU_LIBRARY_PATH", "/own/libtpu.so");
    EXPECT_EQ(ChooseRuntime(folders)->path, "/own/libtpu.so");
  }
  {
    Environment variable("TORCH_TPU_RUNTIME", cpu);
    auto choice = ChooseRuntime({});
    ASSERT_OK(choice);
    EXPECT_EQ(choice->kind, RuntimeKind::kPath);
    EXPECT_EQ(choice->path, cpu);
  }
  for (const char* wrong : {"/no/such/plugin.so", "gpu"}) {
    Environment variable("TORCH_TPU_RUNTIME", wrong);
    auto choice = ChooseRuntime(folders);
    EXPECT_FALSE(choice.ok());
    EXPECT_NE(MessageOf(choice).find(wrong), std::string::npos);
    EXPECT_NE(MessageOf(choice).find("Try:"), std::string::npos);
  }
}

TEST(Runtime, FindsTpusOnThePciBus) {
  Folder pci;
  EXPECT_FALSE(HasTpu("/no/such/folder"));
  EXPECT_FALSE(HasTpu(pci.path()));
  pci.Write("0000:00:01.0/vendor", "0x8086\n");
  pci.Write("0000:00:01.0/device", "0x0076\n");
  EXPECT_FALSE(HasTpu(pci.path()));
  pci.Write("0000:00:02.0/vendor", "0x1ae0\n");
  pci.Write("0000:00:02.0/device", "0x0042\n");  // Google's network card
  EXPECT_FALSE(HasTpu(pci.path()));
  pci.Write("0000:00:03.0/vendor", "0x1ae0\n");
  pci.Write("0000:00:03.0/device", "0x0076\n");
  EXPECT_TRUE(HasTpu(pci.path()));
}

std::string Bytes(std::initializer_list<int> values) {
  std::string bytes;
  for (int value : values) bytes += static_cast<char>(value);
  return bytes;
}

// Bytes that libtpu and the CPU plugins were seen to accept.
TEST(CompileOptions, GoldenBytes) {
  CompileOptions one;
  one.device_ids = {0};
  EXPECT_EQ(SerializeCompileOptions(one),
            Bytes({0x1a, 0x0f, 0x20, 1, 0x28, 1, 0x4a, 9, 8, 1, 0x10, 1, 0x1a, 3, 0x0a, 1, 0}));
  EXPECT_EQ(SerializeCompileOptions({}), Bytes({0x1a, 0x0f, 0x08, 0xff, 0xff, 0xff, 0xff, 0xff,
                                                0xff, 0xff, 0xff, 0xff, 0x01, 0x20, 1, 0x28, 1}));
  CompileOptions four;
  four.num_partitions = 4;
  four.device_ids = {0, 1, 2, 3};
  four.use_spmd = four.use_shardy = true;
  EXPECT_EQ(SerializeCompileOptions(four),
            Bytes({0x1a, 0x23, 0x20, 1,    0x28, 4,    0x30, 1, 0x4a, 0x18, 8, 1,    0x10,
                   4,    0x1a, 3,    0x0a, 1,    0,    0x1a, 3, 0x0a, 1,    1, 0x1a, 3,
                   0x0a, 1,    2,    0x1a, 3,    0x0a, 1,    3, 0x98, 1,    1}));
  CompileOptions grid;  // 2 replicas x 2 partitions: a column of the grid per partition
  grid.num_replicas = grid.num_partitions = 2;
  grid.device_ids = {0, 1, 2, 300};
  EXPECT_EQ(SerializeCompileOptions(grid),
            Bytes({0x1a, 0x17, 0x20, 2, 0x28, 2,    0x4a, 0x11, 8, 2, 0x10, 2, 0x1a,
                   4,    0x0a, 2,    0, 2,    0x1a, 5,    0x0a, 3, 1, 0xac, 2}));
}

TEST(CompileOptions, OverridesAreTypedByText) {
  CompileOptions options;
  options.device_ids = {0};
  options.effort = 9;
  options.overrides = {{"a", "true"}, {"b", "-1"}, {"c", "x1"}, {"d", ""}};
  std::string bytes = SerializeCompileOptions(options);
  EXPECT_EQ(bytes.substr(bytes.find('\x3a')),
            Bytes({0x3a, 7,    0x0a, 1,    'a',  0x12, 2,    0x10, 1,    0x3a, 0x10, 0x0a,
                   1,    'b',  0x12, 0x0b, 0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                   0xff, 0xff, 0x01, 0x3a, 9,    0x0a, 1,    'c',  0x12, 4,    0x0a, 2,
                   'x',  '1',  0x3a, 7,    0x0a, 1,    'd',  0x12, 2,    0x0a, 0}));
  EXPECT_NE(bytes.find(Bytes({0xc0, 1, 9})), std::string::npos);  // field 24: the effort
}

TEST(Topology, CompilesAheadOfTime) {
  FakePlugin fake("");
  auto plugin = Plugin::Load(fake.path());
  ASSERT_OK(plugin);
  auto topology = Topology::Create(*plugin, "fake:4");
  ASSERT_OK(topology);
  EXPECT_EQ((*topology)->num_devices(), 4);
  EXPECT_EQ((*topology)->device_kinds(), std::vector<std::string>(4, "fake"));
  auto report = (*topology)->Compile("func @main(%a: tensor<4xf32>) -> tensor<4xf32> {}", {});
  ASSERT_OK(report);
  EXPECT_EQ(report->memory.arguments, 16);
  EXPECT_EQ(report->memory.outputs, 16);
  EXPECT_FALSE(report->serialized.empty());
  ASSERT_EQ(report->cost.size(), 1u);
  EXPECT_EQ(report->cost[0].first, "flops");
  EXPECT_CODE(Code::kInvalidArgument, (*topology)->Compile("", {}));
  EXPECT_CODE(Code::kInvalidArgument, (*topology)->Compile("nothing", {}));
  CompileOptions eight;
  eight.num_replicas = 8;
  EXPECT_CODE(Code::kInvalidArgument, (*topology)->Compile("x", eight));
  EXPECT_CODE(Code::kInvalidArgument, Topology::Create(*plugin, ""));
  EXPECT_CODE(Code::kInvalidArgument, Topology::Create(*plugin, "tpu99:1"));
}

}  // namespace
}  // namespace torch_tpu::pjrt
