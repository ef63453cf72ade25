// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of pjrt/ and program/: the fake plugin, set up per test.
#pragma once

#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "csrc/pjrt/client.h"
#include "gtest/gtest.h"

namespace torch_tpu::testing {

// A copy of the fake plugin of its own, so that each has its state and API table; the file lives as
// long as the process.
class FakePlugin {
 public:
  explicit FakePlugin(const std::string& config) {
    static int count = 0;
    static const std::string folder = [] {
      std::string name = (std::filesystem::temp_directory_path() / "fake_pjrt_XXXXXX").string();
      EXPECT_NE(::mkdtemp(name.data()), nullptr);
      static std::string removed;
      removed = name;
      std::atexit([] {
        std::error_code ignored;
        std::filesystem::remove_all(removed, ignored);
      });
      return name;
    }();
    path_ = folder + "/fake_" + std::to_string(++count) + ".so";
    std::filesystem::copy_file(FAKE_PJRT_PATH, path_);
    handle_ = ::dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(handle_, nullptr) << ::dlerror();
    Configure(config);
  }

  void Configure(const std::string& config) {
    EXPECT_EQ(Find<int(const char*)>("FakePjrt_Configure")(config.c_str()), 0) << config;
  }
  int64_t Calls(const char* function) {
    return Find<int64_t(const char*)>("FakePjrt_Calls")(function);
  }
  int64_t Live() { return Find<int64_t()>("FakePjrt_Live")(); }
  int64_t Violations() { return Find<int64_t()>("FakePjrt_Violations")(); }
  std::string Log() { return Find<const char*()>("FakePjrt_Log")(); }
  const std::string& path() const { return path_; }

  pjrt::Client* NewClient(int num_devices = 1) {
    auto plugin = pjrt::Plugin::Load(path_);
    EXPECT_TRUE(plugin.ok()) << plugin.status().ToString();
    if (!plugin.ok()) return nullptr;
    auto client = pjrt::Client::Create(*plugin, num_devices);
    EXPECT_TRUE(client.ok()) << client.status().ToString();
    return client.ok() ? *client : nullptr;
  }

 private:
  template <typename F>
  F* Find(const char* name) {
    return reinterpret_cast<F*>(::dlsym(handle_, name));
  }
  std::string path_;
  void* handle_ = nullptr;
};

}  // namespace torch_tpu::testing

#define ASSERT_OK(expression)                                           \
  do {                                                                  \
    const auto& tt_result = (expression);                               \
    ASSERT_TRUE(tt_result.ok()) << torch_tpu::testing::Text(tt_result); \
  } while (false)
#define EXPECT_CODE(expected, expression)                      \
  do {                                                         \
    const auto& tt_result = (expression);                      \
    EXPECT_EQ(torch_tpu::testing::CodeOf(tt_result), expected) \
        << torch_tpu::testing::Text(tt_result);                \
  } while (false)

namespace torch_tpu::testing {
inline std::string Text(const Status& status) { return status.ToString(); }
template <typename T>
std::string Text(const StatusOr<T>& result) {
  return result.status().ToString();
}
inline Code CodeOf(const Status& status) { return status.code(); }
template <typename T>
Code CodeOf(const StatusOr<T>& result) {
  return result.status().code();
}
inline std::string MessageOf(const Status& status) { return status.message(); }
template <typename T>
std::string MessageOf(const StatusOr<T>& result) {
  return result.status().message();
}
}  // namespace torch_tpu::testing
