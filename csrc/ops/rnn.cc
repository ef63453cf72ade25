// SPDX-License-Identifier: Apache-2.0
// Fused cells of LSTM and GRU. Gates lie side by side in [batch, n * hidden]; the workspace keeps
// what the backward needs, in the layout of torch's CUDA kernels.
#include "csrc/ops/op.h"

namespace torch_tpu::ops {
namespace {

Value Typed(Lowering& x, const char* name) { return Convert(x.tensor(name), x.compute_type()); }

// `gates` [batch, n * hidden] plus its bias, when there is one.
Value Biased(Lowering& x, const char* gates, const char* bias) {
  Value v = Typed(x, gates);
  return x.has(bias) ? v + BroadcastTo(Typed(x, bias), v.dims()) : v;
}

// The i-th of the parts of width `hidden`.
Value Part(Value v, int64_t i, int64_t hidden) {
  return v.builder().SliceDim(v, 1, i * hidden, (i + 1) * hidden);
}

// Gradient through a logistic or a tanh whose result is y.
Value LogisticGrad(Value grad, Value y) { return grad * y * (1.0 - y); }
Value TanhGrad(Value grad, Value y) { return grad * (1.0 - y * y); }

}  // namespace

OP("aten::_thnn_fused_lstm_cell") {  // hy, cy, workspace [input, forget, cell, output]
  Value gates = Biased(x, "input_gates", "input_bias") + Biased(x, "hidden_gates", "hidden_bias");
  Value cx = Typed(x, "cx");
  const int64_t hidden = cx.dim(1);
  Value input = Logistic(Part(gates, 0, hidden)), forget = Logistic(Part(gates, 1, hidden));
  Value cell = Tanh(Part(gates, 2, hidden)), output = Logistic(Part(gates, 3, hidden));
  Value cy = forget * cx + input * cell;
  return {output * Tanh(cy), cy, x.builder().Concatenate({input, forget, cell, output}, 1)};
}

OP("aten::_thnn_fused_lstm_cell_backward_impl") {  // grad_gates, grad_cx, grad_bias
  Value workspace = Typed(x, "workspace"), cx = Typed(x, "cx"), cy = Typed(x, "cy");
  const int64_t hidden = cx.dim(1);
  Value input = Part(workspace, 0, hidden), forget = Part(workspace, 1, hidden);
  Value cell = Part(workspace, 2, hidden), output = Part(workspace, 3, hidden);
  Value grad_hy = x.has("grad_hy") ? Typed(x, "grad_hy") : ZerosLike(cx);
  Value grad_cy = x.has("grad_cy") ? Typed(x, "grad_cy") : ZerosLike(cx);
  Value tanh_cy = Tanh(cy);
  Value grad_cell_state = TanhGrad(grad_hy * output, tanh_cy) + grad_cy;
  Value grad_gates = x.builder().Concatenate(
      {LogisticGrad(grad_cell_state * cell, input), LogisticGrad(grad_cell_state * cx, forget),
       TanhGrad(grad_cell_state * input, cell), LogisticGrad(grad_hy * tanh_cy, output)},
      1);
  return {grad_gates, grad_cell_state * forget,
          x.boolean("has_bias") ? Sum(grad_gates, {0}) : Value()};
}

OP("aten::_thnn_fused_gru_cell") {  // hy, workspace [reset, update, new, hx, biased new of hidden]
  Value from_input = Biased(x, "input_gates", "input_bias");
  Value from_hidden = Biased(x, "hidden_gates", "hidden_bias");
  Value hx = Typed(x, "hx");
  const int64_t hidden = hx.dim(1);
  auto both = [&](int i) { return Part(from_input, i, hidden) + Part(from_hidden, i, hidden); };
  Value reset = Logistic(both(0)), update = Logistic(both(1));
  Value hidden_new = Part(from_hidden, 2, hidden);
  Value fresh = Tanh(Part(from_input, 2, hidden) + reset * hidden_new);
  return {fresh + update * (hx - fresh),
          x.builder().Concatenate({reset, update, fresh, hx, hidden_new}, 1)};
}

OP("aten::_thnn_fused_gru_cell_backward") {  // of input gates, hidden gates, hx, and the two biases
  Value grad = Typed(x, "grad_hy"), workspace = Typed(x, "workspace");
  const int64_t hidden = grad.dim(1);
  Value reset = Part(workspace, 0, hidden), update = Part(workspace, 1, hidden);
  Value fresh = Part(workspace, 2, hidden), hx = Part(workspace, 3, hidden);
  Value hidden_new = Part(workspace, 4, hidden);
  Value grad_update = LogisticGrad(grad * (hx - fresh), update);
  Value grad_new = TanhGrad(grad * (1.0 - update), fresh);
  Value grad_reset = LogisticGrad(grad_new * hidden_new, reset);
  auto& b = x.builder();
  Value of_input = b.Concatenate({grad_reset, grad_update, grad_new}, 1);
  Value of_hidden = b.Concatenate({grad_reset, grad_update, grad_new * reset}, 1);
  const bool bias = x.boolean("has_bias");  // without: undefined gradients
  return {of_input, of_hidden, grad * update, bias ? Sum(of_input, {0}) : Value(),
          bias ? Sum(of_hidden, {0}) : Value()};
}

}  // namespace torch_tpu::ops
