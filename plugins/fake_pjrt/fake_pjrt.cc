// SPDX-License-Identifier: Apache-2.0
// The functions of the C API, and the table. README.md says what the plugin is for.
#include <cstdlib>
#include <cstring>

#include "plugins/fake_pjrt/objects.h"

using fake_pjrt::CheckAlive;
using fake_pjrt::Fail;
using fake_pjrt::Future;
using fake_pjrt::GlobalState;
using fake_pjrt::Reserve;

namespace {

constexpr const char* kMagic = "FAKE_PJRT 1\n";

PJRT_Error* EnterCall(const char* function, size_t given, size_t expected) {
  fake_pjrt::Failure failure = fake_pjrt::Enter(function);
  if (failure.code != 0) return Fail(failure.code, failure.message);
  std::lock_guard<std::mutex> lock(GlobalState().mutex);
  expected += static_cast<size_t>(GlobalState().config.args_growth);
  if (given >= expected) return nullptr;
  return Fail(PJRT_Error_Code_INVALID_ARGUMENT,
              std::string(function) + ": expected an args struct of " + std::to_string(expected) +
                  " bytes, got " + std::to_string(given));
}

// A call: its name, then its body in terms of `args`.
#define FAKE(function)                                                                        \
  PJRT_Error* function##_Body(function##_Args* args);                                         \
  PJRT_Error* function##_Call(function##_Args* args) {                                        \
    if (PJRT_Error* e = EnterCall(#function, args->struct_size, function##_Args_STRUCT_SIZE)) \
      return e;                                                                               \
    return function##_Body(args);                                                             \
  }                                                                                           \
  PJRT_Error* function##_Body([[maybe_unused]] function##_Args* args)

PJRT_NamedValue NamedInt(const char* name, int64_t value) {
  PJRT_NamedValue named = {};
  named.struct_size = PJRT_NamedValue_STRUCT_SIZE;
  named.name = name;
  named.name_size = std::strlen(name);
  named.type = PJRT_NamedValue_kInt64;
  named.int64_value = value;
  named.value_size = 1;
  return named;
}

// ---- errors, plugin
// ------------------------------------------------------------------------------
void ErrorDestroy(PJRT_Error_Destroy_Args* args) { delete args->error; }

void ErrorMessage(PJRT_Error_Message_Args* args) {
  args->message = args->error->message.data();
  args->message_size = args->error->message.size();
}

PJRT_Error* ErrorCode(PJRT_Error_GetCode_Args* args) {
  args->code = static_cast<PJRT_Error_Code>(args->error->code);
  return nullptr;
}

FAKE(PJRT_Plugin_Initialize) { return nullptr; }

FAKE(PJRT_Plugin_Attributes) {
  static const PJRT_NamedValue attribute = NamedInt("xla_version", 2);
  args->attributes = &attribute;
  args->num_attributes = 1;
  return nullptr;
}

// ---- events
// --------------------------------------------------------------------------------------
FAKE(PJRT_Event_Destroy) {
  delete args->event;
  return nullptr;
}

FAKE(PJRT_Event_IsReady) {
  args->is_ready = args->event->future->done();
  return nullptr;
}

FAKE(PJRT_Event_Await) {
  fake_pjrt::Outcome outcome = args->event->future->Wait();
  return outcome.code ? Fail(outcome.code, outcome.message) : nullptr;
}

FAKE(PJRT_Event_OnReady) {
  args->event->future->Then(
      [callback = args->callback, user = args->user_arg](const auto& outcome) {
        callback(outcome.code ? Fail(outcome.code, outcome.message) : nullptr, user);
      });
  return nullptr;
}

// ---- client, devices
// -----------------------------------------------------------------------------
FAKE(PJRT_Client_Create) {
  auto client = std::make_unique<PJRT_Client>();
  int64_t devices = 1;
  {
    std::lock_guard<std::mutex> lock(GlobalState().mutex);
    devices = GlobalState().config.devices;
    client->platform = GlobalState().config.platform;
  }
  for (size_t i = 0; i < args->num_options; ++i) {
    const PJRT_NamedValue& option = args->create_options[i];
    if (std::string(option.name, option.name_size) != "cpu_device_count") {
      return Fail(PJRT_Error_Code_INVALID_ARGUMENT, "unknown option");
    }
    devices = option.int64_value;
  }
  for (int64_t i = 0; i < devices; ++i) {
    auto device = std::make_unique<PJRT_Device>();
    device->description.id = static_cast<int>(i);
    device->description.attribute = NamedInt("core_on_chip", i % 2);
    device->memory.device = device.get();
    client->pointers.push_back(device.get());
    client->devices.push_back(std::move(device));
  }
  args->client = client.release();
  return nullptr;
}

FAKE(PJRT_Client_Destroy) {
  delete args->client;
  return nullptr;
}

FAKE(PJRT_Client_PlatformName) {
  args->platform_name = args->client->platform.data();
  args->platform_name_size = args->client->platform.size();
  return nullptr;
}

FAKE(PJRT_Client_PlatformVersion) {
  args->platform_version = "fake 1";
  args->platform_version_size = 6;
  return nullptr;
}

FAKE(PJRT_Client_AddressableDevices) {
  args->addressable_devices = args->client->pointers.data();
  args->num_addressable_devices = args->client->pointers.size();
  return nullptr;
}

FAKE(PJRT_Device_GetDescription) {
  args->device_description = &args->device->description;
  return nullptr;
}

FAKE(PJRT_DeviceDescription_Id) {
  args->id = args->device_description->id;
  return nullptr;
}

FAKE(PJRT_DeviceDescription_Kind) {
  args->device_kind = args->device_description->kind.data();
  args->device_kind_size = args->device_description->kind.size();
  return nullptr;
}

FAKE(PJRT_DeviceDescription_Attributes) {
  args->attributes = &args->device_description->attribute;
  args->num_attributes = 1;
  return nullptr;
}

FAKE(PJRT_Device_DefaultMemory) {
  args->memory = &args->device->memory;
  return nullptr;
}

FAKE(PJRT_Device_MemoryStats) {
  std::lock_guard<std::mutex> lock(GlobalState().mutex);
  if (!GlobalState().config.memory_stats) {
    return Fail(PJRT_Error_Code_UNIMPLEMENTED, "no memory stats");
  }
  args->bytes_in_use = args->device->bytes_in_use;
  args->bytes_limit = GlobalState().config.memory_limit;
  args->bytes_limit_is_set = args->bytes_limit >= 0;
  return nullptr;
}

// ---- buffers
// -------------------------------------------------------------------------------------
void CopyStrided(const char* source, const fake_pjrt::Type& type, const int64_t* strides,
                 size_t dim, char** out) {
  if (dim == type.dims.size()) {
    const int64_t bytes = fake_pjrt::ElementBytes(type.element);
    std::memcpy(*out, source, static_cast<size_t>(bytes));
    *out += bytes;
    return;
  }
  for (int64_t i = 0; i < type.dims[dim]; ++i) {
    CopyStrided(source + i * strides[dim], type, strides, dim + 1, out);
  }
}

FAKE(PJRT_Client_BufferFromHostBuffer) {
  fake_pjrt::Type type{args->type, {args->dims, args->dims + args->num_dims}};
  if (fake_pjrt::ElementBytes(args->type) == 0) {
    return Fail(PJRT_Error_Code_INVALID_ARGUMENT, "unknown element type");
  }
  PJRT_Device* device = args->memory ? args->memory->device : args->device;
  if (PJRT_Error* error = Reserve(device, type.bytes())) return error;
  auto buffer = std::make_unique<PJRT_Buffer>(device, type);
  auto done = std::make_shared<Future>();
  char* out = buffer->data;
  if (args->byte_strides != nullptr) {
    CopyStrided(static_cast<const char*>(args->data), type, args->byte_strides, 0, &out);
  } else {
    std::memcpy(out, args->data, static_cast<size_t>(type.bytes()));
  }
  const bool aliases = args->host_buffer_semantics >= PJRT_HostBufferSemantics_kImmutableZeroCopy;
  if (aliases && args->byte_strides == nullptr) {
    buffer->data = static_cast<char*>(const_cast<void*>(args->data));
    buffer->host_done = done;
  } else {
    Future::CompleteLater(done, {});
  }
  Future::CompleteLater(buffer->ready, {});
  args->done_with_host_buffer = new PJRT_Event(done);
  args->buffer = buffer.release();
  return nullptr;
}

FAKE(PJRT_Buffer_Destroy) {
  delete args->buffer;
  return nullptr;
}

FAKE(PJRT_Buffer_Delete) {
  args->buffer->Delete();
  return nullptr;
}

FAKE(PJRT_Buffer_IsDeleted) {
  args->is_deleted = args->buffer->deleted;
  return nullptr;
}

FAKE(PJRT_Buffer_ElementType) {
  args->type = args->buffer->type.element;
  return nullptr;
}

FAKE(PJRT_Buffer_Dimensions) {
  args->dims = args->buffer->type.dims.data();
  args->num_dims = args->buffer->type.dims.size();
  return nullptr;
}

FAKE(PJRT_Buffer_ReadyEvent) {
  if (PJRT_Error* error = CheckAlive(args->buffer)) return error;
  args->event = new PJRT_Event(args->buffer->ready);
  return nullptr;
}

FAKE(PJRT_Buffer_UnsafePointer) {
  if (PJRT_Error* error = CheckAlive(args->buffer)) return error;
  args->buffer_pointer = reinterpret_cast<uintptr_t>(args->buffer->data);
  return nullptr;
}

FAKE(PJRT_Buffer_ToHostBuffer) {
  if (PJRT_Error* error = CheckAlive(args->src)) return error;
  const size_t bytes = static_cast<size_t>(args->src->type.bytes());
  if (args->dst == nullptr) {
    args->dst_size = bytes;
    return nullptr;
  }
  if (args->dst_size < bytes) return Fail(PJRT_Error_Code_INVALID_ARGUMENT, "dst is too small");
  auto done = std::make_shared<Future>();
  // The bytes are taken now: the buffer may be gone when the event fires.
  std::string held(args->src->data, bytes);
  args->src->ready->Then([done, held, dst = args->dst](const fake_pjrt::Outcome& outcome) {
    if (outcome.code == 0) std::memcpy(dst, held.data(), held.size());
    done->Complete(outcome);
  });
  args->event = new PJRT_Event(done);
  return nullptr;
}

PJRT_Error* CopyBuffer(PJRT_Buffer* source, PJRT_Device* device, PJRT_Buffer** out) {
  if (PJRT_Error* error = CheckAlive(source)) return error;
  if (PJRT_Error* error = Reserve(device, source->type.bytes())) return error;
  auto* copy = new PJRT_Buffer(device, source->type);
  std::memcpy(copy->data, source->data, static_cast<size_t>(source->type.bytes()));
  source->ready->Then([ready = copy->ready](const auto& outcome) { ready->Complete(outcome); });
  *out = copy;
  return nullptr;
}

FAKE(PJRT_Buffer_CopyToDevice) {
  return CopyBuffer(args->buffer, args->dst_device, &args->dst_buffer);
}

FAKE(PJRT_Buffer_CopyToMemory) {
  return CopyBuffer(args->buffer, args->dst_memory->device, &args->dst_buffer);
}

// ---- executables
// ---------------------------------------------------------------------------------
PJRT_Error* MakeLoaded(const std::string& text, PJRT_Client* client, const std::string& options,
                       PJRT_LoadedExecutable** out) {
  fake_pjrt::Signature signature;
  std::string error;
  if (!fake_pjrt::ParseSignature(text, &signature, &error)) {
    return Fail(PJRT_Error_Code_INVALID_ARGUMENT, error);
  }
  // The last byte of a 1x1 assignment is the device id, as our own writer puts it.
  size_t id = options.empty() ? 0 : static_cast<unsigned char>(options.back());
  if (id >= client->pointers.size()) {
    return Fail(PJRT_Error_Code_INVALID_ARGUMENT, "no device " + std::to_string(id));
  }
  auto* loaded = new PJRT_LoadedExecutable();
  loaded->text = text;
  loaded->signature = signature;
  loaded->device = client->pointers[id];
  *out = loaded;
  return nullptr;
}

PJRT_Executable* MakeExecutable(const std::string& text, const fake_pjrt::Signature& signature) {
  auto* executable = new PJRT_Executable();
  executable->text = text;
  executable->signature = signature;
  for (const fake_pjrt::Type& type : signature.results) {
    executable->output_types.push_back(type.element);
    executable->output_ranks.push_back(type.dims.size());
    executable->output_dims.insert(executable->output_dims.end(), type.dims.begin(),
                                   type.dims.end());
  }
  executable->cost = NamedInt("flops", 0);
  executable->cost.type = PJRT_NamedValue_kFloat;
  executable->cost.float_value = 1.0f;
  return executable;
}

FAKE(PJRT_Client_Compile) {
  std::string options(args->compile_options, args->compile_options_size);
  std::string text(args->program->code, args->program->code_size);
  return MakeLoaded(text, args->client, options, &args->executable);
}

FAKE(PJRT_Executable_DeserializeAndLoad) {
  std::string bytes(args->serialized_executable, args->serialized_executable_size);
  if (bytes.compare(0, std::strlen(kMagic), kMagic) != 0) {
    return Fail(PJRT_Error_Code_INVALID_ARGUMENT, "not a serialized executable");
  }
  std::string options(args->overridden_serialized_compile_options,
                      args->overridden_serialized_compile_options_size);
  return MakeLoaded(bytes.substr(std::strlen(kMagic)), args->client, options,
                    &args->loaded_executable);
}

FAKE(PJRT_LoadedExecutable_Destroy) {
  delete args->executable;
  return nullptr;
}

FAKE(PJRT_LoadedExecutable_GetExecutable) {
  args->executable =
      MakeExecutable(args->loaded_executable->text, args->loaded_executable->signature);
  return nullptr;
}

FAKE(PJRT_LoadedExecutable_Execute) {
  if (args->num_devices != 1) return Fail(PJRT_Error_Code_UNIMPLEMENTED, "one device only");
  return fake_pjrt::Execute(args->executable, args->argument_lists[0], args->num_args,
                            args->output_lists[0]);
}

FAKE(PJRT_Executable_Destroy) {
  delete args->executable;
  return nullptr;
}

FAKE(PJRT_Executable_NumOutputs) {
  args->num_outputs = args->executable->output_types.size();
  return nullptr;
}

FAKE(PJRT_Executable_OutputElementTypes) {
  args->output_types = args->executable->output_types.data();
  args->num_output_types = args->executable->output_types.size();
  return nullptr;
}

FAKE(PJRT_Executable_OutputDimensions) {
  args->num_outputs = args->executable->output_types.size();
  args->dims = args->executable->output_dims.data();
  args->dim_sizes = args->executable->output_ranks.data();
  return nullptr;
}

FAKE(PJRT_Executable_GetCompiledMemoryStats) {
  for (const auto& argument : args->executable->signature.arguments) {
    args->argument_size_in_bytes += argument.type.bytes();
    if (argument.donated) args->alias_size_in_bytes += argument.type.bytes();
  }
  for (const auto& type : args->executable->signature.results) {
    args->output_size_in_bytes += type.bytes();
  }
  args->peak_memory_in_bytes = args->argument_size_in_bytes + args->output_size_in_bytes;
  return nullptr;
}

FAKE(PJRT_Executable_GetCostAnalysis) {
  args->properties = &args->executable->cost;
  args->num_properties = 1;
  return nullptr;
}

FAKE(PJRT_Executable_Serialize) {
  auto* serialized = new PJRT_SerializedExecutable{kMagic + args->executable->text};
  args->serialized_bytes = serialized->bytes.data();
  args->serialized_bytes_size = serialized->bytes.size();
  args->serialized_executable = serialized;
  args->serialized_executable_deleter = [](PJRT_SerializedExecutable* done) { delete done; };
  return nullptr;
}

// ---- topologies
// ----------------------------------------------------------------------------------
FAKE(PJRT_TopologyDescription_Create) {
  std::string name(args->topology_name, args->topology_name_size);
  if (name.compare(0, 5, "fake:") != 0) {
    return Fail(PJRT_Error_Code_INVALID_ARGUMENT, "unknown topology " + name);
  }
  auto* topology = new PJRT_TopologyDescription();
  for (int i = 0; i < std::atoi(name.c_str() + 5); ++i) {
    topology->devices.push_back(std::make_unique<PJRT_DeviceDescription>());
    topology->devices.back()->id = i;
    topology->pointers.push_back(topology->devices.back().get());
  }
  args->topology = topology;
  return nullptr;
}

FAKE(PJRT_TopologyDescription_Destroy) {
  delete args->topology;
  return nullptr;
}

FAKE(PJRT_TopologyDescription_GetDeviceDescriptions) {
  args->descriptions = args->topology->pointers.data();
  args->num_descriptions = args->topology->pointers.size();
  return nullptr;
}

FAKE(PJRT_Compile) {
  std::string text(args->program->code, args->program->code_size);
  fake_pjrt::Signature signature;
  std::string error;
  if (!fake_pjrt::ParseSignature(text, &signature, &error)) {
    return Fail(PJRT_Error_Code_INVALID_ARGUMENT, error);
  }
  args->executable = MakeExecutable(text, signature);
  return nullptr;
}

// ---- the table
// -----------------------------------------------------------------------------------
const PJRT_Api* MakeApi() {
  const char* variable = std::getenv("FAKE_PJRT");
  if (variable != nullptr && !fake_pjrt::Configure(variable)) return nullptr;
  static auto* api = new PJRT_Api();
  const fake_pjrt::Config& config = GlobalState().config;
  api->struct_size = config.api_struct_size < 0 ? static_cast<size_t>(PJRT_Api_STRUCT_SIZE)
                                                : static_cast<size_t>(config.api_struct_size);
  api->pjrt_api_version.struct_size = PJRT_Api_Version_STRUCT_SIZE;
  api->pjrt_api_version.major_version = config.api_major;
  api->pjrt_api_version.minor_version = config.api_minor;
  api->PJRT_Error_Destroy = ErrorDestroy;
  api->PJRT_Error_Message = ErrorMessage;
  api->PJRT_Error_GetCode = ErrorCode;
#define SET(function) api->function = config.missing.count(#function) ? nullptr : function##_Call
  SET(PJRT_Plugin_Initialize);
  SET(PJRT_Plugin_Attributes);
  SET(PJRT_Event_Destroy);
  SET(PJRT_Event_IsReady);
  SET(PJRT_Event_Await);
  SET(PJRT_Event_OnReady);
  SET(PJRT_Client_Create);
  SET(PJRT_Client_Destroy);
  SET(PJRT_Client_PlatformName);
  SET(PJRT_Client_PlatformVersion);
  SET(PJRT_Client_AddressableDevices);
  SET(PJRT_Client_BufferFromHostBuffer);
  SET(PJRT_Client_Compile);
  SET(PJRT_Device_GetDescription);
  SET(PJRT_Device_DefaultMemory);
  SET(PJRT_Device_MemoryStats);
  SET(PJRT_DeviceDescription_Id);
  SET(PJRT_DeviceDescription_Kind);
  SET(PJRT_DeviceDescription_Attributes);
  SET(PJRT_Buffer_Destroy);
  SET(PJRT_Buffer_Delete);
  SET(PJRT_Buffer_IsDeleted);
  SET(PJRT_Buffer_ElementType);
  SET(PJRT_Buffer_Dimensions);
  SET(PJRT_Buffer_ReadyEvent);
  SET(PJRT_Buffer_UnsafePointer);
  SET(PJRT_Buffer_ToHostBuffer);
  SET(PJRT_Buffer_CopyToDevice);
  SET(PJRT_Buffer_CopyToMemory);
  SET(PJRT_LoadedExecutable_Destroy);
  SET(PJRT_LoadedExecutable_GetExecutable);
  SET(PJRT_LoadedExecutable_Execute);
  SET(PJRT_Executable_DeserializeAndLoad);
  SET(PJRT_Executable_Destroy);
  SET(PJRT_Executable_NumOutputs);
  SET(PJRT_Executable_OutputElementTypes);
  SET(PJRT_Executable_OutputDimensions);
  SET(PJRT_Executable_GetCompiledMemoryStats);
  SET(PJRT_Executable_GetCostAnalysis);
  SET(PJRT_Executable_Serialize);
  SET(PJRT_TopologyDescription_Create);
  SET(PJRT_TopologyDescription_Destroy);
  SET(PJRT_TopologyDescription_GetDeviceDescriptions);
  SET(PJRT_Compile);
#undef SET
  return api;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT const PJRT_Api* GetPjrtApi() {
  static const PJRT_Api* api = MakeApi();
  return api;
}

EXPORT int FakePjrt_Configure(const char* text) { return fake_pjrt::Configure(text) ? 0 : -1; }

// Valid until the thread's next call.
EXPORT const char* FakePjrt_Log() {
  static thread_local std::string text;
  std::lock_guard<std::mutex> lock(GlobalState().mutex);
  text.clear();
  for (const std::string& line : GlobalState().log) text += line + "\n";
  return text.c_str();
}

EXPORT int64_t FakePjrt_Calls(const char* function) {
  std::lock_guard<std::mutex> lock(GlobalState().mutex);
  auto it = GlobalState().calls.find(function);
  return it == GlobalState().calls.end() ? 0 : it->second;
}

EXPORT int64_t FakePjrt_Live() { return GlobalState().live; }

EXPORT int64_t FakePjrt_Violations() { return GlobalState().violations; }
