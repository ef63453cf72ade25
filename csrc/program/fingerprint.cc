// SPDX-License-Identifier: Apache-2.0
#include <fstream>

#include "csrc/base/env.h"
#include "csrc/program/cache.h"

namespace torch_tpu::program {
namespace {

std::string CpuIdentity() {
  std::ifstream info("/proc/cpuinfo");
  std::string line, identity;
  while (std::getline(info, line) && !line.empty()) {
    if (line.rfind("model name", 0) == 0 || line.rfind("flags", 0) == 0 ||
        line.rfind("Features", 0) == 0 || line.rfind("CPU part", 0) == 0) {
      identity += line + "\n";
    }
  }
  return identity;
}

}  // namespace

StatusOr<std::string> Fingerprint(pjrt::Client& client, std::string_view torch_version) {
  TT_ASSIGN_OR_RETURN(std::string plugin, client.plugin().Fingerprint());
  std::string print =
      StrCat("content ", kContentHash, "\ntorch ", torch_version, "\nplugin ", plugin,
             "\nplatform ", client.platform(), " ", client.platform_version(), "\n");
  if (!client.devices().empty()) print += StrCat("device ", client.devices()[0]->kind(), "\n");
  if (client.platform() == "cpu") print += CpuIdentity();
  for (const char* flags : {"XLA_FLAGS", "LIBTPU_INIT_ARGS", "NPROC"}) {
    print += StrCat(flags, "=", GetEnv(flags), "\n");
  }
  return print;
}

}  // namespace torch_tpu::program
