// SPDX-License-Identifier: Apache-2.0
// The fake plugin's objects. The API's opaque structs are defined here.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "pjrt_c_api.h"
#include "plugins/fake_pjrt/config.h"
#include "plugins/fake_pjrt/module_text.h"

namespace fake_pjrt {

// Counts the objects that a leak test must find gone.
struct Counted {
  Counted() { ++GlobalState().live; }
  ~Counted() { --GlobalState().live; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
};

struct Outcome {
  int code = 0;
  std::string message;
};

// A one-shot completion, shared by the events and buffers that show it.
class Future {
 public:
  void Complete(const Outcome& outcome);
  // Completes after the configured delay, on another thread when there is one.
  static void CompleteLater(const std::shared_ptr<Future>& future, const Outcome& outcome);
  bool done();
  Outcome Wait();
  void Then(std::function<void(const Outcome&)> callback);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  Outcome outcome_;
  std::vector<std::function<void(const Outcome&)>> callbacks_;
};

}  // namespace fake_pjrt

struct PJRT_Error {
  int code;
  std::string message;
};

struct PJRT_Event : fake_pjrt::Counted {
  explicit PJRT_Event(std::shared_ptr<fake_pjrt::Future> f) : future(std::move(f)) {}
  std::shared_ptr<fake_pjrt::Future> future;
};

struct PJRT_DeviceDescription {
  int id = 0;
  std::string kind = "fake";
  PJRT_NamedValue attribute = {};
};

struct PJRT_Memory {
  PJRT_Device* device = nullptr;
};

struct PJRT_Device {
  PJRT_DeviceDescription description;
  PJRT_Memory memory;
  std::atomic<int64_t> bytes_in_use{0};
};

struct PJRT_TopologyDescription {
  std::vector<std::unique_ptr<PJRT_DeviceDescription>> devices;
  std::vector<PJRT_DeviceDescription*> pointers;
};

struct PJRT_Client {
  std::string platform;
  std::vector<std::unique_ptr<PJRT_Device>> devices;
  std::vector<PJRT_Device*> pointers;
};

struct PJRT_Executable : fake_pjrt::Counted {
  std::string text;
  fake_pjrt::Signature signature;
  std::vector<PJRT_Buffer_Type> output_types;
  std::vector<int64_t> output_dims;
  std::vector<size_t> output_ranks;
  PJRT_NamedValue cost = {};
};

struct PJRT_LoadedExecutable : fake_pjrt::Counted {
  std::string text;
  fake_pjrt::Signature signature;
  PJRT_Device* device = nullptr;
};

struct PJRT_SerializedExecutable {
  std::string bytes;
};

struct PJRT_Buffer : fake_pjrt::Counted {
  PJRT_Buffer(PJRT_Device* d, fake_pjrt::Type t);  // call Reserve first
  ~PJRT_Buffer() { Delete(); }
  void Delete();

  PJRT_Device* device;
  fake_pjrt::Type type;
  std::unique_ptr<char[]> owned;
  char* data = nullptr;
  bool deleted = false;
  std::shared_ptr<fake_pjrt::Future> ready = std::make_shared<fake_pjrt::Future>();
  std::shared_ptr<fake_pjrt::Future> host_done;  // zero-copy: completes when the bytes are let go
};

namespace fake_pjrt {

PJRT_Error* Fail(int code, const std::string& message);
// Takes `bytes` of the device's memory limit, or fails with RESOURCE_EXHAUSTED.
PJRT_Error* Reserve(PJRT_Device* device, int64_t bytes);
// An error, counted as a violation, when the buffer is deleted or donated.
PJRT_Error* CheckAlive(const PJRT_Buffer* buffer);

PJRT_Error* Execute(PJRT_LoadedExecutable* executable, PJRT_Buffer* const* arguments, size_t count,
                    PJRT_Buffer** outputs);

}  // namespace fake_pjrt
