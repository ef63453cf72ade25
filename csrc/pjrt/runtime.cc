// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "csrc/base/env.h"
#include "csrc/pjrt/plugin.h"

namespace torch_tpu::pjrt {
namespace {

namespace fs = std::filesystem;

struct Candidate {
  RuntimeKind kind;
  const char* name;
  std::vector<const char*> files;  // below a site-packages folder, best first
  const char* install;
};

const Candidate kTpu = {
    RuntimeKind::kTpu, "tpu", {"libtpu/libtpu.so"}, "pip install libtpu, or TPU_LIBRARY_PATH"};
const Candidate kCpu = {RuntimeKind::kCpu,
                        "cpu",
                        {"xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"},
                        "pip install xla-cpu-pjrt"};
const Candidate kCuda = {
    RuntimeKind::kCuda,
    "cuda",
    {"jax_plugins/xla_cuda13/xla_cuda_plugin.so", "jax_plugins/xla_cuda12/xla_cuda_plugin.so"},
    "pip install jax-cuda13-pjrt"};

StatusOr<RuntimeChoice> Find(const Candidate& candidate,
                             const std::vector<std::string>& site_packages) {
  const char* library = std::getenv("TPU_LIBRARY_PATH");
  if (candidate.kind == RuntimeKind::kTpu && library != nullptr && *library != '\0') {
    return RuntimeChoice{candidate.kind, library};
  }
  std::error_code ignored;
  for (const char* file : candidate.files) {
    for (const std::string& folder : site_packages) {
      fs::path path = fs::path(folder) / file;
      if (fs::is_regular_file(path, ignored)) return RuntimeChoice{candidate.kind, path.string()};
    }
  }
  std::string looked;
  for (const std::string& folder : site_packages) looked += (looked.empty() ? "" : ", ") + folder;
  return NotFound(StrCat("[pjrt] no ", candidate.name, " plugin (", candidate.files[0], ") in ",
                         looked.empty() ? "any folder" : looked, ". Try: ", candidate.install,
                         ", or set TORCH_TPU_RUNTIME (cpu, or the path of a plugin)."));
}

std::string ReadWord(const fs::path& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

}  // namespace

bool HasTpu(const std::string& pci_devices) {
  constexpr const char* kGoogle = "0x1ae0";
  // v3, v4, v5p, v5e, v6e, tpu7x, tpu8i, tpu8t.
  const std::vector<std::string> kChips = {"0x0027", "0x005e", "0x0062", "0x0063",
                                           "0x006f", "0x0076", "0x0083", "0x007c"};
  std::error_code error;
  for (fs::directory_iterator it(pci_devices, error), end; !error && it != end;
       it.increment(error)) {
    if (ReadWord(it->path() / "vendor") != kGoogle) continue;
    std::string chip = ReadWord(it->path() / "device");
    if (std::find(kChips.begin(), kChips.end(), chip) != kChips.end()) return true;
  }
  return false;
}

StatusOr<RuntimeChoice> ChooseRuntime(const std::vector<std::string>& site_packages) {
  const std::string wanted = GetEnv("TORCH_TPU_RUNTIME");
  if (wanted == "auto") return Find(HasTpu() ? kTpu : kCpu, site_packages);
  for (const Candidate* candidate : {&kTpu, &kCpu, &kCuda}) {
    if (wanted == candidate->name) return Find(*candidate, site_packages);
  }
  if (wanted.find('/') == std::string::npos) {
    return InvalidArgument(StrCat("[pjrt] TORCH_TPU_RUNTIME: expected auto, tpu, cpu, cuda or the ",
                                  "path of a plugin, got '", wanted,
                                  "'. Try: TORCH_TPU_RUNTIME=cpu."));
  }
  std::error_code ignored;
  if (!fs::is_regular_file(wanted, ignored)) {
    return NotFound(StrCat("[pjrt] TORCH_TPU_RUNTIME: no plugin file at '", wanted,
                           "'. Try: TORCH_TPU_RUNTIME=cpu, or the path of a PJRT plugin."));
  }
  return RuntimeChoice{RuntimeKind::kPath, wanted};
}

}  // namespace torch_tpu::pjrt
