// SPDX-License-Identifier: Apache-2.0
#include "csrc/pjrt/plugin.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>

#include "csrc/pjrt/api.h"
#include "csrc/pjrt/xla_flags.h"

namespace torch_tpu::pjrt {
namespace {

// The order of PJRT_Api's fields is fixed since this minor.
constexpr int kOldestMinor = 57;

struct Function {
  const char* name;
  size_t offset;
};

// What the hot calls use without looking. All exist since the oldest minor.
#define TT_FUNCTION(name) {#name, offsetof(PJRT_Api, name)}
constexpr Function kRequired[] = {
    TT_FUNCTION(PJRT_Error_Destroy),
    TT_FUNCTION(PJRT_Error_Message),
    TT_FUNCTION(PJRT_Error_GetCode),
    TT_FUNCTION(PJRT_Event_Destroy),
    TT_FUNCTION(PJRT_Event_IsReady),
    TT_FUNCTION(PJRT_Event_Await),
    TT_FUNCTION(PJRT_Event_OnReady),
    TT_FUNCTION(PJRT_Client_BufferFromHostBuffer),
    TT_FUNCTION(PJRT_LoadedExecutable_Execute),
    TT_FUNCTION(PJRT_LoadedExecutable_Destroy),
    TT_FUNCTION(PJRT_Executable_Destroy),
    TT_FUNCTION(PJRT_Buffer_Destroy),
    TT_FUNCTION(PJRT_Buffer_ToHostBuffer),
    TT_FUNCTION(PJRT_Buffer_ReadyEvent),
    TT_FUNCTION(PJRT_Buffer_IsDeleted),
};
#undef TT_FUNCTION

constexpr const char* kChoose =
    " Try: TORCH_TPU_RUNTIME=cpu, or the path of a PJRT plugin (a shared library with GetPjrtApi).";

Status CheckFile(const std::string& path) {
  struct stat info;
  if (path.empty() || ::stat(path.c_str(), &info) != 0) {
    return NotFound(StrCat("[pjrt] no plugin file at '", path, "'.", kChoose));
  }
  if (!S_ISREG(info.st_mode)) {
    return InvalidArgument(StrCat("[pjrt] expected the file of a plugin, got '", path,
                                  "', which is no file.", kChoose));
  }
  return OkStatus();
}

}  // namespace

StatusOr<Plugin*> Plugin::Load(const std::string& path) {
  static auto* mutex = new std::mutex();
  static auto* loaded = new std::map<std::string, Plugin*>();
  TT_RETURN_IF_ERROR(CheckFile(path));
  char* resolved = ::realpath(path.c_str(), nullptr);
  std::string real = resolved ? resolved : path;
  std::free(resolved);

  std::lock_guard<std::mutex> lock(*mutex);
  auto it = loaded->find(real);
  if (it != loaded->end()) return it->second;

  std::unique_ptr<Plugin> plugin(new Plugin());
  plugin->path_ = real;
  TT_RETURN_IF_ERROR(plugin->Open());
  Args<PJRT_Plugin_Initialize_Args> initialize;
  Status status = TT_PJRT(*plugin, PJRT_Plugin_Initialize, &initialize);
  if (!status.ok()) {
    return Status(status.code(), StrCat("[pjrt] initializing ", real, " failed: ", status.message(),
                                        ". Try: end other processes that hold the device, or",
                                        " TORCH_TPU_RUNTIME=cpu."));
  }
  Args<PJRT_Plugin_Attributes_Args> attributes;
  if (TT_PJRT(*plugin, PJRT_Plugin_Attributes, &attributes).ok()) {
    plugin->attributes_ = ToAttributes(attributes.attributes, attributes.num_attributes);
  }
  return (*loaded)[real] = plugin.release();
}

Status Plugin::Open() {
  void* handle = ::dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return InvalidArgument(StrCat("[pjrt] cannot load '", path_, "': ", ::dlerror(), ".", kChoose));
  }
  auto* get_api = reinterpret_cast<const PJRT_Api* (*)()>(::dlsym(handle, "GetPjrtApi"));
  if (get_api == nullptr) {
    return InvalidArgument(
        StrCat("[pjrt] '", path_, "' is no PJRT plugin: it has no GetPjrtApi.", kChoose));
  }
  // XLA ends the process on a flag it does not know: look before it does.
  TT_RETURN_IF_ERROR(CheckXlaFlags(reinterpret_cast<const void*>(get_api), path_));
  api_ = get_api();
  constexpr size_t kHead = offsetof(PJRT_Api, PJRT_Error_Destroy);
  if (api_ == nullptr || api_->struct_size < kHead) {
    return InvalidArgument(StrCat("[pjrt] '", path_, "' gave a PJRT_Api of ",
                                  api_ ? api_->struct_size : 0, " bytes, expected at least ", kHead,
                                  ".", kChoose));
  }
  api_major_ = api_->pjrt_api_version.major_version;
  api_minor_ = api_->pjrt_api_version.minor_version;
  if (api_major_ != PJRT_API_MAJOR || api_minor_ < kOldestMinor) {
    return FailedPrecondition(
        StrCat("[pjrt] '", path_, "' speaks PJRT API ", api_major_, ".", api_minor_, ", expected ",
               PJRT_API_MAJOR, ".", kOldestMinor,
               " or a later minor. Try: a plugin that matches this release."));
  }
  for (const Function& function : kRequired) {
    if (!HasFunctionAt(function.offset)) return MissingFunction(*this, function.name);
  }
  return OkStatus();
}

bool Plugin::HasFunctionAt(size_t offset) const {
  if (offset + sizeof(void*) > api_->struct_size) return false;
  void* function = nullptr;
  std::memcpy(&function, reinterpret_cast<const char*>(api_) + offset, sizeof function);
  return function != nullptr;
}

Status Plugin::ToStatus(PJRT_Error* error) const {
  if (error == nullptr) return OkStatus();
  Args<PJRT_Error_Message_Args> text;
  text.error = error;
  api_->PJRT_Error_Message(&text);
  std::string message(text.message ? text.message : "", text.message ? text.message_size : 0);
  Args<PJRT_Error_GetCode_Args> code;
  code.error = error;
  PJRT_Error* nested = api_->PJRT_Error_GetCode(&code);
  Code ours = nested == nullptr && code.code > 0 && code.code <= static_cast<int>(Code::kDataLoss)
                  ? static_cast<Code>(code.code)
                  : Code::kUnknown;
  for (PJRT_Error* done : {error, nested}) {
    if (done == nullptr) continue;
    Args<PJRT_Error_Destroy_Args> destroy;
    destroy.error = done;
    api_->PJRT_Error_Destroy(&destroy);
  }
  // Newer plugins append where in XLA the error was made.
  message.resize(std::min(message.size(), message.find("\n=== Source Location Trace")));
  if (ours == Code::kResourceExhausted) {
    message += " Try: a smaller batch, or free tensors that are no longer used.";
  }
  return Status(ours, std::move(message));
}

}  // namespace torch_tpu::pjrt
