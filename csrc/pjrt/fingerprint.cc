// SPDX-License-Identifier: Apache-2.0
// Plugin::Fingerprint. Hashing a plugin (200-470 MB) takes tenths of a second, seconds from a cold
// disk: the hash is kept beside the compile cache, named by path, size, mtime and inode.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "csrc/base/env.h"
#include "csrc/base/hash.h"
#include "csrc/pjrt/plugin.h"

namespace torch_tpu::pjrt {
namespace {

namespace fs = std::filesystem;

std::string Hex(Hash128 hash) {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(hash.hi),
                static_cast<unsigned long long>(hash.lo));
  return text;
}

StatusOr<std::string> HashFile(const std::string& path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat info;
  if (fd < 0 || ::fstat(fd, &info) != 0) {
    if (fd >= 0) ::close(fd);
    return NotFound(StrCat("[pjrt] cannot read '", path, "': ", std::strerror(errno)));
  }
  const size_t size = static_cast<size_t>(info.st_size);
  void* bytes = size ? ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
  ::close(fd);
  if (bytes == MAP_FAILED) return NotFound(StrCat("[pjrt] cannot map '", path, "'."));
  ::madvise(bytes, size, MADV_SEQUENTIAL);
  Hash128 body = HashWords(static_cast<const uint64_t*>(bytes), size / 8);
  uint64_t end[4] = {body.lo, body.hi, size, 0};
  std::memcpy(&end[3], static_cast<const char*>(bytes) + size / 8 * 8, size % 8);
  ::munmap(bytes, size);
  return Hex(HashWords(end, 4));
}

// Empty: keep none.
fs::path MemoFolder() {
  if (GetEnv("TORCH_TPU_CACHE") == "0") return {};
  std::string folder = GetEnv("TORCH_TPU_CACHE_DIR");
  if (!folder.empty()) return folder;
  const char* base = std::getenv("XDG_CACHE_HOME");
  if (base != nullptr && *base != '\0') return fs::path(base) / "torch_tpu";
  const char* home = std::getenv("HOME");
  return home != nullptr && *home != '\0' ? fs::path(home) / ".cache/torch_tpu" : fs::path();
}

// The memo holds "<identity>\n<hash>\n". Whoever can write it can write the compile cache too.
std::string ReadMemo(const fs::path& path, const std::string& identity) {
  std::ifstream file(path);
  std::string stored, hash;
  if (!std::getline(file, stored) || stored != identity || !std::getline(file, hash)) return "";
  return hash.size() == 32 ? hash : "";
}

void WriteMemo(const fs::path& path, const std::string& identity, const std::string& hash) {
  std::error_code error;
  if (fs::create_directories(path.parent_path(), error)) {
    fs::permissions(path.parent_path(), fs::perms::owner_all, error);
  }
  fs::path temporary = path;
  temporary += StrCat(".", ::getpid());
  {
    std::ofstream file(temporary);
    file << identity << '\n' << hash << '\n';
    if (!file.flush()) return;  // a full disk costs time, not correctness
  }
  fs::rename(temporary, path, error);
}

}  // namespace

StatusOr<std::string> Plugin::Fingerprint() const {
  struct stat info;
  if (::stat(path_.c_str(), &info) != 0) {
    return NotFound(StrCat("[pjrt] the plugin file '", path_, "' is gone."));
  }
  std::string identity = StrCat(path_, " ", info.st_size, " ", info.st_mtim.tv_sec, ".",
                                info.st_mtim.tv_nsec, " ", info.st_dev, ":", info.st_ino);
  fs::path folder = MemoFolder();
  fs::path memo = folder / ("plugin-" + Sha256Hex(path_).substr(0, 16));
  std::string hash = folder.empty() ? "" : ReadMemo(memo, identity);
  if (hash.empty()) {
    TT_ASSIGN_OR_RETURN(hash, HashFile(path_));
    if (!folder.empty()) WriteMemo(memo, identity, hash);
  }
  std::string print = StrCat(info.st_size, " ", hash, " api ", api_major_, ".", api_minor_);
  for (const Attribute& attribute : attributes_) {
    print += StrCat(" ", attribute.name, "=", attribute.value);
  }
  return print;
}

}  // namespace torch_tpu::pjrt
