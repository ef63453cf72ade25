// SPDX-License-Identifier: Apache-2.0
// Losses and their gradients. `reduction` is torch's 0 none, 1 mean, 2 sum.
#include <functional>

#include "csrc/ops/op.h"
#include "csrc/ops/reduction.h"

namespace torch_tpu::ops {
namespace {

enum Reduction : int64_t { kNone = 0, kMean = 1, kSum = 2 };

constexpr Tolerance kSums = Tolerance::kAccumulate;

Dims AllDims(Value v) { return Lowering::WrapDims({}, v.rank()); }

// Tensor arguments (absent ones allowed) in the compute type, broadcast together.
Values Operands(Lowering& x, std::initializer_list<const char*> names) {
  Values vs;
  for (const char* name : names) {
    vs.push_back(x.has(name) ? Convert(x.tensor(name), x.compute_type()) : Value());
  }
  return BroadcastTogether(vs);
}

Value Reduced(Lowering& x, Value loss) {
  const int64_t reduction = x.integer("reduction");
  if (reduction == kNone) return loss;
  Value sum = Sum(loss, AllDims(loss));
  return reduction == kMean ? sum / static_cast<double>(loss.numel()) : sum;
}

// The gradient that reaches each element: mean spreads 1/n.
Value Spread(Lowering& x, Value grad) {
  return x.integer("reduction") == kMean ? grad / static_cast<double>(grad.numel()) : grad;
}

// log(1 + exp(v)) without overflow.
Value Softplus(Value v) { return Log1p(Exp(-Abs(v))) + Max(v, ZerosLike(v)); }

// ---- negative log likelihood --------------------------------------------------------------------

// Class probabilities [.., C, ..] against class indices. A compare with an iota stands for the
// gather: it fuses with its neighbours, where single-element gathers and scatters crawl on a TPU.
struct Classes {
  int dim;
  Value hit;      // [.., C, ..] pred: the target class of a counted element
  Value weights;  // like the target: the class weight, 0 when ignored
  Value target;

  Classes(Lowering& x, Value input, DType dtype) {
    dim = input.rank() == 1 ? 0 : 1;
    const int64_t classes = input.dim(dim);
    Dims shape = input.dims();
    shape.erase(shape.begin() + dim);
    target = Reshape(Convert(x.tensor("target"), DType::kS64), shape);
    Value ignored = Eq(target, x.builder().ConstantInt(DType::kS64, x.integer("ignore_index")));
    x.CheckBounds("target", Select(ignored, ZerosLike(target), target), classes, false);
    Value wide = BroadcastTo(KeepDims(Convert(target, DType::kS32), {dim}), input.dims());
    Value ignored_wide = BroadcastTo(KeepDims(ignored, {dim}), input.dims());
    hit = Eq(Positions(input, dim), wide) & ~ignored_wide;
    if (x.has("weight")) {
      Value w = x.builder().BroadcastInDim(Convert(x.tensor("weight"), dtype), input.dims(), {dim});
      weights = Sum(Select(hit, w, ZerosLike(w)), {dim});
    } else {
      Value one = x.builder().Constant(dtype, 1, shape);
      weights = Select(ignored, ZerosLike(one), one);
    }
  }

  Value Wide(Value v, Value input) const { return BroadcastTo(KeepDims(v, {dim}), input.dims()); }
};

Values NllForward(Lowering& x) {
  Value input = Convert(x.tensor("self"), x.compute_type());
  Classes c(x, input, input.dtype());
  Value picked = Sum(Select(c.hit, input, ZerosLike(input)), {c.dim});
  Value loss = -picked * c.weights;
  const int64_t reduction = x.integer("reduction");
  Value total = Sum(c.weights, AllDims(c.weights));
  if (reduction == kNone) {
    // torch leaves the total at zero for a batch without reduction.
    return {Reshape(loss, x.result().dims), input.rank() == 1 ? total : ZerosLike(total)};
  }
  Value sum = Sum(loss, AllDims(loss));
  return {reduction == kMean ? sum / total : sum, total};
}

Value NllBackward(Lowering& x) {
  Value input = x.tensor("self");
  const DType dtype = x.compute_type();
  Classes c(x, input, dtype);
  Value grad = Convert(x.tensor("grad_output"), dtype);
  if (x.integer("reduction") == kMean) {
    grad = Reshape(grad, {}) / Reshape(Convert(x.tensor("total_weight"), dtype), {});
  }
  if (grad.numel() == 1) grad = Reshape(grad, {});
  Value each = -(grad.rank() == 0 ? BroadcastTo(grad, c.weights.dims()) : grad) * c.weights;
  Value wide = c.Wide(Reshape(each, c.weights.dims()), input);
  return Select(c.hit, wide, ZerosLike(wide));
}

}  // namespace

OPS(({"aten::nll_loss_forward", "aten::nll_loss2d_forward"}), {.tolerance = kSums}) {
  return NllForward(x);
}

OPS(({"aten::nll_loss_backward", "aten::nll_loss2d_backward"})) { return NllBackward(x); }

// ---- regression
// -----------------------------------------------------------------------------------

OP("aten::mse_loss", {.tolerance = kSums}) {
  Values v = Operands(x, {"self", "target"});
  Value d = v[0] - v[1];
  return Reduced(x, d * d);
}

OP("aten::mse_loss_backward") {
  Values v = Operands(x, {"grad_output", "self", "target"});
  return 2.0 * (v[1] - v[2]) * Spread(x, v[0]);
}

OP("aten::smooth_l1_loss", {.tolerance = kSums}) {
  Values v = Operands(x, {"self", "target"});
  Value d = Abs(v[0] - v[1]), beta = x.scalar("beta");
  return Reduced(x, Select(d < beta, 0.5 * d * d / beta, d - 0.5 * beta));
}

OP("aten::smooth_l1_loss_backward") {
  Values v = Operands(x, {"grad_output", "self", "target"});
  Value d = v[1] - v[2], beta = x.scalar("beta");
  return Spread(x, v[0]) * Select(Abs(d) >= beta, Sign(d), d / beta);
}

OP("aten::huber_loss", {.tolerance = kSums}) {
  Values v = Operands(x, {"self", "target"});
  Value d = Abs(v[0] - v[1]), delta = x.scalar("delta");
  return Reduced(x, Select(d <= delta, 0.5 * d * d, delta * (d - 0.5 * delta)));
}

OP("aten::huber_loss_backward") {
  Values v = Operands(x, {"grad_output", "self", "target"});
  Value d = v[1] - v[2], delta = x.scalar("delta");
  return Spread(x, v[0]) * Select(Abs(d) >= delta, delta * Sign(d), d);
}

// ---- binary classification
// --------------------------------------------------------------------------

OP("aten::binary_cross_entropy", {.tolerance = kSums}) {
  // torch clamps both logarithms at -100.
  Values v = Operands(x, {"self", "target", "weight"});
  Value p = v[0], t = v[1], floor = Like(p, -100);
  Value loss = (t - 1.0) * Max(Log1p(-p), floor) - t * Max(Log(p), floor);
  return Reduced(x, v[2] ? loss * v[2] : loss);
}

OP("aten::binary_cross_entropy_backward") {
  Values v = Operands(x, {"grad_output", "self", "target", "weight"});
  Value p = v[1], t = v[2];
  Value grad = Spread(x, v[0]) * (p - t) / Max((1.0 - p) * p, Like(p, 1e-12));
  return v[3] ? grad * v[3] : grad;
}

OP("aten::binary_cross_entropy_with_logits", {.tolerance = kSums}) {
  Values v = Operands(x, {"self", "target", "weight", "pos_weight"});
  Value logit = v[0], t = v[1], below = Softplus(-logit);
  Value loss = (1.0 - t) * logit + (v[3] ? ((v[3] - 1.0) * t + 1.0) * below : below);
  return Reduced(x, v[2] ? loss * v[2] : loss);
}

OP("aten::soft_margin_loss", {.tolerance = kSums}) {
  Values v = Operands(x, {"self", "target"});
  return Reduced(x, Log1p(Exp(-v[1] * v[0])));
}

OP("aten::soft_margin_loss_backward") {
  Values v = Operands(x, {"grad_output", "self", "target"});
  Value z = Exp(-v[2] * v[1]);
  return Spread(x, v[0]) * -v[2] * z / (z + 1.0);
}

}  // namespace torch_tpu::ops
