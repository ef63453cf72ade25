// SPDX-License-Identifier: Apache-2.0
// Private to csrc/pjrt: how we call the PJRT C API. Args<T> is any args struct, zeroed, with a
// zeroed tail counted in struct_size: a plugin newer than our header reads the fields we do not
// know as unset.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "csrc/base/status.h"
#include "csrc/hlo/type.h"
#include "csrc/pjrt/plugin.h"
#include "pjrt_c_api.h"

namespace torch_tpu::pjrt {

template <typename T>
struct Args : T {
  Args() {
    std::memset(static_cast<void*>(this), 0, sizeof(*this));
    this->struct_size = sizeof(*this);
  }
  std::byte tail[256];
};

Status MissingFunction(const Plugin& plugin, const char* function);

// Calls a function that may be absent. The required ones (plugin.cc) may be called through api().
#define TT_PJRT(plugin, function, args)                    \
  ((plugin).HasFunctionAt(offsetof(PJRT_Api, function))    \
       ? (plugin).ToStatus((plugin).api()->function(args)) \
       : ::torch_tpu::pjrt::MissingFunction((plugin), #function))

// PJRT_Buffer_Type_INVALID and kInvalid stand for "no twin".
PJRT_Buffer_Type ToBufferType(hlo::DType dtype);
hlo::DType FromBufferType(PJRT_Buffer_Type type);

std::vector<Attribute> ToAttributes(const PJRT_NamedValue* values, size_t count);

}  // namespace torch_tpu::pjrt
