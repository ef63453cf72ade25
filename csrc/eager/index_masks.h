// SPDX-License-Identifier: Apache-2.0
// Index lists as torch accepts them (x[mask], x[cpu_index]) brought to what the table's rows take:
// integer tensors on the device.
#pragma once

#include <ATen/core/ivalue.h>

namespace torch_tpu::eager {

// `list`: a Tensor?[] of indices into `self`. CPU tensors are moved, bool and uint8 masks become
// the coordinates of their true elements. Unchanged lists are given back as they are.
c10::IValue PrepareIndices(const at::Tensor& self, const c10::IValue& list, const char* op);

// index_put of one value under one mask: self with `value` where the mask is true, without reading
// the mask on the host. False when the call is not of that form.
bool PutUnderMask(const at::Tensor& self, const c10::IValue& list, const at::Tensor& value,
                  bool accumulate);

}  // namespace torch_tpu::eager
