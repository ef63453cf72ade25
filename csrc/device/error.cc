// SPDX-License-Identifier: Apache-2.0
#include "csrc/device/error.h"

#include <c10/util/Exception.h>

namespace torch_tpu::device {

void Throw(const Status& status) {
  const std::string& message = status.message();
  switch (status.code()) {
    case Code::kResourceExhausted: TORCH_CHECK_WITH(OutOfMemoryError, false, message);
    case Code::kOutOfRange: TORCH_CHECK_INDEX(false, message);
    case Code::kUnimplemented: TORCH_CHECK_NOT_IMPLEMENTED(false, message);
    default: TORCH_CHECK(false, message);
  }
}

}  // namespace torch_tpu::device
