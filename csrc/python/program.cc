// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include "csrc/device/runtime.h"
#include "csrc/program/cache.h"
#include "csrc/program/store_queue.h"
#include "csrc/python/bindings.h"

namespace torch_tpu::python {
namespace {

namespace py = pybind11;
using device::Runtime;
using program::DiskCache;
using program::ProgramCache;
using WithoutGil = py::call_guard<py::gil_scoped_release>;

// The running cache's, or one over the same folder: tools look at it without opening a plugin.
std::shared_ptr<DiskCache> Disk() {
  if (Runtime* runtime = Runtime::IfOpen()) return runtime->programs().disk();
  return std::make_shared<DiskCache>(device::CacheFolder(), device::CacheMaxBytes());
}

py::dict CacheStats() {
  program::DiskStats disk;
  int64_t programs = 0;
  {
    py::gil_scoped_release release;
    if (Runtime* runtime = Runtime::IfOpen()) programs = runtime->programs().size();
    disk = Disk()->Stats();
  }
  py::dict stats;
  stats["programs"] = programs;
  stats["folder"] = disk.folder;
  stats["enabled"] = disk.enabled;
  stats["entries"] = disk.entries;
  stats["bytes"] = disk.bytes;
  stats["max_bytes"] = device::CacheMaxBytes();
  stats["read_only"] = DiskCache::read_only();
  stats["refuses_to_compile"] = ProgramCache::refuses_to_compile();
  return stats;
}

void Drain() {
  if (Runtime::IfOpen() != nullptr) program::StoreQueue::Get().Drain();
}

int64_t Prune(int64_t max_bytes) {
  Drain();
  return Disk()->Prune(max_bytes);
}

py::list CacheList(bool verify) {
  std::vector<program::DiskEntry> entries;
  {
    py::gil_scoped_release release;
    entries = Disk()->List(verify);
  }
  py::list list;
  for (const program::DiskEntry& entry : entries) {
    py::dict item;
    item["name"] = entry.name;
    item["description"] = py::bytes(entry.description);
    item["key"] = py::bytes(entry.key);
    item["bytes"] = entry.bytes;
    item["last_use"] = entry.last_use;
    item["good"] = entry.good;
    list.append(std::move(item));
  }
  return list;
}

}  // namespace

void BindProgram(py::module_& m) {
  m.def("_cache_folder", &device::CacheFolder);
  m.def("_cache_max_bytes", &device::CacheMaxBytes);
  m.def("_cache_set_folder", &device::SetCacheFolder, WithoutGil());
  m.def("_cache_set_max_bytes", &device::SetCacheMaxBytes, WithoutGil());
  m.def("_cache_stats", &CacheStats);
  m.def("_cache_list", &CacheList);
  m.def("_cache_drain", &Drain, WithoutGil());
  m.def("_cache_prune", &Prune, WithoutGil());
  m.def(
      "_cache_clear_memory",
      [] {
        if (Runtime* runtime = Runtime::IfOpen()) runtime->programs().Clear();
      },
      WithoutGil());
  m.def("_cache_hold_read_only", &DiskCache::HoldReadOnly);
  m.def("_cache_refuse_to_compile", &ProgramCache::RefuseToCompile);
}

}  // namespace torch_tpu::python
