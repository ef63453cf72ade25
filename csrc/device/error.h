// SPDX-License-Identifier: Apache-2.0
// The one place where a Status becomes a torch exception.
#pragma once

#include "csrc/base/status.h"

namespace torch_tpu::device {

[[noreturn]] void Throw(const Status& status);

inline void ThrowIfError(const Status& status) {
  if (!status.ok()) [[unlikely]]
    Throw(status);
}

template <typename T>
T ValueOrThrow(StatusOr<T> value) {
  ThrowIfError(value.status());
  return std::move(value).value();
}

}  // namespace torch_tpu::device
