// SPDX-License-Identifier: Apache-2.0
#include "csrc/pjrt/client.h"

#include <cstring>
#include <mutex>
#include <utility>

#include "csrc/pjrt/api.h"
#include "csrc/pjrt/executable.h"

namespace torch_tpu::pjrt {
namespace {

PJRT_HostBufferSemantics ToSemantics(HostSemantics semantics) {
  switch (semantics) {
    case HostSemantics::kCopy: return PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
    case HostSemantics::kUntilTransferred:
      return PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes;
    case HostSemantics::kZeroCopy: return PJRT_HostBufferSemantics_kImmutableZeroCopy;
  }
  return PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
}

bool IsDense(const hlo::Shape& shape, const int64_t* byte_strides) {
  int64_t dense = hlo::ByteSize(shape.dtype);
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape.dims[i] != 1 && byte_strides[i] != dense) return false;
    dense *= shape.dims[i];
  }
  return true;
}

// Plugins promise nothing for strides of zero or below (a broadcast, a flip).
bool NeedsPacking(const hlo::Shape& shape, const int64_t* byte_strides) {
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape.dims[i] > 1 && byte_strides[i] <= 0) return true;
  }
  return false;
}

char* Pack(const char* source, const hlo::Shape& shape, const int64_t* byte_strides, int dim,
           char* out) {
  const size_t element = static_cast<size_t>(hlo::ByteSize(shape.dtype));
  if (dim == shape.rank()) {
    std::memcpy(out, source, element);
    return out + element;
  }
  for (int64_t i = 0; i < shape.dims[dim]; ++i) {
    out = Pack(source + i * byte_strides[dim], shape, byte_strides, dim + 1, out);
  }
  return out;
}

Status CheckHostArray(const void* data, const hlo::Shape& shape, HostSemantics semantics,
                      const Event* done) {
  if (ToBufferType(shape.dtype) == PJRT_Buffer_Type_INVALID) {
    return InvalidArgument("[pjrt] FromHost: expected an element type, got none.");
  }
  for (int64_t dim : shape.dims) {
    if (dim < 0) {
      return InvalidArgument(StrCat("[pjrt] FromHost: negative dimension in ", shape.ToString()));
    }
  }
  if (data == nullptr && shape.numel() != 0) {
    return InvalidArgument(StrCat("[pjrt] FromHost: null data for ", shape.ToString()));
  }
  if (done == nullptr && semantics != HostSemantics::kCopy) {
    return InvalidArgument("[pjrt] FromHost: only a copy can do without a `done` event.");
  }
  return OkStatus();
}

}  // namespace

StatusOr<Client*> Client::Create(Plugin* plugin, int num_devices) {
  PJRT_NamedValue count = {};
  count.struct_size = PJRT_NamedValue_STRUCT_SIZE;
  count.name = "cpu_device_count";
  count.name_size = std::string_view(count.name).size();
  count.type = PJRT_NamedValue_kInt64;
  count.int64_value = num_devices;
  count.value_size = 1;
  Args<PJRT_Client_Create_Args> create;
  create.create_options = &count;
  create.num_options = num_devices > 0 ? 1 : 0;
  Status status = TT_PJRT(*plugin, PJRT_Client_Create, &create);
  if (!status.ok()) {
    return Status(status.code(),
                  StrCat("[pjrt] no client from ", plugin->path(), ": ", status.message(),
                         ". Try: python -m torch_tpu doctor, or ", "TORCH_TPU_RUNTIME=cpu."));
  }
  std::unique_ptr<Client> client(new Client());
  client->plugin_ = plugin;
  client->raw_ = create.client;
  TT_RETURN_IF_ERROR(client->ReadPlatform());
  TT_RETURN_IF_ERROR(client->ReadDevices());
  if (client->devices_.empty()) {
    return FailedPrecondition(StrCat("[pjrt] ", plugin->path(), " has no device of this process. ",
                                     "Try: TORCH_TPU_RUNTIME=cpu."));
  }
  // Never destroyed: buffers anywhere may outlive every scope. The list keeps it in a leak
  // checker's sight.
  static auto* mutex = new std::mutex();
  static auto* clients = new std::vector<Client*>();
  std::lock_guard<std::mutex> lock(*mutex);
  clients->push_back(client.release());
  return clients->back();
}

// Reached only when Create fails half way.
Client::~Client() {
  for (Device* device : devices_) delete device;
  Args<PJRT_Client_Destroy_Args> args;
  args.client = raw_;
  (void)TT_PJRT(*plugin_, PJRT_Client_Destroy, &args);
}

Status Client::ReadPlatform() {
  Args<PJRT_Client_PlatformName_Args> name;
  name.client = raw_;
  TT_RETURN_IF_ERROR(TT_PJRT(*plugin_, PJRT_Client_PlatformName, &name));
  platform_.assign(name.platform_name, name.platform_name_size);
  is_cpu_ = platform_ == "cpu";
  Args<PJRT_Client_PlatformVersion_Args> version;
  version.client = raw_;
  TT_RETURN_IF_ERROR(TT_PJRT(*plugin_, PJRT_Client_PlatformVersion, &version));
  version_.assign(version.platform_version, version.platform_version_size);
  return OkStatus();
}

Status Client::ReadDevices() {
  Args<PJRT_Client_AddressableDevices_Args> devices;
  devices.client = raw_;
  TT_RETURN_IF_ERROR(TT_PJRT(*plugin_, PJRT_Client_AddressableDevices, &devices));
  for (size_t i = 0; i < devices.num_addressable_devices; ++i) {
    auto* device = new Device();
    devices_.push_back(device);
    device->client_ = this;
    device->raw_ = devices.addressable_devices[i];
    device->index_ = static_cast<int>(i);
    Args<PJRT_Device_GetDescription_Args> description;
    description.device = device->raw_;
    TT_RETURN_IF_ERROR(TT_PJRT(*plugin_, PJRT_Device_GetDescription, &description));
    Args<PJRT_DeviceDescription_Id_Args> id;
    id.device_description = description.device_description;
    TT_RETURN_IF_ERROR(TT_PJRT(*plugin_, PJRT_DeviceDescription_Id, &id));
    device->id_ = id.id;
    Args<PJRT_DeviceDescription_Kind_Args> kind;
    kind.device_description = description.device_description;
    TT_RETURN_IF_ERROR(TT_PJRT(*plugin_, PJRT_DeviceDescription_Kind, &kind));
    device->kind_.assign(kind.device_kind, kind.device_kind_size);
  }
  return OkStatus();
}

StatusOr<Buffer> Client::FromHost(const void* data, const hlo::Shape& shape,
                                  const int64_t* byte_strides, HostSemantics semantics,
                                  Device* device, Event* done) {
  TT_RETURN_IF_ERROR(CheckHostArray(data, shape, semantics, done));
  const int64_t bytes = shape.bytes();
  if (bytes == 0 || (byte_strides != nullptr && IsDense(shape, byte_strides))) {
    byte_strides = nullptr;
  }
  std::string packed;
  if (byte_strides != nullptr && NeedsPacking(shape, byte_strides)) {
    packed.resize(static_cast<size_t>(bytes));
    Pack(static_cast<const char*>(data), shape, byte_strides, 0, packed.data());
    data = packed.data();
    byte_strides = nullptr;
    semantics = HostSemantics::kCopy;
  }
  Args<PJRT_Client_BufferFromHostBuffer_Args> args;
  args.client = raw_;
  args.data = bytes == 0 ? "" : data;
  args.type = ToBufferType(shape.dtype);
  args.dims = shape.dims.data();
  args.num_dims = shape.dims.size();
  args.byte_strides = byte_strides;
  args.num_byte_strides = byte_strides ? shape.dims.size() : 0;
  args.host_buffer_semantics = ToSemantics(bytes == 0 ? HostSemantics::kCopy : semantics);
  args.device = device->raw();
  Status status = plugin_->ToStatus(plugin_->api()->PJRT_Client_BufferFromHostBuffer(&args));
  if (!status.ok()) {
    if (status.code() == Code::kResourceExhausted) device->CountOom();
    return status.Annotate(StrCat("[pjrt] FromHost of ", shape.ToString(), ": "));
  }
  Event transferred(this, args.done_with_host_buffer);
  if (done != nullptr) *done = std::move(transferred);
  return Buffer(device, args.buffer, bytes);
}

StatusOr<std::unique_ptr<Executable>> Client::Compile(std::string_view module, Device* device,
                                                      const CompileOptions& options) {
  if (module.empty()) return InvalidArgument("[pjrt] Compile: the module is empty.");
  CompileOptions assigned = options;
  if (assigned.device_ids.empty()) assigned.device_ids = {device->id()};
  // By default the CPU plugins lose a NaN operand of maximum and minimum; StableHLO keeps it.
  if (platform_ == "cpu") assigned.overrides.emplace_back("xla_cpu_enable_fast_min_max", "false");
  TT_RETURN_IF_ERROR(CheckCompileOptions(assigned));
  std::string option_bytes = SerializeCompileOptions(assigned);
  Args<PJRT_Program> program = ToProgram(module);
  Args<PJRT_Client_Compile_Args> args;
  args.client = raw_;
  args.program = &program;
  args.compile_options = option_bytes.data();
  args.compile_options_size = option_bytes.size();
  TT_RETURN_IF_ERROR(TT_PJRT(*plugin_, PJRT_Client_Compile, &args));
  return Finish(args.executable, device);
}

StatusOr<std::unique_ptr<Executable>> Client::Load(std::string_view serialized, Device* device,
                                                   size_t num_outputs) {
  if (serialized.empty()) return InvalidArgument("[pjrt] Load: no bytes.");
  CompileOptions assigned;
  assigned.device_ids = {device->id()};
  std::string option_bytes = SerializeCompileOptions(assigned);
  Args<PJRT_Executable_DeserializeAndLoad_Args> args;
  args.client = raw_;
  args.serialized_executable = serialized.data();
  args.serialized_executable_size = serialized.size();
  args.overridden_serialized_compile_options = option_bytes.data();
  args.overridden_serialized_compile_options_size = option_bytes.size();
  TT_RETURN_IF_ERROR(TT_PJRT(*plugin_, PJRT_Executable_DeserializeAndLoad, &args));
  TT_ASSIGN_OR_RETURN(std::unique_ptr<Executable> executable,
                      Finish(args.loaded_executable, device));
  // The plugin writes that many outputs into the caller's array: never trust the file.
  if (executable->num_outputs() != num_outputs) {
    return Status(Code::kDataLoss, StrCat("[pjrt] Load: expected ", num_outputs, " outputs, got ",
                                          executable->num_outputs(), "."));
  }
  return executable;
}

StatusOr<std::unique_ptr<Executable>> Client::Finish(PJRT_LoadedExecutable* raw, Device* device) {
  std::unique_ptr<Executable> executable(new Executable());
  executable->client_ = this;
  executable->device_ = device;
  executable->raw_ = raw;
  Args<PJRT_LoadedExecutable_GetExecutable_Args> get;
  get.loaded_executable = raw;
  TT_RETURN_IF_ERROR(TT_PJRT(*plugin_, PJRT_LoadedExecutable_GetExecutable, &get));
  executable->executable_ = get.executable;
  TT_ASSIGN_OR_RETURN(executable->outputs_, ReadOutputs(*plugin_, get.executable));
  executable->num_outputs_ = executable->outputs_.size();
  return executable;
}

}  // namespace torch_tpu::pjrt
