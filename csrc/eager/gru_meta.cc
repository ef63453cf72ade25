// SPDX-License-Identifier: Apache-2.0
// Meta kernels of the fused GRU cell, which torch has only for LSTM: device RNNs reach them.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

namespace torch_tpu::eager {
namespace {

using at::Tensor;

std::tuple<Tensor, Tensor> GruCell(const Tensor& input_gates, const Tensor& hidden_gates,
                                   const Tensor& hx, const std::optional<Tensor>&,
                                   const std::optional<Tensor>&) {
  TORCH_CHECK(hx.dim() == 2 && input_gates.sizes() == hidden_gates.sizes() &&
                  input_gates.dim() == 2 && input_gates.size(1) == 3 * hx.size(1),
              "[aten::_thnn_fused_gru_cell] expected gates of 3 x the hidden size, got ",
              input_gates.sizes(), ", ", hidden_gates.sizes(), " and hidden ", hx.sizes());
  return {at::empty_like(hx, at::MemoryFormat::Contiguous),
          at::empty({hx.size(0), 5 * hx.size(1)}, hx.options())};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> GruCellBackward(const Tensor& grad_hy,
                                                                   const Tensor& workspace,
                                                                   bool has_bias) {
  const int64_t gates = 3 * grad_hy.size(1);
  const Tensor grad_gates = at::empty({grad_hy.size(0), gates}, workspace.options());
  const Tensor bias = has_bias ? at::empty({gates}, workspace.options()) : Tensor();
  return {grad_gates, at::empty_like(grad_gates),
          at::empty_like(grad_hy, at::MemoryFormat::Contiguous), bias,
          has_bias ? at::empty_like(bias) : Tensor()};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("_thnn_fused_gru_cell", &GruCell);
  m.impl("_thnn_fused_gru_cell_backward", &GruCellBackward);
}

}  // namespace torch_tpu::eager
