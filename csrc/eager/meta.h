// SPDX-License-Identifier: Apache-2.0
// torch's own meta kernels give result shapes, dtypes and strides and check the arguments: on a
// miss, once per signature.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <vector>

namespace torch_tpu::eager {

// Runs `op` on meta twins of `args` and gives its returns. Throws torch's error for bad arguments.
std::vector<c10::IValue> RunMeta(const c10::OperatorHandle& op, const c10::IValue* args,
                                 size_t count);

// The same for a functional twin: `args` without those past the functional schema's end (out=).
// Tensors among returns, lists flattened.
std::vector<at::Tensor> FlattenTensors(const std::vector<c10::IValue>& values);

}  // namespace torch_tpu::eager
