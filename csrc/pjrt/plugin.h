// SPDX-License-Identifier: Apache-2.0
// A PJRT plugin: dlopen, version and capability checks, errors as Status. Only csrc/pjrt/*.cc
// include the PJRT C header. A plugin is never unloaded (it owns threads and globals).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "csrc/base/status.h"

struct PJRT_Api;
struct PJRT_Error;

namespace torch_tpu::pjrt {

struct Attribute {
  std::string name;
  std::string value;  // as text; lists comma separated
};

class Plugin {
 public:
  // Thread safe; a second Load of the same file gives the same Plugin. `path` must be a file.
  // Refuses flags in XLA_FLAGS and LIBTPU_INIT_ARGS that the plugin lacks; a bad value of a known
  // flag still ends the process, inside XLA.
  static StatusOr<Plugin*> Load(const std::string& path);

  const PJRT_Api* api() const { return api_; }
  const std::string& path() const { return path_; }
  int api_major() const { return api_major_; }
  int api_minor() const { return api_minor_; }
  const std::vector<Attribute>& attributes() const { return attributes_; }
  // Identity for the cache key: file size, content hash (memoized on disk by
  // path, size, mtime, inode), version, attributes.
  StatusOr<std::string> Fingerprint() const;
  // True when the plugin has the function whose field sits at `offset` of PJRT_Api.
  bool HasFunctionAt(size_t offset) const;

  // Takes ownership of `error`; null is ok.
  Status ToStatus(PJRT_Error* error) const;

 private:
  Plugin() = default;
  Status Open();
  const PJRT_Api* api_ = nullptr;
  std::string path_;
  int api_major_ = 0, api_minor_ = 0;
  std::vector<Attribute> attributes_;
};

enum class RuntimeKind { kTpu, kCpu, kCuda, kPath };
struct RuntimeChoice {
  RuntimeKind kind;
  std::string path;
};
// Reads TORCH_TPU_RUNTIME (auto|tpu|cpu|cuda|/path) and finds the plugin file: libtpu when a TPU is
// on the PCI bus, else the CPU plugin. `site_packages` are the folders to look in.
StatusOr<RuntimeChoice> ChooseRuntime(const std::vector<std::string>& site_packages);
// True when a TPU chip of a known generation is among the PCI devices (sysfs).
bool HasTpu(const std::string& pci_devices = "/sys/bus/pci/devices");

}  // namespace torch_tpu::pjrt
