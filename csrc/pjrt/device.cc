// SPDX-License-Identifier: Apache-2.0
#include "csrc/pjrt/api.h"
#include "csrc/pjrt/client.h"

namespace torch_tpu::pjrt {

void Device::CountAlloc(int64_t bytes) {
  allocs_.fetch_add(1, std::memory_order_relaxed);
  int64_t now = in_use_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t peak = peak_.load(std::memory_order_relaxed);
  while (now > peak && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

void Device::CountFree(int64_t bytes) {
  frees_.fetch_add(1, std::memory_order_relaxed);
  in_use_.fetch_sub(bytes, std::memory_order_relaxed);
}

void Device::CountOom() { ooms_.fetch_add(1, std::memory_order_relaxed); }

void Device::ResetPeak() {
  peak_.store(in_use_.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

MemoryStats Device::memory_stats() const {
  MemoryStats stats;
  stats.bytes_in_use = in_use_.load(std::memory_order_relaxed);
  stats.peak_bytes_in_use = peak_.load(std::memory_order_relaxed);
  stats.num_allocs = allocs_.load(std::memory_order_relaxed);
  stats.num_frees = frees_.load(std::memory_order_relaxed);
  stats.num_ooms = ooms_.load(std::memory_order_relaxed);
  Args<PJRT_Device_MemoryStats_Args> args;
  args.device = raw_;
  // CPU plugins answer "unimplemented": then our own figures are all there is.
  if (TT_PJRT(client_->plugin(), PJRT_Device_MemoryStats, &args).ok()) {
    stats.plugin_bytes_in_use = args.bytes_in_use;
    if (args.peak_bytes_in_use_is_set) stats.plugin_peak_bytes = args.peak_bytes_in_use;
    if (args.bytes_limit_is_set) stats.bytes_limit = args.bytes_limit;
  }
  return stats;
}

std::vector<Attribute> Device::attributes() const {
  Args<PJRT_Device_GetDescription_Args> description;
  description.device = raw_;
  if (!TT_PJRT(client_->plugin(), PJRT_Device_GetDescription, &description).ok()) return {};
  Args<PJRT_DeviceDescription_Attributes_Args> args;
  args.device_description = description.device_description;
  if (!TT_PJRT(client_->plugin(), PJRT_DeviceDescription_Attributes, &args).ok()) return {};
  return ToAttributes(args.attributes, args.num_attributes);
}

}  // namespace torch_tpu::pjrt
