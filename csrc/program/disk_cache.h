// SPDX-License-Identifier: Apache-2.0
// Compiled programs on disk. One file per key, named by SHA-256 of the whole key; the key's content
// is stored and compared. Writers use a temporary name and rename; anything unreadable, truncated,
// altered or foreign is a miss and is removed. Trouble with the disk degrades to memory only, with
// one warning. Thread safe and safe across processes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace torch_tpu::program {

struct DiskStats {
  std::string folder;
  bool enabled = false;
  int64_t entries = 0, bytes = 0;
};

// One entry as a person sees it.
struct DiskEntry {
  std::string name;         // SHA-256 of the key, hex
  std::string description;  // DescribeLines of program/describe.h
  std::string key;          // the whole key
  int64_t bytes = 0;
  double last_use = 0;  // seconds since the epoch
  bool good = false;    // header readable; with `verify`, also the checksum
};

class DiskCache {
 public:
  // `folder` is made with mode 0700 when absent; "" is a cache that is off. Entries of other owners
  // are ignored.
  DiskCache(std::string folder, int64_t max_bytes);

  bool enabled() const { return enabled_.load(std::memory_order_relaxed); }
  const std::string& folder() const { return folder_; }
  int64_t max_bytes() const { return max_bytes_.load(std::memory_order_relaxed); }
  void set_max_bytes(int64_t bytes) { max_bytes_.store(bytes, std::memory_order_relaxed); }

  // The payload stored under `key`.
  std::optional<std::string> Load(std::string_view key);
  // Atomic; failures warn once and are otherwise silent. Prunes now and then.
  void Store(std::string_view key, std::string_view description, std::string_view payload);
  // For an entry that turned out to be unusable.
  void Remove(std::string_view key);
  // Removes least recently used entries until at most `max_bytes` remain, and what killed processes
  // left behind; gives the bytes removed.
  int64_t Prune(int64_t max_bytes);
  DiskStats Stats() const;
  // Reads each entry's header; with `verify` the whole file, against its checksum.
  std::vector<DiskEntry> List(bool verify) const;

  // Adds to the number of holders who want the disk left as it is, in the whole process: while
  // there is one, entries are loaded and nothing is written, removed or locked.
  static void HoldReadOnly(int delta);
  static bool read_only();

  // Holds the right to compile `key` among all processes. Releasing (destruction) wakes the others.
  // An invalid one (no disk, read-only) holds nothing.
  class Lock {
   public:
    Lock() = default;
    Lock(Lock&& o) noexcept;
    Lock& operator=(Lock&& o) noexcept;
    ~Lock();
    bool held() const { return fd_ >= 0; }

   private:
    friend class DiskCache;
    int fd_ = -1;
    std::string path_;
  };
  // Blocks while another holder has it, up to ten minutes (a stopped process must not stop others);
  // then gives an invalid one. The holder before may have stored the entry: Load again.
  Lock Acquire(std::string_view key);

 private:
  std::string PathOf(std::string_view key) const;
  bool Write(const std::string& path, std::string_view content);
  void WarnOnce(const std::string& what);

  const std::string folder_;
  std::atomic<int64_t> max_bytes_;
  std::atomic<bool> enabled_{false};
  std::atomic<bool> writable_{false};
  std::atomic<bool> warned_{false};
  std::atomic<int64_t> until_prune_{
      0};  // bytes that may be stored before the next look at the size
};

// The name under which `key` is stored.
std::string EntryName(std::string_view key);

}  // namespace torch_tpu::program
