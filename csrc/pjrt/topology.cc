// SPDX-License-Identifier: Apache-2.0
#include "csrc/pjrt/topology.h"

#include <chrono>
#include <cstdlib>

#include "csrc/pjrt/api.h"
#include "csrc/pjrt/executable.h"

namespace torch_tpu::pjrt {

void SetAheadOfTimeEnvironment() {
  constexpr int kKeep = 0;
  // Off Google's cloud each query of the metadata server hangs for minutes.
  ::setenv("TPU_SKIP_MDS_QUERY", "1", kKeep);
  ::setenv("TPU_WORKER_HOSTNAMES", "localhost", kKeep);
  // Without a chip there is nothing to lock: let several compiles run at once.
  ::setenv("ALLOW_MULTIPLE_LIBTPU_LOAD", "1", kKeep);
  ::setenv("TPU_LOG_DIR", "disabled", kKeep);
}

StatusOr<std::unique_ptr<Topology>> Topology::Create(Plugin* plugin, const std::string& name) {
  // libtpu answers an empty name with a TPU v2.
  if (name.empty()) {
    return InvalidArgument("[pjrt] topology: expected a name, got ''. Try: tpu7x:2x2x1.");
  }
  Args<PJRT_TopologyDescription_Create_Args> create;
  create.topology_name = name.data();
  create.topology_name_size = name.size();
  Status status = TT_PJRT(*plugin, PJRT_TopologyDescription_Create, &create);
  if (!status.ok()) {
    return status.Annotate(StrCat("[pjrt] topology '", name, "' (try tpu7x:2x2x1, v6e:2x2): "));
  }
  std::unique_ptr<Topology> topology(new Topology());
  topology->plugin_ = plugin;
  topology->raw_ = create.topology;
  Args<PJRT_TopologyDescription_GetDeviceDescriptions_Args> devices;
  devices.topology = create.topology;
  TT_RETURN_IF_ERROR(TT_PJRT(*plugin, PJRT_TopologyDescription_GetDeviceDescriptions, &devices));
  for (size_t i = 0; i < devices.num_descriptions; ++i) {
    Args<PJRT_DeviceDescription_Id_Args> id;
    id.device_description = devices.descriptions[i];
    TT_RETURN_IF_ERROR(TT_PJRT(*plugin, PJRT_DeviceDescription_Id, &id));
    topology->ids_.push_back(id.id);
    Args<PJRT_DeviceDescription_Kind_Args> kind;
    kind.device_description = devices.descriptions[i];
    TT_RETURN_IF_ERROR(TT_PJRT(*plugin, PJRT_DeviceDescription_Kind, &kind));
    topology->kinds_.emplace_back(kind.device_kind, kind.device_kind_size);
  }
  return topology;
}

Topology::~Topology() {
  Args<PJRT_TopologyDescription_Destroy_Args> args;
  args.topology = raw_;
  (void)TT_PJRT(*plugin_, PJRT_TopologyDescription_Destroy, &args);
}

int Topology::num_devices() const { return static_cast<int>(ids_.size()); }

const std::vector<std::string>& Topology::device_kinds() const { return kinds_; }

StatusOr<AotReport> Topology::Compile(std::string_view module, const CompileOptions& options) {
  if (module.empty()) return InvalidArgument("[pjrt] Compile: the module is empty.");
  CompileOptions assigned = options;
  const size_t wanted = static_cast<size_t>(options.num_replicas) * options.num_partitions;
  if (assigned.device_ids.empty() && wanted <= ids_.size()) {
    assigned.device_ids.assign(ids_.begin(), ids_.begin() + wanted);
  }
  TT_RETURN_IF_ERROR(CheckCompileOptions(assigned));
  std::string option_bytes = SerializeCompileOptions(assigned);
  Args<PJRT_Program> program = ToProgram(module);
  Args<PJRT_Compile_Args> args;
  args.topology = raw_;
  args.program = &program;
  args.compile_options = option_bytes.data();
  args.compile_options_size = option_bytes.size();
  auto start = std::chrono::steady_clock::now();
  TT_RETURN_IF_ERROR(TT_PJRT(*plugin_, PJRT_Compile, &args));
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;

  auto destroy = [this](PJRT_Executable* executable) { DestroyExecutable(*plugin_, executable); };
  std::unique_ptr<PJRT_Executable, decltype(destroy)> executable(args.executable, destroy);
  AotReport report;
  report.compile_seconds = seconds.count();
  TT_ASSIGN_OR_RETURN(report.memory, ReadMemory(*plugin_, executable.get()));
  auto cost = ReadCost(*plugin_, executable.get());
  if (cost.ok()) {
    report.cost = std::move(cost).value();
  } else if (cost.status().code() != Code::kUnimplemented) {  // newer CPU plugins have none
    return cost.status();
  }
  TT_ASSIGN_OR_RETURN(report.serialized, SerializeExecutable(*plugin_, executable.get()));
  return report;
}

}  // namespace torch_tpu::pjrt
