// SPDX-License-Identifier: Apache-2.0
#include "csrc/program/run_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <vector>

#include "csrc/base/status.h"

namespace torch_tpu::program {
namespace {

namespace fs = std::filesystem;

constexpr size_t kKeptRuns = 16;
constexpr off_t kMaxBytes = 1 << 20;

std::string NewLog(const std::string& runs) {
  ::mkdir(runs.c_str(), 0700);
  std::vector<std::string> others;
  std::error_code error;
  for (const auto& item : fs::directory_iterator(runs, error))
    others.push_back(item.path().string());
  std::sort(others.begin(), others.end());  // names begin with the time
  for (size_t i = 0; i + kKeptRuns <= others.size(); ++i) ::unlink(others[i].c_str());
  char name[64];
  std::snprintf(name, sizeof name, "/%012lld-%d.log", static_cast<long long>(std::time(nullptr)),
                static_cast<int>(::getpid()));
  return runs + name;
}

}  // namespace

void AppendToRunLog(const std::string& folder, const std::string& line) {
  static std::string current_folder, path;
  if (folder != current_folder) {
    current_folder = folder;
    path = NewLog(folder + "/runs");
  }
  int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return;
  struct stat info;
  std::string text = line + "\n";
  if (::fstat(fd, &info) == 0 && info.st_size < kMaxBytes) {
    [[maybe_unused]] ssize_t n = ::write(fd, text.data(), text.size());
  }
  ::close(fd);
}

}  // namespace torch_tpu::program
