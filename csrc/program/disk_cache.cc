// SPDX-License-Identifier: Apache-2.0
#include "csrc/program/disk_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

#include "csrc/base/hash.h"
#include "csrc/base/status.h"

namespace torch_tpu::program {
namespace {

namespace fs = std::filesystem;

// The format: magic, then sized strings: checksum of all that follows it, description, key,
// payload.
constexpr std::string_view kMagic = "torch_tpu cache 2\n";
constexpr const char* kSuffix = ".prog";

std::atomic<int> read_only_holders{0};

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

struct Parts {
  std::string_view description, key, payload;
};

// Checks everything; the views are into `file`.
bool Parse(std::string_view file, Parts* parts) {
  if (file.substr(0, kMagic.size()) != kMagic) return false;
  file.remove_prefix(kMagic.size());
  std::string_view digest;
  return TakeSized(&file, &digest) && digest == Sha256Hex(file) &&
         TakeSized(&file, &parts->description) && TakeSized(&file, &parts->key) &&
         TakeSized(&file, &parts->payload) && file.empty();
}

// Description and key alone, from the beginning of a file.
bool ParseHeader(std::string_view file, Parts* parts) {
  if (file.substr(0, kMagic.size()) != kMagic) return false;
  file.remove_prefix(kMagic.size());
  std::string_view digest;
  return TakeSized(&file, &digest) && TakeSized(&file, &parts->description) &&
         TakeSized(&file, &parts->key);
}

enum class Read { kAbsent, kForeign, kGood };

// At most `limit` bytes of a plain file of ours.
Read ReadOwned(const std::string& path, bool touch, size_t limit, std::string* content) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  // Only a link or another's file is foreign; being out of descriptors says nothing about the
  // entry.
  if (fd < 0) return errno == ELOOP || errno == EACCES ? Read::kForeign : Read::kAbsent;
  struct stat info;
  Read result = Read::kForeign;
  if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == ::geteuid()) {
    content->resize(std::min(limit, static_cast<size_t>(info.st_size)));
    size_t done = 0;
    while (done < content->size()) {
      ssize_t n = ::read(fd, content->data() + done, content->size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      done += static_cast<size_t>(n);
    }
    content->resize(done);
    result = Read::kGood;
    if (touch) ::futimens(fd, nullptr);  // last use, for the LRU
  }
  ::close(fd);
  return result;
}

double Seconds(const struct timespec& t) {
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// Leftovers of a killed process: nobody writes or holds one for an hour.
void RemoveLeftover(const std::string& path, bool is_lock) {
  int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return;
  if (!is_lock || ::flock(fd, LOCK_EX | LOCK_NB) == 0) ::unlink(path.c_str());
  ::close(fd);
}

}  // namespace

std::string EntryName(std::string_view key) { return Sha256Hex(key); }

void DiskCache::HoldReadOnly(int delta) { read_only_holders.fetch_add(delta); }
bool DiskCache::read_only() { return read_only_holders.load(std::memory_order_relaxed) > 0; }

DiskCache::DiskCache(std::string folder, int64_t max_bytes)
    : folder_(std::move(folder)), max_bytes_(max_bytes) {
  if (folder_.empty()) return;
  std::error_code error;
  if (!read_only()) {
    fs::create_directories(fs::path(folder_).parent_path(), error);
    ::mkdir(folder_.c_str(), 0700);
  }
  struct stat info;
  if (::stat(folder_.c_str(), &info) != 0) {
    WarnOnce(StrCat("the folder ", folder_, " cannot be made (", std::strerror(errno), ")"));
    return;
  }
  if (!S_ISDIR(info.st_mode)) {
    WarnOnce(StrCat(folder_, " is not a folder"));
    return;
  }
  // Loading an entry runs its code: a folder others can write is not ours to trust.
  if (info.st_uid != ::geteuid() || (info.st_mode & 0022) != 0) {
    WarnOnce(StrCat("the folder ", folder_, " belongs to or can be written by another user"));
    return;
  }
  enabled_ = writable_ = true;
}

std::string DiskCache::PathOf(std::string_view key) const {
  return StrCat(folder_, "/", EntryName(key), kSuffix);
}

void DiskCache::WarnOnce(const std::string& what) {
  if (warned_.exchange(true)) return;
  std::fprintf(stderr,
               "torch_tpu: compiled programs are kept in memory only: %s. Try: set "
               "TORCH_TPU_CACHE_DIR to a folder of yours with free space, or TORCH_TPU_CACHE=0.\n",
               what.c_str());
}

std::optional<std::string> DiskCache::Load(std::string_view key) {
  if (!enabled()) return std::nullopt;
  std::string path = PathOf(key), content;
  Read read = ReadOwned(path, /*touch=*/!read_only(), SIZE_MAX, &content);
  if (read == Read::kAbsent) return std::nullopt;
  Parts parts;
  if (read == Read::kGood && Parse(content, &parts) && parts.key == key) {
    return std::string(parts.payload);
  }
  if (!read_only()) ::unlink(path.c_str());
  return std::nullopt;
}

void DiskCache::Remove(std::string_view key) {
  if (enabled() && !read_only()) ::unlink(PathOf(key).c_str());
}

bool DiskCache::Write(const std::string& path, std::string_view content) {
  int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0 && errno == ENOENT && ::mkdir(folder_.c_str(), 0700) == 0) {  // removed meanwhile
    fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  }
  if (fd < 0) return false;
  int reason = 0;
  while (!content.empty() && reason == 0) {
    ssize_t n = ::write(fd, content.data(), content.size());
    if (n > 0) {
      content.remove_prefix(static_cast<size_t>(n));
    } else if (n == 0 || errno != EINTR) {
      reason = n == 0 ? ENOSPC : errno;
    }
  }
  if (::close(fd) != 0 && reason == 0) reason = errno;
  errno = reason;
  return reason == 0;
}

void DiskCache::Store(std::string_view key, std::string_view description,
                      std::string_view payload) {
  if (!enabled() || !writable_ || read_only()) return;
  std::string body, file(kMagic);
  PutSized(&body, description);
  PutSized(&body, key);
  PutSized(&body, payload);
  PutSized(&file, Sha256Hex(body));
  file += body;
  std::string path = PathOf(key);
  static std::atomic<int> serial{0};
  std::string temporary = StrCat(path, ".", ::getpid(), ".", serial++, ".tmp");
  if (!Write(temporary, file) || ::rename(temporary.c_str(), path.c_str()) != 0) {
    int reason = errno;
    ::unlink(temporary.c_str());
    WarnOnce(StrCat("writing to ", folder_, " failed (", std::strerror(reason), ")"));
    writable_ = false;  // what is there can still be loaded
    return;
  }
  // The first store of a process looks too: many short processes must not outgrow the cap.
  if (until_prune_.fetch_sub(static_cast<int64_t>(file.size())) <= 0) Prune(max_bytes());
}

int64_t DiskCache::Prune(int64_t max_bytes) {
  struct Entry {
    double used;
    int64_t bytes;
    std::string path;
  };
  if (!enabled() || read_only()) return 0;
  std::vector<Entry> entries;
  int64_t total = 0, removed = 0;
  double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  std::error_code error;
  for (const auto& item : fs::directory_iterator(folder_, error)) {
    std::string path = item.path().string();
    struct stat info;
    if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    fs::path extension = item.path().extension();
    if (extension == kSuffix) {
      entries.push_back({Seconds(info.st_mtim), static_cast<int64_t>(info.st_size), path});
      total += entries.back().bytes;
    } else if (extension == ".tmp" || extension == ".lock") {
      if (now - Seconds(info.st_mtim) > 3600) RemoveLeftover(path, extension == ".lock");
    }
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (total - removed <= max_bytes) break;
    if (::unlink(entry.path.c_str()) == 0) removed += entry.bytes;
  }
  // Look again well before what is left of the cap is used up.
  until_prune_ = std::max<int64_t>((max_bytes - (total - removed)) / 2, max_bytes / 64);
  return removed;
}

DiskStats DiskCache::Stats() const {
  DiskStats stats;
  stats.folder = folder_;
  stats.enabled = enabled();
  std::error_code error;
  if (!stats.enabled) return stats;
  for (const auto& item : fs::directory_iterator(folder_, error)) {
    if (item.path().extension() != kSuffix) continue;
    std::error_code gone;  // removed by another process meanwhile
    auto bytes = item.file_size(gone);
    if (gone) continue;
    ++stats.entries;
    stats.bytes += static_cast<int64_t>(bytes);
  }
  return stats;
}

std::vector<DiskEntry> DiskCache::List(bool verify) const {
  constexpr size_t kHeaderBytes = size_t{1} << 20;  // descriptions and keys are some kilobytes
  std::vector<DiskEntry> entries;
  std::error_code error;
  if (!enabled()) return entries;
  for (const auto& item : fs::directory_iterator(folder_, error)) {
    if (item.path().extension() != kSuffix) continue;
    DiskEntry entry;
    entry.name = item.path().stem().string();
    struct stat info;
    if (::lstat(item.path().c_str(), &info) != 0) continue;
    entry.bytes = static_cast<int64_t>(info.st_size);
    entry.last_use = Seconds(info.st_mtim);
    std::string content;
    Parts parts;
    if (ReadOwned(item.path().string(), /*touch=*/false, verify ? SIZE_MAX : kHeaderBytes,
                  &content) == Read::kGood) {
      entry.good = verify ? Parse(content, &parts) && EntryName(parts.key) == entry.name
                          : ParseHeader(content, &parts);
    }
    if (entry.good) {
      entry.description = parts.description;
      entry.key = parts.key;
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

DiskCache::Lock DiskCache::Acquire(std::string_view key) {
  using std::chrono::steady_clock;
  Lock lock;
  if (!enabled() || !writable_ || read_only()) return lock;
  lock.path_ = StrCat(PathOf(key), ".lock");
  auto deadline = steady_clock::now() + std::chrono::minutes(10);
  auto pause = std::chrono::milliseconds(1);
  while (steady_clock::now() < deadline) {
    int fd = ::open(lock.path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return lock;
    // The holder removes the file on release: make sure that ours is still the one with the name.
    struct stat ours, named;
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) {
      if (::fstat(fd, &ours) == 0 && ::stat(lock.path_.c_str(), &named) == 0 &&
          ours.st_ino == named.st_ino) {
        lock.fd_ = fd;
        return lock;
      }
    } else if (errno != EWOULDBLOCK && errno != EINTR) {  // a file system without locks
      ::close(fd);
      return lock;
    } else {
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, std::chrono::milliseconds(20));
    }
    ::close(fd);
  }
  return lock;
}

DiskCache::Lock::Lock(Lock&& o) noexcept { *this = std::move(o); }

DiskCache::Lock& DiskCache::Lock::operator=(Lock&& o) noexcept {
  std::swap(fd_, o.fd_);
  std::swap(path_, o.path_);
  return *this;
}

DiskCache::Lock::~Lock() {
  if (fd_ < 0) return;
  ::unlink(path_.c_str());
  ::flock(fd_, LOCK_UN);  // a forked child may hold a copy of the descriptor
  ::close(fd_);
}

}  // namespace torch_tpu::program
