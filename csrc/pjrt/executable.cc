// SPDX-License-Identifier: Apache-2.0
#include "csrc/pjrt/executable.h"

#include <set>

namespace torch_tpu::pjrt {
namespace {

// The plugin only reads it, and every launch uses the same: one for the process.
PJRT_ExecuteOptions* DefaultExecuteOptions() {
  static auto* options = new Args<PJRT_ExecuteOptions>();
  return options;
}

}  // namespace

Status CheckCompileOptions(const CompileOptions& options) {
  if (options.num_replicas < 1 || options.num_partitions < 1) {
    return InvalidArgument(
        StrCat("[pjrt] Compile: expected at least one replica and partition, got ",
               options.num_replicas, " and ", options.num_partitions, "."));
  }
  const std::set<int64_t> distinct(options.device_ids.begin(), options.device_ids.end());
  const size_t expected = static_cast<size_t>(options.num_replicas) * options.num_partitions;
  if (options.device_ids.size() != expected || distinct.size() != expected) {
    return InvalidArgument(StrCat("[pjrt] Compile: expected ", expected, " distinct devices for ",
                                  options.num_replicas, " replicas x ", options.num_partitions,
                                  " partitions, got ", hlo::ToString(options.device_ids), "."));
  }
  if (options.num_partitions > 1 && !options.use_spmd) {
    return InvalidArgument("[pjrt] Compile: several partitions need use_spmd.");
  }
  return OkStatus();
}

Args<PJRT_Program> ToProgram(std::string_view module) {
  Args<PJRT_Program> program;
  program.code = const_cast<char*>(module.data());  // the C API has one struct for in and out
  program.code_size = module.size();
  program.format = "mlir";
  program.format_size = 4;
  return program;
}

StatusOr<std::vector<hlo::Shape>> ReadOutputs(const Plugin& plugin, PJRT_Executable* executable) {
  Args<PJRT_Executable_NumOutputs_Args> count;
  count.executable = executable;
  TT_RETURN_IF_ERROR(TT_PJRT(plugin, PJRT_Executable_NumOutputs, &count));
  std::vector<hlo::Shape> outputs(count.num_outputs);
  if (outputs.empty()) return outputs;
  Args<PJRT_Executable_OutputElementTypes_Args> types;
  types.executable = executable;
  TT_RETURN_IF_ERROR(TT_PJRT(plugin, PJRT_Executable_OutputElementTypes, &types));
  Args<PJRT_Executable_OutputDimensions_Args> dims;
  dims.executable = executable;
  TT_RETURN_IF_ERROR(TT_PJRT(plugin, PJRT_Executable_OutputDimensions, &dims));
  if (types.num_output_types != outputs.size() || dims.num_outputs != outputs.size()) {
    return Internal(StrCat("[pjrt] the plugin gave ", types.num_output_types, " output types and ",
                           dims.num_outputs, " shapes for ", outputs.size(), " outputs."));
  }
  const int64_t* next = dims.dims;
  for (size_t i = 0; i < outputs.size(); ++i) {
    outputs[i].dtype = FromBufferType(types.output_types[i]);
    outputs[i].dims.assign(next, next + dims.dim_sizes[i]);
    next += dims.dim_sizes[i];
  }
  return outputs;
}

StatusOr<MemoryReport> ReadMemory(const Plugin& plugin, PJRT_Executable* executable) {
  Args<PJRT_Executable_GetCompiledMemoryStats_Args> args;
  args.executable = executable;
  TT_RETURN_IF_ERROR(TT_PJRT(plugin, PJRT_Executable_GetCompiledMemoryStats, &args));
  MemoryReport report;
  report.generated_code = args.generated_code_size_in_bytes;
  report.arguments = args.argument_size_in_bytes;
  report.outputs = args.output_size_in_bytes;
  report.aliased = args.alias_size_in_bytes;
  report.temporaries = args.temp_size_in_bytes;
  report.peak = args.peak_memory_in_bytes;
  return report;
}

StatusOr<std::vector<std::pair<std::string, double>>> ReadCost(const Plugin& plugin,
                                                               PJRT_Executable* executable) {
  Args<PJRT_Executable_GetCostAnalysis_Args> args;
  args.executable = executable;
  TT_RETURN_IF_ERROR(TT_PJRT(plugin, PJRT_Executable_GetCostAnalysis, &args));
  std::vector<std::pair<std::string, double>> cost;
  for (size_t i = 0; i < args.num_properties; ++i) {
    const PJRT_NamedValue& value = args.properties[i];
    if (value.type != PJRT_NamedValue_kFloat) continue;
    cost.emplace_back(std::string(value.name, value.name_size), value.float_value);
  }
  return cost;
}

StatusOr<std::string> SerializeExecutable(const Plugin& plugin, PJRT_Executable* executable) {
  Args<PJRT_Executable_Serialize_Args> args;
  args.executable = executable;
  TT_RETURN_IF_ERROR(TT_PJRT(plugin, PJRT_Executable_Serialize, &args));
  std::string bytes(args.serialized_bytes, args.serialized_bytes_size);
  args.serialized_executable_deleter(args.serialized_executable);
  return bytes;
}

void DestroyExecutable(const Plugin& plugin, PJRT_Executable* executable) {
  if (executable == nullptr) return;
  Args<PJRT_Executable_Destroy_Args> args;
  args.executable = executable;
  (void)plugin.ToStatus(plugin.api()->PJRT_Executable_Destroy(&args));
}

Executable::~Executable() {
  const Plugin& plugin = client_->plugin();
  DestroyExecutable(plugin, executable_);
  Args<PJRT_LoadedExecutable_Destroy_Args> args;
  args.executable = raw_;
  (void)plugin.ToStatus(plugin.api()->PJRT_LoadedExecutable_Destroy(&args));
}

Status Executable::Execute(PJRT_Buffer* const* arguments, size_t num_arguments,
                           PJRT_Buffer** outputs) const {
  Args<PJRT_LoadedExecutable_Execute_Args> args;
  args.executable = raw_;
  args.options = DefaultExecuteOptions();
  args.argument_lists = &arguments;
  args.num_devices = 1;
  args.num_args = num_arguments;
  args.output_lists = &outputs;
  PJRT_Error* error = client_->plugin().api()->PJRT_LoadedExecutable_Execute(&args);
  if (error == nullptr) [[likely]]
    return OkStatus();
  Status status = client_->plugin().ToStatus(error);
  if (status.code() == Code::kResourceExhausted) device_->CountOom();
  return status;
}

StatusOr<std::string> Executable::Serialize() const {
  return SerializeExecutable(client_->plugin(), executable_);
}

StatusOr<MemoryReport> Executable::memory_report() const {
  return ReadMemory(client_->plugin(), executable_);
}

StatusOr<std::vector<std::pair<std::string, double>>> Executable::cost_analysis() const {
  return ReadCost(client_->plugin(), executable_);
}

}  // namespace torch_tpu::pjrt
