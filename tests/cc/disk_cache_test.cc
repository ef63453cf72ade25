// SPDX-License-Identifier: Apache-2.0
#include "csrc/program/disk_cache.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "csrc/program/store_queue.h"
#include "gtest/gtest.h"

namespace torch_tpu::program {
namespace {

namespace fs = std::filesystem;

class DiskCacheTest : public ::testing::Test {
 protected:
  DiskCacheTest() {
    std::string name = (fs::temp_directory_path() / "disk_cache_XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
    folder_ = root_ + "/cache";
  }
  ~DiskCacheTest() override {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  std::string PathOf(const std::string& key) { return folder_ + "/" + EntryName(key) + ".prog"; }
  std::string ReadAll(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void WriteAll(const std::string& path, const std::string& content) {
    std::ofstream(path, std::ios::binary) << content;
  }
  void SetAge(const std::string& path, int seconds) {
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::seconds(seconds));
  }

  std::string root_, folder_;
};

TEST_F(DiskCacheTest, GivesBackWhatWasStored) {
  DiskCache cache(folder_, 1 << 20);
  ASSERT_TRUE(cache.enabled());
  EXPECT_EQ(cache.Load("key"), std::nullopt);
  std::string payload("\0binary\n\xff", 9);
  cache.Store("key", "aten::add\nf32[]\nf32[]", payload);
  EXPECT_EQ(cache.Load("key"), payload);
  EXPECT_EQ(cache.Load("other"), std::nullopt);
  EXPECT_EQ(DiskCache(folder_, 1 << 20).Load("key"), payload);
  EXPECT_EQ(cache.Stats().entries, 1);
  std::vector<DiskEntry> entries = cache.List(/*verify=*/true);
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_TRUE(entries[0].good);
  EXPECT_EQ(entries[0].key, "key");
  EXPECT_EQ(entries[0].description, "aten::add\nf32[]\nf32[]");
}

TEST_F(DiskCacheTest, FolderAndEntriesArePrivate) {
  DiskCache cache(folder_, 1 << 20);
  cache.Store("key", "", "payload");
  struct stat info;
  ASSERT_EQ(::stat(folder_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ASSERT_EQ(::stat(PathOf("key").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(DiskCacheTest, EachFlippedBitIsAMissAndRemoved) {
  DiskCache cache(folder_, 1 << 20);
  cache.Store("key", "words", "payload");
  const std::string good = ReadAll(PathOf("key"));
  for (size_t byte = 0; byte < good.size(); ++byte) {
    std::string bad = good;
    bad[byte] ^= static_cast<char>(1 << (byte % 8));
    WriteAll(PathOf("key"), bad);
    EXPECT_EQ(cache.Load("key"), std::nullopt) << "byte " << byte;
    EXPECT_FALSE(fs::exists(PathOf("key"))) << "byte " << byte;
  }
}

TEST_F(DiskCacheTest, EachTruncationIsAMissAndRemoved) {
  DiskCache cache(folder_, 1 << 20);
  cache.Store("key", "words", "payload");
  const std::string good = ReadAll(PathOf("key"));
  for (size_t size = 0; size < good.size(); ++size) {
    WriteAll(PathOf("key"), good.substr(0, size));
    EXPECT_EQ(cache.Load("key"), std::nullopt) << size;
    EXPECT_FALSE(fs::exists(PathOf("key"))) << size;
  }
  WriteAll(PathOf("key"), good + "x");
  EXPECT_EQ(cache.Load("key"), std::nullopt);
}

TEST_F(DiskCacheTest, AnotherKeysFileIsAMiss) {
  DiskCache cache(folder_, 1 << 20);
  cache.Store("key", "", "payload");
  fs::rename(PathOf("key"), PathOf("other"));
  std::vector<DiskEntry> entries = cache.List(/*verify=*/true);
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_FALSE(entries[0].good);
  EXPECT_EQ(cache.Load("other"), std::nullopt);
  EXPECT_FALSE(fs::exists(PathOf("other")));
}

TEST_F(DiskCacheTest, OnlyPlainFilesOfOursAreLoaded) {
  DiskCache cache(folder_, 1 << 20);
  cache.Store("key", "", "payload");
  fs::rename(PathOf("key"), root_ + "/elsewhere");
  fs::create_symlink(root_ + "/elsewhere", PathOf("key"));
  EXPECT_EQ(cache.Load("key"), std::nullopt);
  EXPECT_TRUE(fs::exists(root_ + "/elsewhere"));
  if (::geteuid() != 0) return;  // giving a file away takes root
  cache.Store("key", "", "payload");
  ASSERT_EQ(::chown(PathOf("key").c_str(), 12345, 12345), 0);
  EXPECT_EQ(cache.Load("key"), std::nullopt);
  EXPECT_FALSE(fs::exists(PathOf("key")));
}

TEST_F(DiskCacheTest, AFolderThatOthersMayWriteIsNotUsed) {
  fs::create_directory(folder_);
  ASSERT_EQ(::chmod(folder_.c_str(), 0777), 0);
  ::testing::internal::CaptureStderr();
  DiskCache cache(folder_, 1 << 20);
  EXPECT_FALSE(cache.enabled());
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("can be written by another user"),
            std::string::npos);
}

TEST_F(DiskCacheTest, AFileInPlaceOfTheFolderWarnsOnce) {
  WriteAll(folder_, "in the way");
  ::testing::internal::CaptureStderr();
  DiskCache cache(folder_, 1 << 20);
  EXPECT_FALSE(cache.enabled());
  cache.Store("key", "", "payload");
  EXPECT_EQ(cache.Load("key"), std::nullopt);
  EXPECT_FALSE(cache.Acquire("key").held());
  std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("is not a folder"), std::string::npos) << said;
  EXPECT_EQ(said.find("torch_tpu:", 1), std::string::npos) << said;
}

TEST_F(DiskCacheTest, AFolderRemovedMeanwhileIsMadeAgain) {
  DiskCache cache(folder_, 1 << 20);
  fs::remove_all(folder_);
  EXPECT_FALSE(cache.Acquire("key").held());
  cache.Store("key", "", "payload");
  EXPECT_EQ(cache.Load("key"), "payload");
}

TEST_F(DiskCacheTest, PruneRemovesTheLeastRecentlyUsed) {
  DiskCache cache(folder_, 1 << 20);
  for (int i = 0; i < 4; ++i) {
    std::string key = "key" + std::to_string(i);
    cache.Store(key, "", std::string(1000, 'x'));
    SetAge(PathOf(key), 100 - i);
  }
  EXPECT_TRUE(cache.Load("key0"));  // now the last used
  int64_t each = cache.Stats().bytes / 4;
  EXPECT_EQ(cache.Prune(2 * each), 2 * each);
  EXPECT_TRUE(cache.Load("key0"));
  EXPECT_FALSE(cache.Load("key1"));
  EXPECT_FALSE(cache.Load("key2"));
  EXPECT_TRUE(cache.Load("key3"));
}

TEST_F(DiskCacheTest, StoresStayNearTheCap) {
  constexpr int64_t kCap = 100'000;
  DiskCache cache(folder_, kCap);
  int64_t most = 0;
  for (int i = 0; i < 300; ++i) {
    cache.Store("key" + std::to_string(i), "", std::string(1000, 'x'));
    most = std::max(most, cache.Stats().bytes);
  }
  EXPECT_LE(most, kCap + kCap / 16);
  EXPECT_GE(most, kCap / 2);
}

TEST_F(DiskCacheTest, PruneRemovesOldLeftoversOnly) {
  DiskCache cache(folder_, 1 << 20);
  for (const char* name : {"old.tmp", "new.tmp", "old.lock", "new.lock"}) {
    WriteAll(folder_ + "/" + name, "");
    if (name[0] == 'o') SetAge(folder_ + "/" + name, 7200);
  }
  DiskCache::Lock held = cache.Acquire("held");
  SetAge(PathOf("held") + ".lock", 7200);
  cache.Prune(1 << 20);
  EXPECT_FALSE(fs::exists(folder_ + "/old.tmp"));
  EXPECT_FALSE(fs::exists(folder_ + "/old.lock"));
  EXPECT_TRUE(fs::exists(folder_ + "/new.tmp"));
  EXPECT_TRUE(fs::exists(folder_ + "/new.lock"));
  EXPECT_TRUE(fs::exists(PathOf("held") + ".lock"));
}

TEST_F(DiskCacheTest, ReadOnlyLoadsAndChangesNothing) {
  DiskCache cache(folder_, 1 << 20);
  cache.Store("key", "", "payload");
  SetAge(PathOf("key"), 1000);
  auto used = fs::last_write_time(PathOf("key"));
  DiskCache::HoldReadOnly(1);
  EXPECT_EQ(cache.Load("key"), "payload");
  EXPECT_EQ(fs::last_write_time(PathOf("key")), used);
  cache.Store("other", "", "payload");
  EXPECT_EQ(cache.Load("other"), std::nullopt);
  EXPECT_FALSE(cache.Acquire("key").held());
  EXPECT_EQ(cache.Prune(0), 0);
  cache.Remove("key");
  DiskCache::HoldReadOnly(-1);
  EXPECT_EQ(cache.Load("key"), "payload");
}

TEST_F(DiskCacheTest, OneHolderPerKey) {
  DiskCache cache(folder_, 1 << 20);
  auto lock = std::make_unique<DiskCache::Lock>(cache.Acquire("key"));
  ASSERT_TRUE(lock->held());
  EXPECT_TRUE(cache.Acquire("other").held());
  std::atomic<bool> second{false};
  std::thread waiter([&] {
    DiskCache::Lock mine = cache.Acquire("key");
    second = mine.held();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(second);
  lock.reset();
  waiter.join();
  EXPECT_TRUE(second);
  EXPECT_FALSE(fs::exists(PathOf("key") + ".lock"));
}

TEST_F(DiskCacheTest, AKilledHolderLosesTheLock) {
  DiskCache cache(folder_, 1 << 20);
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  pid_t child = ::fork();
  if (child == 0) {
    DiskCache::Lock lock = cache.Acquire("key");
    [[maybe_unused]] ssize_t n = ::write(ready[1], "x", 1);
    ::pause();
    ::_exit(0);
  }
  char byte;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(cache.Acquire("key").held());
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(DiskCacheTest, AForkedChildDoesNotKeepTheLock) {
  DiskCache cache(folder_, 1 << 20);
  auto lock = std::make_unique<DiskCache::Lock>(cache.Acquire("key"));
  pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  lock.reset();
  auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(cache.Acquire("key").held());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(StoreQueueTest, DrainWaitsForAllJobsInOrder) {
  std::vector<int> order;
  for (int i = 0; i < 20; ++i) {
    StoreQueue::Get().Add([&order, i] {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      order.push_back(i);
    });
  }
  StoreQueue::Get().Drain();
  ASSERT_EQ(order.size(), 20u);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(order[i], i);
}

}  // namespace
}  // namespace torch_tpu::program
