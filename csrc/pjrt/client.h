// SPDX-License-Identifier: Apache-2.0
// Client, devices, buffers and executables over one Plugin. Process-wide and leaked: buffers may
// outlive any scope. All calls are thread safe unless said otherwise; none takes Python's GIL.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "csrc/base/status.h"
#include "csrc/hlo/type.h"
#include "csrc/pjrt/plugin.h"

struct PJRT_Buffer;
struct PJRT_Client;
struct PJRT_Device;
struct PJRT_Event;
struct PJRT_Executable;
struct PJRT_LoadedExecutable;

namespace torch_tpu::pjrt {

class Client;

struct MemoryStats {
  int64_t bytes_in_use = 0, peak_bytes_in_use = 0;  // of live buffers, our own accounting
  int64_t bytes_limit = 0;                          // plugin's; 0 when unknown
  int64_t num_allocs = 0, num_frees = 0, num_ooms = 0;
  int64_t plugin_bytes_in_use = -1, plugin_peak_bytes = -1;  // -1 when the plugin does not say
};

class Device {
 public:
  int index() const { return index_; }  // position among addressable devices = torch device index
  int64_t id() const { return id_; }
  const std::string& kind() const { return kind_; }
  Client& client() const { return *client_; }
  PJRT_Device* raw() const { return raw_; }
  MemoryStats memory_stats() const;
  void ResetPeak();
  void CountAlloc(int64_t bytes);  // hot: relaxed atomics
  void CountFree(int64_t bytes);
  void CountOom();
  std::vector<Attribute> attributes() const;

 private:
  friend class Client;
  Client* client_ = nullptr;
  PJRT_Device* raw_ = nullptr;
  int index_ = 0;
  int64_t id_ = 0;
  std::string kind_;
  std::atomic<int64_t> in_use_{0}, peak_{0}, allocs_{0}, frees_{0}, ooms_{0};
};

// Completion of some work. Move only; destroys the PJRT event. An empty Event is work that is done.
class Event {
 public:
  Event() = default;
  Event(Client* client, PJRT_Event* raw) : client_(client), raw_(raw) {}
  ~Event();
  Event(Event&& o) noexcept;
  Event& operator=(Event&& o) noexcept;
  bool valid() const { return raw_ != nullptr; }
  bool IsReady() const;
  Status Await() const;  // blocks; the caller must not hold the GIL
  // Runs once on a runtime thread (or inline when ready). Must not block or take the GIL.
  Status OnReady(std::function<void(Status)> callback);

 private:
  Client* client_ = nullptr;
  PJRT_Event* raw_ = nullptr;
};

// Owns one PJRT buffer and its byte accounting. Move only.
class Buffer {
 public:
  Buffer() = default;
  // Takes ownership. `bytes` is the logical size, counted against `device` until destruction.
  Buffer(Device* device, PJRT_Buffer* raw, int64_t bytes);
  ~Buffer();
  Buffer(Buffer&& o) noexcept;
  Buffer& operator=(Buffer&& o) noexcept;

  bool valid() const { return raw_ != nullptr; }
  PJRT_Buffer* raw() const { return raw_; }
  Device* device() const { return device_; }
  int64_t bytes() const { return bytes_; }

  StatusOr<Event> Ready() const;
  // Dense row-major copy to host; `size` must equal bytes(). Async: keep dst alive until the event.
  StatusOr<Event> ToHost(void* dst, int64_t size) const;
  // Host pointer of a ready buffer on a CPU runtime, null elsewhere. Valid while this lives and is
  // not donated.
  StatusOr<const void*> HostPointer() const;
  StatusOr<Buffer> CopyTo(Device* dst) const;
  StatusOr<hlo::Shape> QueryShape() const;

 private:
  Status CheckUsable(const char* call) const;
  Device* device_ = nullptr;
  PJRT_Buffer* raw_ = nullptr;
  int64_t bytes_ = 0;
};

enum class HostSemantics {
  kCopy,              // source may be reused at return
  kUntilTransferred,  // source unchanged until `done`
  kZeroCopy,          // source may be aliased for the buffer's life; `done` fires when it dies
};

struct CompileOptions {
  int num_replicas = 1, num_partitions = 1;
  std::vector<int64_t> device_ids = {};  // replicas x partitions, row-major
  bool use_spmd = false, use_shardy = false;
  int effort = 0;  // 0 default, 9 O0, 19 O1, 29 O2, 39 O3
  std::vector<std::pair<std::string, std::string>> overrides =
      {};  // env_option_overrides (typed by text: true/false, int, else string)
};
// The serialized xla.CompileOptionsProto. Own writer; golden-byte tests.
std::string SerializeCompileOptions(const CompileOptions& options);

struct MemoryReport {
  int64_t generated_code = 0, arguments = 0, outputs = 0, aliased = 0, temporaries = 0, peak = 0;
};

class Executable {
 public:
  ~Executable();
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  PJRT_LoadedExecutable* raw() const { return raw_; }
  Device* device() const { return device_; }
  const std::vector<hlo::Shape>& outputs() const { return outputs_; }
  size_t num_outputs() const { return num_outputs_; }

  // The hot call: no allocation, no event, no query. `outputs` receives num_outputs() raw buffers
  // that the caller owns. Arguments whose donation the program states are consumed. Does not check
  // shapes.
  Status Execute(PJRT_Buffer* const* arguments, size_t num_arguments, PJRT_Buffer** outputs) const;

  // Bytes for Client::Load. Call at most once, right after Compile; fails when not serializable.
  StatusOr<std::string> Serialize() const;
  StatusOr<MemoryReport> memory_report() const;
  StatusOr<std::vector<std::pair<std::string, double>>> cost_analysis() const;

 private:
  friend class Client;
  Executable() = default;
  Client* client_ = nullptr;
  Device* device_ = nullptr;
  PJRT_LoadedExecutable* raw_ = nullptr;
  PJRT_Executable* executable_ = nullptr;
  size_t num_outputs_ = 0;
  std::vector<hlo::Shape> outputs_;
};

class Client {
 public:
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  // `num_devices` is passed to CPU plugins as cpu_device_count; 0 for others.
  static StatusOr<Client*> Create(Plugin* plugin, int num_devices);

  Plugin& plugin() const { return *plugin_; }
  const std::string& platform() const { return platform_; }  // "cpu", "tpu", "cuda"
  bool is_cpu() const { return is_cpu_; }
  const std::string& platform_version() const { return version_; }
  const std::vector<Device*>& devices() const { return devices_; }  // addressable
  PJRT_Client* raw() const { return raw_; }

  // Dense row-major source when `byte_strides` is null. `done` may be null with kCopy.
  StatusOr<Buffer> FromHost(const void* data, const hlo::Shape& shape, const int64_t* byte_strides,
                            HostSemantics semantics, Device* device, Event* done = nullptr);
  // StableHLO text to a loaded executable on `device` (1x1 assignment unless options say
  // otherwise).
  StatusOr<std::unique_ptr<Executable>> Compile(std::string_view module, Device* device,
                                                const CompileOptions& options = {});
  StatusOr<std::unique_ptr<Executable>> Load(std::string_view serialized, Device* device,
                                             size_t num_outputs);

 private:
  friend std::default_delete<Client>;
  Client() = default;
  ~Client();
  Status ReadPlatform();
  Status ReadDevices();
  StatusOr<std::unique_ptr<Executable>> Finish(PJRT_LoadedExecutable* raw, Device* device);

  Plugin* plugin_ = nullptr;
  PJRT_Client* raw_ = nullptr;
  std::string platform_, version_;
  bool is_cpu_ = false;
  std::vector<Device*> devices_;
};

}  // namespace torch_tpu::pjrt
