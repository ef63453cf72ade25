// SPDX-License-Identifier: Apache-2.0
// Losses and their gradients. `reduction` is torch's 0 none, 1 mean, 2 sum.
#include "csrc/ops/op.h"
#include "csrc/ops/reduction.h"
#include "csrc/ops/scan.h"

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
    Value ignored = x.builder().ConstantInt(DType::kPred, 0, shape);
    if (Takes(x, "ignore_index")) {
      ignored = Eq(target, x.builder().ConstantInt(DType::kS64, x.integer("ignore_index")));
    }
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

// ---- margins ------------------------------------------------------------------------------------

namespace {

// The gradient of each sample's loss: `grad` is one number or one per sample.
Value PerSample(Lowering& x, Value grad, const Dims& samples, DType dtype) {
  grad = Convert(grad, dtype);
  if (grad.numel() == 1) grad = Reshape(grad, {});
  grad = BroadcastTo(grad, samples);
  return Spread(x, grad);
}

// How far each class [N, C] reaches into the margin of the target class.
struct MultiMargin {
  Value input;
  Classes classes;
  Value excess, weights;  // [N, C]; 0 at the target. Class weight over C.

  explicit MultiMargin(Lowering& x)
      : input(Wide(AtLeast1d(x.tensor("self")))), classes(x, input, input.dtype()) {
    const int dim = classes.dim;
    Value picked = Sum(Select(classes.hit, input, ZerosLike(input)), {dim});
    Value z = x.scalar("margin", input.dtype()) - classes.Wide(picked, input) + input;
    excess = Select(classes.hit, ZerosLike(z), Max(z, ZerosLike(z)));
    weights = classes.Wide(classes.weights, input) / static_cast<double>(input.dim(dim));
  }
};

// Target lists [N, K] end at the first negative entry; K = C. Everything in [N, K, C].
struct MultiLabel {
  Value input;      // [N, C]
  Value is_target;  // [N, C] i1
  Value named;      // entry k names class c
  Value excess;  // max(0, 1 - x[target k] + x[c]) over entries k and classes c that are no target

  explicit MultiLabel(Lowering& x) {
    input = Wide(x.tensor("self"));
    const int64_t classes = input.rank() == 0 ? 1 : input.dim(-1);
    const int64_t n = classes == 0 ? 0 : input.numel() / classes;
    input = Reshape(input, {n, classes});
    Value target = Reshape(Convert(x.tensor("target"), DType::kS32), {n, classes});
    Value open = Eq(CumulativeSum(Convert(target < 0, DType::kS32), 1), 0);
    hlo::Builder& b = x.builder();
    const Dims cube = {n, classes, classes};
    Value entry = b.BroadcastInDim(target, cube, {0, 1});
    Value valid = b.BroadcastInDim(open, cube, {0, 1});
    named = valid & Eq(entry, b.Iota(DType::kS32, cube, 2));
    is_target = AnyReduceOr(named, {1});
    Value x_c = b.BroadcastInDim(input, cube, {0, 2});
    Value x_t = b.BroadcastInDim(Sum(Select(named, x_c, ZerosLike(x_c)), {2}), cube, {0, 1});
    Value z = Max(1.0 - x_t + x_c, ZerosLike(x_c));
    Value counted = valid & ~b.BroadcastInDim(is_target, cube, {0, 2});
    excess = Select(counted, z, ZerosLike(z));
  }
};

}  // namespace

OP("aten::multi_margin_loss", {.constants = {"p"}, .tolerance = kSums}) {
  MultiMargin m(x);
  Value term = x.number("p") == 1 ? m.excess : m.excess * m.excess;
  return Reduced(x, Sum(term * m.weights, {m.classes.dim}));
}

OP("aten::multi_margin_loss_backward", {.constants = {"p"}, .tolerance = kSums}) {
  MultiMargin m(x);
  Value slope = m.weights * Convert(m.excess > 0, m.input.dtype());
  if (x.number("p") != 1) slope = 2.0 * m.excess * m.weights;
  Value target = -m.classes.Wide(Sum(slope, {m.classes.dim}), m.input);
  Value grad = PerSample(x, x.tensor("grad_output"), m.classes.weights.dims(), m.input.dtype());
  Value out = m.classes.Wide(grad, m.input) * Select(m.classes.hit, target, slope);
  return Reshape(Convert(out, x.tensor("self").dtype()), x.tensor("self").dims());
}

OP("aten::multilabel_margin_loss_forward", {.tolerance = kSums}) {
  MultiLabel m(x);
  Value loss = Sum(m.excess, {1, 2}) / static_cast<double>(m.input.dim(1));
  Value is_target = Reshape(Convert(m.is_target, m.input.dtype()), x.result(1).dims);
  Value out = Reduced(x, loss);
  return {Reshape(out, x.result(0).dims), is_target};
}

OP("aten::multilabel_margin_loss_backward", {.tolerance = kSums}) {
  MultiLabel m(x);
  Value reach = Convert(m.excess > 0, m.input.dtype());
  Value by_entry = x.builder().BroadcastInDim(Sum(reach, {2}), reach.dims(), {0, 1});
  Value slope = Sum(reach - Select(m.named, by_entry, ZerosLike(by_entry)), {1});
  Value grad = PerSample(x, x.tensor("grad_output"), {m.input.dim(0)}, m.input.dtype());
  Value wide = x.builder().BroadcastInDim(grad, m.input.dims(), {0});
  Value out = wide * slope / static_cast<double>(m.input.dim(1));
  return Reshape(Convert(out, x.tensor("self").dtype()), x.tensor("self").dims());
}

}  // namespace torch_tpu::ops
