// SPDX-License-Identifier: Apache-2.0
// Copies between host and device, between devices, and within one.
#pragma once

#include <ATen/core/Tensor.h>

namespace torch_tpu::eager {

// A CPU tensor with the content, sizes and dtype of a tpu tensor. Blocks until it is computed;
// raises the error of the program that failed to make it.
at::Tensor ReadToHost(const at::Tensor& tensor);

// self[...] = src, broadcast and converted, whatever devices they are on.
at::Tensor& Copy(at::Tensor& self, const at::Tensor& src, bool non_blocking);

}  // namespace torch_tpu::eager
