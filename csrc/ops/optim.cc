// SPDX-License-Identifier: Apache-2.0
// Fused optimizer steps and gradient scaling: one program for all parameters. The step's own
// numbers (bias corrections, rates) are computed in f64 once, as torch does on the host.
#include "csrc/ops/math.h"
#include "csrc/ops/op.h"

namespace torch_tpu::ops {
namespace {

Value In(Value v, DType dtype) { return Convert(v, hlo::ComputeType(dtype)); }

// found_inf set: the step leaves everything as it was.
class Skip {
 public:
  explicit Skip(Lowering& x) {
    if (x.has("found_inf")) skip_ = Ne(x.scalar("found_inf", DType::kF32), 0);
  }
  Value operator()(Value before, Value after) const {
    return skip_ ? Select(skip_, Convert(before, after.dtype()), after) : after;
  }

 private:
  Value skip_;
};

// The gradient as the step sees it; `scaled` is what torch writes back.
struct Gradient {
  Gradient(Lowering& x, Value gradient, DType dtype) {
    step = In(gradient, dtype);
    scaled = gradient;
    if (x.has("grad_scale")) scaled = step = step / x.scalar("grad_scale", step.dtype());
    if (x.boolean("maximize")) step = -step;
  }
  Value scaled, step;
};

Values Concat(std::initializer_list<Values> lists) {
  Values out;
  for (const Values& list : lists) out.insert(out.end(), list.begin(), list.end());
  return out;
}

Results Adam(Lowering& x, bool decoupled_decay) {
  const DType f64 = DType::kF64;
  Values params = x.tensors("self"), grads = x.tensors("grads"), steps = x.tensors("state_steps");
  Values averages = x.tensors("exp_avgs"), squares = x.tensors("exp_avg_sqs");
  Values maxima = x.tensors("max_exp_avg_sqs");
  const bool amsgrad = x.boolean("amsgrad");
  Value lr = x.scalar("lr", f64), decay = x.scalar("weight_decay", f64), eps = x.scalar("eps", f64);
  Value beta1 = x.scalar("beta1", f64), beta2 = x.scalar("beta2", f64);
  Skip skip(x);
  for (size_t i = 0; i < params.size(); ++i) {
    const DType dtype = hlo::ComputeType(params[i].dtype());
    auto number = [&](Value v) { return Convert(v, dtype); };
    Value step = Convert(Reshape(steps[i], {}), f64);
    Value step_size = lr / (1.0 - Pow(beta1, step));
    Value correction = Sqrt(1.0 - Pow(beta2, step));

    Value param = In(params[i], dtype), average = In(averages[i], dtype);
    Value square = In(squares[i], dtype);
    Gradient gradient(x, grads[i], dtype);
    if (decoupled_decay) {
      param = param - number(lr * decay) * param;
    } else {
      gradient.step = gradient.step + param * number(decay);
    }
    average = average + number(1.0 - beta1) * (gradient.step - average);
    square = square * number(beta2) + number(1.0 - beta2) * gradient.step * gradient.step;
    Value variance = square;
    if (amsgrad) {
      variance = Max(In(maxima[i], dtype), square);
      maxima[i] = skip(maxima[i], variance);
    }
    Value denominator = Sqrt(variance) / number(correction) + number(eps);
    param = param - number(step_size) * average / denominator;

    params[i] = skip(params[i], param);
    averages[i] = skip(averages[i], average);
    squares[i] = skip(squares[i], square);
    grads[i] = skip(grads[i], gradient.scaled);
  }
  return Concat({params, grads, averages, squares, maxima});
}

}  // namespace

OPS(({"aten::_fused_adam_", "aten::_fused_adam_.tensor_lr"})) {
  return Adam(x, /*decoupled_decay=*/false);
}
OPS(({"aten::_fused_adamw_", "aten::_fused_adamw_.tensor_lr"})) {
  return Adam(x, /*decoupled_decay=*/true);
}

OPS(({"aten::_fused_sgd_", "aten::_fused_sgd_.tensor_lr"})) {
  Values params = x.tensors("self"), grads = x.tensors("grads");
  Values momenta = x.tensors("momentum_buffer_list");
  Skip skip(x);
  for (size_t i = 0; i < params.size(); ++i) {
    const DType dtype = hlo::ComputeType(params[i].dtype());
    Value param = In(params[i], dtype);
    Gradient gradient(x, grads[i], dtype);
    Value step = gradient.step + param * x.scalar("weight_decay", dtype);
    if (!momenta.empty()) {
      Value momentum = x.scalar("momentum", dtype);
      Value buffer = step;  // the first step starts the buffer without dampening
      if (!x.boolean("is_first_step")) {
        buffer = In(momenta[i], dtype) * momentum + step * (1.0 - x.scalar("dampening", dtype));
      }
      momenta[i] = skip(momenta[i], buffer);
      step = x.boolean("nesterov") ? step + momentum * buffer : buffer;
    }
    params[i] = skip(params[i], param - x.scalar("lr", dtype) * step);
    grads[i] = skip(grads[i], gradient.scaled);
  }
  return Concat({params, grads, momenta});
}

OPS(({"aten::_fused_adagrad_", "aten::_fused_adagrad_.tensor_lr"})) {
  Values params = x.tensors("self"), grads = x.tensors("grads"), sums = x.tensors("state_sums");
  Values steps = x.tensors("state_steps");
  Skip skip(x);
  for (size_t i = 0; i < params.size(); ++i) {
    const DType f64 = DType::kF64, dtype = hlo::ComputeType(params[i].dtype());
    Value step = Convert(Reshape(steps[i], {}), f64);
    Value rate = x.scalar("lr", f64) / (1.0 + (step - 1) * x.scalar("lr_decay", f64));
    Value param = In(params[i], dtype);
    Gradient gradient(x, grads[i], dtype);
    Value slope = gradient.step + param * x.scalar("weight_decay", dtype);
    Value sum = In(sums[i], dtype) + slope * slope;
    Value update = Convert(rate, dtype) * slope / (Sqrt(sum) + x.scalar("eps", dtype));
    params[i] = skip(params[i], param - update);
    sums[i] = skip(sums[i], sum);
    grads[i] = skip(grads[i], gradient.scaled);
  }
  // One of the two overloads declares the steps written; neither changes them.
  const bool writes_steps = x.num_results() == static_cast<int>(4 * params.size());
  return Concat({params, grads, sums, writes_steps ? steps : Values()});
}

// ---- gradient scaling --------------------------------------------------------------------------
OP("aten::_amp_foreach_non_finite_check_and_unscale_") {
  Values grads = x.tensors("self");
  Value found = Ne(x.scalar("found_inf", DType::kF32), 0);
  for (Value& grad : grads) {
    Dims all(grad.rank());
    for (int i = 0; i < grad.rank(); ++i) all[i] = i;
    found = found | AnyReduceOr(~IsFinite(grad), all);
    grad = In(grad, grad.dtype());
    grad = grad * x.scalar("inv_scale", grad.dtype());
  }
  grads.push_back(Reshape(Convert(found, DType::kF32), x.tensor("found_inf").dims()));
  return grads;
}
OP("aten::_amp_update_scale_") {
  const DType f32 = DType::kF32;
  Value scale = x.scalar("self", f32), found = Ne(x.scalar("found_inf", f32), 0);
  Value successes = x.scalar("growth_tracker", DType::kS32) + 1;
  Value grows = Eq(successes, static_cast<double>(x.integer("growth_interval")));
  Value grown = scale * x.scalar("scale_growth_factor", f32);
  Value kept = Select(grows & IsFinite(grown), grown, scale);
  Value backed_off = scale * x.scalar("scale_backoff_factor", f32);
  Value tracker = Select(found | grows, ZerosLike(successes), successes);
  return {Select(found, backed_off, kept), tracker};
}

}  // namespace torch_tpu::ops
