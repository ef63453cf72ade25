// SPDX-License-Identifier: Apache-2.0
// Compiled programs on disk. One file per key, named by SHA-256 of the whole key; the key's content
// is stored and compared. Writers use a temporary name and rename; anything unreadable, truncated,
// altered or foreign is a miss and is removed. Trouble with the disk degrades to memory only, with
// one warning. Thread safe and safe across processes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace torch_tpu::program {

struct DiskStats {
  std::string folder;
  bool enabled = false;
  int64_t entries = 0, bytes = 0;
};

class DiskCache {
 public:
  // `folder` is made with mode 0700 when absent. Entries of other owners are ignored.
  DiskCache(std::string folder, int64_t max_bytes);

  bool enabled() const { return enabled_; }
  // The payload stored under `key`.
  std::optional<std::string> Load(std::string_view key);
  // Atomic; failures warn once and are otherwise silent.
  void Store(std::string_view key, std::string_view payload);
  // Removes least recently used entries until at most `max_bytes` remain; gives the bytes removed.
  int64_t Prune(int64_t max_bytes);
  DiskStats Stats() const;

  // Holds the right to compile `key` among all processes; blocks while another process has it.
  // Releasing (destruction) wakes the others. An invalid one (no disk) holds nothing.
  class Lock {
   public:
    Lock() = default;
    Lock(Lock&& o) noexcept;
    Lock& operator=(Lock&& o) noexcept;
    ~Lock();
    // True when another process held it first: look on the disk again.
    bool waited() const { return waited_; }

   private:
    friend class DiskCache;
    int fd_ = -1;
    bool waited_ = false;
    std::string path_;
  };
  Lock Acquire(std::string_view key);

 private:
  std::string PathOf(std::string_view key) const;
  void WarnOnce(const std::string& what);

  std::string folder_;
  int64_t max_bytes_;
  bool enabled_ = false;
  bool warned_ = false;
  int64_t stored_since_prune_ = 0;
};

}  // namespace torch_tpu::program
