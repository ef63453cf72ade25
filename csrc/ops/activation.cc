// SPDX-License-Identifier: Apache-2.0
// Activations, each followed by its backward.
#include <cmath>
#include <numbers>

#include "csrc/ops/math.h"
#include "csrc/ops/op.h"

namespace torch_tpu::ops {
namespace {

Value Zero(Value like) { return ZerosLike(like); }

// tanh(sqrt(2/pi) (x + 0.044715 x^3)) and the derivative of its argument.
struct TanhGelu {
  explicit TanhGelu(Value x) {
    const double beta = std::sqrt(2 / std::numbers::pi), kappa = 0.044715;
    tanh = Tanh((x + x * x * x * kappa) * beta);
    slope = (1.0 + x * x * (3 * kappa)) * beta;
  }
  Value tanh, slope;
};

}  // namespace

OP("aten::relu", {.tolerance = Tolerance::kExact}) {
  Value self = x.arg("self");
  return Max(self, Zero(self));
}
OP("aten::threshold", {.tolerance = Tolerance::kExact}) {
  Value self = x.arg("self");
  return Select(self <= x.scalar("threshold"), x.scalar("value"), self);
}
OP("aten::threshold_backward", {.tolerance = Tolerance::kExact}) {
  Value grad = x.arg("grad_output");
  return Select(x.arg("self") <= x.scalar("threshold"), Zero(grad), grad);
}
OP("aten::leaky_relu") {
  Value self = x.arg("self");
  return Select(self > 0, self, self * x.scalar("negative_slope"));
}
OP("aten::leaky_relu_backward") {
  Value grad = x.arg("grad_output");
  return Select(x.arg("self") > 0, grad, grad * x.scalar("negative_slope"));
}
OP("aten::_prelu_kernel") {
  Value self = x.arg("self");
  return Select(self > 0, self, x.arg("weight") * self);
}
OP("aten::_prelu_kernel_backward") {
  Value grad = x.arg("grad_output"), self = x.arg("self");
  return {Select(self > 0, grad, x.arg("weight") * grad),
          Select(self > 0, Zero(grad), self * grad)};
}

OP("aten::gelu") {
  Value self = x.arg("self");
  if (x.string("approximate") == "tanh") return self * 0.5 * (1.0 + TanhGelu(self).tanh);
  return self * NormalCdf(self);
}
OP("aten::gelu_backward") {
  Value grad = x.arg("grad_output"), self = x.arg("self");
  if (x.string("approximate") == "tanh") {
    TanhGelu gelu(self);
    Value left = 0.5 * (1.0 + gelu.tanh);
    return grad * (left + 0.5 * self * (1.0 - gelu.tanh * gelu.tanh) * gelu.slope);
  }
  Value cdf = NormalCdf(self);
  Value density = Exp(self * self * -0.5) * (1 / std::sqrt(2 * std::numbers::pi));
  return grad * (cdf + self * density);
}
OP("aten::silu") {
  Value self = x.arg("self");
  return self * Logistic(self);
}
OP("aten::silu_backward") {
  Value self = x.arg("self");
  Value gate = Logistic(self);
  return x.arg("grad_output") * gate * (1.0 + self * (1.0 - gate));
}
OP("aten::mish") {
  Value self = x.arg("self");
  return self * Tanh(Log1pExp(self));
}
OP("aten::mish_backward") {
  Value self = x.arg("self");
  Value tanh = Tanh(Log1pExp(self));
  return x.arg("grad_output") * (tanh + self * Logistic(self) * (1.0 - tanh * tanh));
}
OP("aten::sigmoid_backward") {
  Value output = x.arg("output");
  return x.arg("grad_output") * Conj((1.0 - output) * output);
}
OP("aten::tanh_backward") {
  Value output = x.arg("output");
  return x.arg("grad_output") * Conj(1.0 - output * output);
}

OP("aten::elu") {
  Value self = x.arg("self"), scale = x.scalar("scale");
  Value negative = Expm1(self * x.scalar("input_scale")) * (x.scalar("alpha") * scale);
  return Select(self <= 0, negative, self * scale);
}
OP("aten::elu_backward") {
  Value grad = x.arg("grad_output"), self = x.arg("self_or_result");
  Value scale = x.scalar("scale"), input_scale = x.scalar("input_scale");
  Value coefficient = x.scalar("alpha") * scale;
  Value negative = x.boolean("is_result")
                       ? grad * input_scale * (self + coefficient)
                       : grad * (input_scale * coefficient) * Exp(self * input_scale);
  return Select(self <= 0, negative, grad * scale);
}
OP("aten::softplus") {
  Value self = x.arg("self"), beta = x.scalar("beta");
  Value scaled = self * beta;
  return Select(scaled > x.scalar("threshold"), self, Log1p(Exp(scaled)) / beta);
}
OP("aten::softplus_backward") {
  Value grad = x.arg("grad_output");
  Value scaled = x.arg("self") * x.scalar("beta");
  return Select(scaled > x.scalar("threshold"), grad, grad * Logistic(scaled));
}
OP("aten::log_sigmoid_forward") {
  // The buffer saves the backward an exponential on CPU; elsewhere torch leaves it empty.
  Value self = x.arg("self");
  Value exponential = Exp(-Abs(self));
  Value output = Min(self, Zero(self)) - Log1p(exponential);
  if (x.result(1).dims == x.result(0).dims) return {output, exponential};
  return {output, x.builder().Constant(x.result(1).dtype, 0, x.result(1).dims)};
}
OP("aten::log_sigmoid_backward") { return x.arg("grad_output") * Logistic(-x.arg("self")); }

OP("aten::hardtanh", {.tolerance = Tolerance::kExact}) {
  return ClampTo(x.arg("self"), x.scalar("min_val"), x.scalar("max_val"));
}
OP("aten::hardtanh_backward", {.tolerance = Tolerance::kExact}) {
  Value grad = x.arg("grad_output"), self = x.arg("self");
  return Select((self <= x.scalar("min_val")) | (self >= x.scalar("max_val")), Zero(grad), grad);
}
OP("aten::hardsigmoid") {
  Value self = x.arg("self");
  return Min(Max(self + 3, Zero(self)), Like(self, 6)) / 6;
}
OP("aten::hardsigmoid_backward") {
  Value grad = x.arg("grad_output"), self = x.arg("self");
  return Select((self > -3) & (self < 3), grad / 6, Zero(grad));
}
OP("aten::hardswish") {
  Value self = x.arg("self");
  return self * Min(Max(self + 3, Zero(self)), Like(self, 6)) / 6;
}
OP("aten::hardswish_backward") {
  Value grad = x.arg("grad_output"), self = x.arg("self");
  Value middle = grad * (self / 3 + 0.5);
  return Select(self <= -3, Zero(grad), Select(self < 3, middle, grad));
}
OP("aten::hardshrink", {.tolerance = Tolerance::kExact}) {
  Value self = x.arg("self"), bound = x.scalar("lambd");
  return Select((self >= -bound) & (self <= bound), Zero(self), self);
}
OP("aten::softshrink") {
  Value self = x.arg("self"), bound = x.scalar("lambd");
  Value inside = Select(IsNan(self), self, Zero(self));
  return Select(self > bound, self - bound, Select(self < -bound, self + bound, inside));
}
OP("aten::hardshrink_backward", {.tolerance = Tolerance::kExact}) {
  Value grad = x.arg("grad_out"), self = x.arg("self"), bound = x.scalar("lambd");
  return Select((self >= -bound) & (self <= bound), Zero(grad), grad);
}
OP("aten::softshrink_backward", {.tolerance = Tolerance::kExact}) {
  Value grad = x.arg("grad_output"), self = x.arg("self"), bound = x.scalar("lambd");
  return Select((self >= -bound) & (self <= bound), Zero(grad), grad);
}

// ---- gated linear unit: the first half times the sigmoid of the second -------------------------
namespace {

struct Halves {
  Halves(Lowering& x, ArgRef a, ArgRef dim) {
    Value whole = Convert(x.tensor(a), x.compute_type());
    axis = static_cast<int>(Lowering::WrapDim(x.integer(dim), whole.rank()));
    const int64_t half = whole.dim(axis) / 2;
    first = x.builder().SliceDim(whole, axis, 0, half);
    second = x.builder().SliceDim(whole, axis, half, 2 * half);
  }
  int axis;
  Value first, second;
};

}  // namespace

OP("aten::glu") {
  Halves h(x, "self", "dim");
  return h.first * Logistic(h.second);
}
OP("aten::glu_backward") {
  Halves h(x, "self", "dim");
  Value grad = Convert(x.tensor("grad_output"), x.compute_type());
  Value gate = Logistic(h.second);
  Value first = gate * grad;
  return x.builder().Concatenate({first, (1.0 - gate) * first * h.first}, h.axis);
}
OP("aten::glu_jvp") {
  Halves h(x, "x", "dim"), d(x, "dx", "dim");
  Value gate = Logistic(h.second);
  return d.first * gate + x.arg("glu") * (d.second - gate * d.second);
}

}  // namespace torch_tpu::ops
