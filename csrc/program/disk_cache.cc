// SPDX-License-Identifier: Apache-2.0
#include "csrc/program/disk_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "csrc/base/hash.h"
#include "csrc/base/status.h"

namespace torch_tpu::program {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "torch_tpu cache 1\n";
constexpr const char* kSuffix = ".prog";

void PutSized(std::string* out, std::string_view bytes) {
  uint64_t size = bytes.size();
  out->append(reinterpret_cast<const char*>(&size), sizeof size);
  out->append(bytes);
}

bool TakeSized(std::string_view* in, std::string_view* bytes) {
  uint64_t size = 0;
  if (in->size() < sizeof size) return false;
  std::memcpy(&size, in->data(), sizeof size);
  in->remove_prefix(sizeof size);
  if (in->size() < size) return false;
  *bytes = in->substr(0, size);
  in->remove_prefix(size);
  return true;
}

// Whole file, or nullopt when absent, not a plain file of ours, or unreadable.
std::optional<std::string> ReadOwned(const std::string& path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return std::nullopt;
  struct stat info;
  std::optional<std::string> content;
  if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == ::geteuid()) {
    content.emplace(static_cast<size_t>(info.st_size), '\0');
    size_t done = 0;
    while (done < content->size()) {
      ssize_t n = ::read(fd, content->data() + done, content->size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      done += static_cast<size_t>(n);
    }
    if (done != content->size()) content.reset();
    ::futimens(fd, nullptr);  // last use, for the LRU
  }
  ::close(fd);
  return content;
}

}  // namespace

DiskCache::DiskCache(std::string folder, int64_t max_bytes)
    : folder_(std::move(folder)), max_bytes_(max_bytes) {
  if (folder_.empty()) return;
  std::error_code error;
  fs::create_directories(fs::path(folder_).parent_path(), error);
  ::mkdir(folder_.c_str(), 0700);
  struct stat info;
  if (::stat(folder_.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    WarnOnce(StrCat("the folder ", folder_, " cannot be made (", std::strerror(errno), ")"));
    return;
  }
  // Loading an entry runs its code: a folder others can write is not ours to trust.
  if (info.st_uid != ::geteuid() || (info.st_mode & 0022) != 0) {
    WarnOnce(StrCat("the folder ", folder_, " belongs to or can be written by another user"));
    return;
  }
  enabled_ = true;
}

std::string DiskCache::PathOf(std::string_view key) const {
  return StrCat(folder_, "/", Sha256Hex(key), kSuffix);
}

void DiskCache::WarnOnce(const std::string& what) {
  if (std::exchange(warned_, true)) return;
  std::fprintf(stderr,
               "torch_tpu: compiled programs are kept in memory only: %s. Try: set "
               "TORCH_TPU_CACHE_DIR to a folder of yours with free space, or TORCH_TPU_CACHE=0.\n",
               what.c_str());
}

std::optional<std::string> DiskCache::Load(std::string_view key) {
  if (!enabled_) return std::nullopt;
  std::string path = PathOf(key);
  std::optional<std::string> content = ReadOwned(path);
  if (!content) return std::nullopt;
  std::string_view rest(*content), digest, stored_key, payload;
  bool good = rest.substr(0, kMagic.size()) == kMagic;
  if (good) {
    rest.remove_prefix(kMagic.size());
    good = TakeSized(&rest, &digest) && digest == Sha256Hex(rest) &&
           TakeSized(&rest, &stored_key) && stored_key == key && TakeSized(&rest, &payload) &&
           rest.empty();
  }
  if (!good) {
    ::unlink(path.c_str());
    return std::nullopt;
  }
  return std::string(payload);
}

void DiskCache::Store(std::string_view key, std::string_view payload) {
  if (!enabled_) return;
  std::string body, file(kMagic);
  PutSized(&body, key);
  PutSized(&body, payload);
  PutSized(&file, Sha256Hex(body));
  file += body;
  std::string path = PathOf(key);
  static std::atomic<int> serial{0};
  std::string temporary = StrCat(path, ".", ::getpid(), ".", serial++, ".tmp");
  int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  bool good = fd >= 0;
  for (size_t done = 0; good && done < file.size();) {
    ssize_t n = ::write(fd, file.data() + done, file.size() - done);
    if (n < 0 && errno == EINTR) continue;
    good = n > 0;
    if (good) done += static_cast<size_t>(n);
  }
  int reason = errno;
  if (fd >= 0) good = ::close(fd) == 0 && good;
  if (good) good = ::rename(temporary.c_str(), path.c_str()) == 0;
  if (!good) {
    ::unlink(temporary.c_str());
    WarnOnce(StrCat("writing to ", folder_, " failed (", std::strerror(reason), ")"));
    enabled_ = reason != EROFS && reason != EACCES && reason != ENOSPC;
    return;
  }
  stored_since_prune_ += static_cast<int64_t>(file.size());
  if (stored_since_prune_ > max_bytes_ / 16) Prune(max_bytes_);
}

int64_t DiskCache::Prune(int64_t max_bytes) {
  struct Entry {
    fs::file_time_type used;
    int64_t bytes;
    fs::path path;
  };
  std::vector<Entry> entries;
  int64_t total = 0, removed = 0;
  std::error_code error;
  for (const auto& item : fs::directory_iterator(folder_, error)) {
    int64_t bytes = static_cast<int64_t>(item.file_size(error));
    if (error) continue;
    fs::file_time_type used = item.last_write_time(error);
    if (error) continue;
    // Leftovers of a killed writer.
    bool stale = item.path().extension() == ".tmp" &&
                 fs::file_time_type::clock::now() - used > std::chrono::hours(1);
    if (stale) {
      fs::remove(item.path(), error);
    } else if (item.path().extension() == kSuffix) {
      entries.push_back({used, bytes, item.path()});
      total += bytes;
    }
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (total - removed <= max_bytes) break;
    if (fs::remove(entry.path, error)) removed += entry.bytes;
  }
  stored_since_prune_ = 0;
  return removed;
}

DiskStats DiskCache::Stats() const {
  DiskStats stats;
  stats.folder = folder_;
  stats.enabled = enabled_;
  std::error_code error;
  if (!enabled_) return stats;
  for (const auto& item : fs::directory_iterator(folder_, error)) {
    if (item.path().extension() != kSuffix) continue;
    ++stats.entries;
    stats.bytes += static_cast<int64_t>(item.file_size(error));
  }
  return stats;
}

DiskCache::Lock DiskCache::Acquire(std::string_view key) {
  Lock lock;
  if (!enabled_) return lock;
  lock.path_ = StrCat(PathOf(key), ".lock");
  for (;;) {
    lock.fd_ = ::open(lock.path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (lock.fd_ < 0) return lock;
    if (::flock(lock.fd_, LOCK_EX | LOCK_NB) != 0) {
      lock.waited_ = true;
      while (::flock(lock.fd_, LOCK_EX) != 0 && errno == EINTR) {
      }
    }
    // The holder removes the file on release: make sure that ours is still the one with the name.
    struct stat ours, named;
    if (::fstat(lock.fd_, &ours) == 0 && ::stat(lock.path_.c_str(), &named) == 0 &&
        ours.st_ino == named.st_ino) {
      return lock;
    }
    ::close(lock.fd_);
  }
}

DiskCache::Lock::Lock(Lock&& o) noexcept { *this = std::move(o); }

DiskCache::Lock& DiskCache::Lock::operator=(Lock&& o) noexcept {
  std::swap(fd_, o.fd_);
  std::swap(waited_, o.waited_);
  std::swap(path_, o.path_);
  return *this;
}

DiskCache::Lock::~Lock() {
  if (fd_ < 0) return;
  ::unlink(path_.c_str());
  ::close(fd_);
}

}  // namespace torch_tpu::program
