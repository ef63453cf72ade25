// SPDX-License-Identifier: Apache-2.0
// Private to csrc/pjrt: what a loaded executable and one compiled ahead of time have in common.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "csrc/base/status.h"
#include "csrc/pjrt/api.h"
#include "csrc/pjrt/client.h"

namespace torch_tpu::pjrt {

// Empty options and bad assignments abort inside XLA.
Status CheckCompileOptions(const CompileOptions& options);
// A view of `module`, which must outlive it.
Args<PJRT_Program> ToProgram(std::string_view module);

StatusOr<std::vector<hlo::Shape>> ReadOutputs(const Plugin& plugin, PJRT_Executable* executable);
StatusOr<MemoryReport> ReadMemory(const Plugin& plugin, PJRT_Executable* executable);
StatusOr<std::vector<std::pair<std::string, double>>> ReadCost(const Plugin& plugin,
                                                               PJRT_Executable* executable);
StatusOr<std::string> SerializeExecutable(const Plugin& plugin, PJRT_Executable* executable);
void DestroyExecutable(const Plugin& plugin, PJRT_Executable* executable);

}  // namespace torch_tpu::pjrt
