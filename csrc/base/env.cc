// SPDX-License-Identifier: Apache-2.0
#include "csrc/base/env.h"

#include <cstdlib>
#include <cstring>

extern char** environ;

namespace torch_tpu {

const std::vector<EnvVar>& EnvTable() {
  static const std::vector<EnvVar> kTable = {
      {"TORCH_TPU_RUNTIME", "auto", "Runtime: auto, tpu, cpu, cuda, or the path of a PJRT plugin."},
      {"TORCH_TPU_CPU_DEVICES", "1", "Number of devices of the CPU runtime."},
      {"TORCH_TPU_MODE", "strict", "Eager mode at start: strict, debug or defer_and_fuse."},
      {"TORCH_TPU_LAUNCH_BLOCKING", "0", "1 means debug mode: wait and check after each op."},
      {"TORCH_TPU_DEFER_AND_FUSE", "0", "1 means the eager mode defer_and_fuse."},
      {"TORCH_TPU_FALLBACK", "warn",
       "An op without a lowering: warn (run on CPU), silent, or error."},
      {"TORCH_TPU_CACHE_DIR", "",
       "Folder of the compile cache; empty: torch_tpu in the user's cache folder."},
      {"TORCH_TPU_CACHE", "1", "0 turns the disk cache off."},
      {"TORCH_TPU_CACHE_MAX_BYTES", "4294967296",
       "Size cap of the disk cache in bytes; the least recently used go first."},
      {"TORCH_TPU_DUMP_DIR", "",
       "Folder to which each compiled module's StableHLO text is written."},
  };
  return kTable;
}

namespace {
const EnvVar* Find(const char* name) {
  for (const EnvVar& v : EnvTable()) {
    if (std::strcmp(v.name, name) == 0) return &v;
  }
  return nullptr;
}
}  // namespace

std::string GetEnv(const char* name) {
  const char* value = std::getenv(name);
  if (value != nullptr && *value != '\0') return value;
  const EnvVar* var = Find(name);
  return var ? var->fallback : "";
}

int64_t GetEnvInt(const char* name) {
  std::string text = GetEnv(name);
  char* end = nullptr;
  long long value = std::strtoll(text.c_str(), &end, 10);
  if (end != text.c_str() && *end == '\0') return value;
  const EnvVar* var = Find(name);
  return var ? std::strtoll(var->fallback, nullptr, 10) : 0;
}

std::vector<std::string> UnknownEnv() {
  std::vector<std::string> unknown;
  for (char** e = environ; e != nullptr && *e != nullptr; ++e) {
    if (std::strncmp(*e, "TORCH_TPU_", 10) != 0) continue;
    std::string name(*e, std::strcspn(*e, "="));
    if (Find(name.c_str()) == nullptr) unknown.push_back(name);
  }
  return unknown;
}

}  // namespace torch_tpu
