// SPDX-License-Identifier: Apache-2.0
// Bindings of base/ and device/.
#include <pybind11/stl.h>
#include <torch/csrc/Generator.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "csrc/base/counters.h"
#include "csrc/base/env.h"
#include "csrc/device/error.h"
#include "csrc/device/generator.h"
#include "csrc/device/guard.h"
#include "csrc/device/host_allocator.h"
#include "csrc/device/runtime.h"
#include "csrc/device/stream.h"
#include "csrc/device/timeline.h"
#include "csrc/program/store_queue.h"
#include "csrc/program/window.h"
#include "csrc/python/bindings.h"

namespace torch_tpu::python {
namespace {

namespace py = pybind11;
using device::Runtime;
using WithoutGil = py::call_guard<py::gil_scoped_release>;

pjrt::Device& RequireDevice(int index) {
  index = device::CheckedDevice(static_cast<c10::DeviceIndex>(index));
  return *Runtime::Require().device(index);
}

py::dict Attributes(const std::vector<pjrt::Attribute>& attributes) {
  py::dict out;
  for (const pjrt::Attribute& a : attributes) out[py::str(a.name)] = a.value;
  return out;
}

// The machine's memory: what a device of the CPU runtime can use at most.
int64_t HostMemory() {
  return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
}

py::dict DeviceProperties(int index) {
  pjrt::Device& device = RequireDevice(index);
  pjrt::MemoryStats memory = device.memory_stats();
  py::dict out;
  out["name"] = device.kind();
  out["platform"] = device.client().platform();
  out["id"] = device.id();
  out["total_memory"] = memory.bytes_limit > 0                ? memory.bytes_limit
                        : Runtime::Require().host_is_device() ? HostMemory()
                                                              : int64_t{0};
  out["attributes"] = Attributes(device.attributes());
  return out;
}

py::dict RuntimeInfo() {
  Runtime& runtime = Runtime::Require();
  const pjrt::Plugin& plugin = runtime.client().plugin();
  py::dict out;
  out["plugin"] = plugin.path();
  out["api_version"] =
      std::to_string(plugin.api_major()) + "." + std::to_string(plugin.api_minor());
  out["platform"] = runtime.client().platform();
  out["platform_version"] = runtime.client().platform_version();
  out["attributes"] = Attributes(plugin.attributes());
  return out;
}

py::dict Metrics() {
  py::dict out;
  for (int i = 0; i < static_cast<int>(Counter::kCount); ++i) {
    auto counter = static_cast<Counter>(i);
    out[CounterName(counter)] = Get(counter);
  }
  out["fallbacks"] = Fallbacks();
  out["flushes"] = program::Window::Flushes();
  return out;
}

py::list EnvironmentTable() {
  py::list out;
  for (const EnvVar& v : EnvTable()) out.append(py::make_tuple(v.name, v.fallback, v.description));
  return out;
}

// At exit: waits for what runs and for what is being written to the disk cache, so that the
// plugin's threads are idle when libraries are torn down.
void Drain() {
  Runtime* runtime = Runtime::IfOpen();
  if (runtime == nullptr) return;
  for (int i = 0; i < runtime->device_count(); ++i) {
    (void)device::Timeline::Of(i)
        .Synchronize();  // errors were the business of a synchronize before
  }
  program::StoreQueue::Get().Drain();
}

void BindStat(py::dict& out, const char* name, const c10::CachingAllocator::Stat& stat) {
  py::dict fields;
  fields["current"] = stat.current;
  fields["peak"] = stat.peak;
  fields["allocated"] = stat.allocated;
  fields["freed"] = stat.freed;
  out[name] = fields;
}

py::dict HostMemoryStats() {
  at::HostStats stats = device::GetHostAllocator()->get_stats();
  py::dict out;
  BindStat(out, "active_requests", stats.active_requests);
  BindStat(out, "active_bytes", stats.active_bytes);
  BindStat(out, "allocations", stats.allocations);
  BindStat(out, "allocated_bytes", stats.allocated_bytes);
  out["num_host_alloc"] = stats.num_host_alloc;
  out["num_host_free"] = stats.num_host_free;
  return out;
}

}  // namespace

void BindDevice(py::module_& m) {
  m.def("_set_site_packages", &Runtime::SetSitePackages);
  m.def("_init", [] { Runtime::Require(); }, WithoutGil());
  m.def("_is_initialized", [] { return Runtime::IfOpen() != nullptr; });
  m.def("_is_in_bad_fork", &Runtime::InBadFork);
  m.def("_runtime_info", &RuntimeInfo);
  m.def("_drain", &Drain, WithoutGil());

  m.def("_device_count", &Runtime::DeviceCount, WithoutGil());
  m.def("_current_device", [] { return static_cast<int>(device::CurrentDevice()); });
  m.def("_exchange_device", [](int index) {
    return static_cast<int>(device::ExchangeCurrentDevice(static_cast<c10::DeviceIndex>(index)));
  });
  m.def("_device_properties", &DeviceProperties);

  // Streams travel as ids; the device index is checked by the caller's CheckedDevice.
  m.def("_current_stream", [](int index) {
    return device::CurrentStream(device::CheckedDevice(static_cast<c10::DeviceIndex>(index))).id();
  });
  m.def(
      "_synchronize",
      [](int index) {
        device::SynchronizeDevice(device::CheckedDevice(static_cast<c10::DeviceIndex>(index)));
      },
      WithoutGil());

  m.def("_default_generator", [](int index) {
    return py::reinterpret_steal<py::object>(
        THPGenerator_Wrap(device::DefaultGenerator(static_cast<c10::DeviceIndex>(index))));
  });
  m.def("_seed_all", &device::SeedAllGenerators);

  m.def("_host_memory_stats", &HostMemoryStats);
  m.def("_reset_peak_host_memory_stats", [] { device::GetHostAllocator()->reset_peak_stats(); });
  m.def("_reset_accumulated_host_memory_stats",
        [] { device::GetHostAllocator()->reset_accumulated_stats(); });

  m.def("_metrics", &Metrics);
  m.def("_reset_metrics", [] {
    ResetCounters();
    program::Window::ResetFlushes();
  });
  m.def("_env_table", &EnvironmentTable);
  m.def("_unknown_env", &UnknownEnv);
}

}  // namespace torch_tpu::python
