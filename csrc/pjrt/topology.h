// SPDX-License-Identifier: Apache-2.0
// Ahead-of-time compilation for a topology with no chip present (libtpu). Use in a process of its
// own.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "csrc/base/status.h"
#include "csrc/pjrt/client.h"

struct PJRT_TopologyDescription;

namespace torch_tpu::pjrt {

struct AotReport {
  double compile_seconds = 0;
  MemoryReport memory;
  std::vector<std::pair<std::string, double>> cost;  // "flops", "bytes accessed", "optimal_seconds"
  std::string serialized;
};

// Sets what libtpu reads when it is loaded (TPU_SKIP_MDS_QUERY=1 ...), where unset. Call before
// Plugin::Load, first thing in main: setenv is not safe beside other threads.
void SetAheadOfTimeEnvironment();

class Topology {
 public:
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;
  // name: "tpu7x:2x2x1".
  static StatusOr<std::unique_ptr<Topology>> Create(Plugin* plugin, const std::string& name);
  ~Topology();
  int num_devices() const;
  const std::vector<std::string>& device_kinds() const;
  // Without device ids in the options: the topology's first ones.
  StatusOr<AotReport> Compile(std::string_view module, const CompileOptions& options);

 private:
  Topology() = default;
  Plugin* plugin_ = nullptr;
  PJRT_TopologyDescription* raw_ = nullptr;
  std::vector<int64_t> ids_;
  std::vector<std::string> kinds_;
};

}  // namespace torch_tpu::pjrt
