// SPDX-License-Identifier: Apache-2.0
// Layer, batch, group and RMS normalization. Statistics and affine part in the compute type.
#include <cmath>
#include <limits>

#include "csrc/ops/op.h"
#include "csrc/ops/reduction.h"

namespace torch_tpu::ops {
namespace {

constexpr Tolerance kSums = Tolerance::kAccumulate;

// A tensor seen as slices over `dims` that are normalized together.
struct Slices {
  Value v;
  Dims dims;

  double count() const { return static_cast<double>(CountOver(v, dims)); }
  Value Wide(Value reduced) const { return BroadcastTo(KeepDims(reduced, dims), v.dims()); }
  Value Mean(Value term) const { return Sum(term, dims) / count(); }
};

struct Statistics {
  Value mean, variance;  // biased; reduced dims dropped
};

Statistics StatisticsOf(const Slices& s) {
  Value mean = s.Mean(s.v);
  Value delta = s.v - s.Wide(mean);
  return {mean, s.Mean(delta * delta)};
}

Value InverseDeviation(Lowering& x, Value variance) {
  return Rsqrt(variance + x.scalar("eps", variance.dtype()));
}

// d loss / d v when loss sees (v - mean) * rstd with `grad`, mean and rstd being functions of v.
Value NormalizedGradient(const Slices& s, Value grad, Value normalized, Value rstd) {
  Value along = s.Wide(s.Mean(grad * normalized));
  return s.Wide(rstd) * (grad - s.Wide(s.Mean(grad)) - normalized * along);
}

// What an optional tensor argument holds, in `dtype`; absent when None.
Value Optional(Lowering& x, ArgRef a, DType dtype) {
  return x.has(a) ? Convert(x.tensor(a), dtype) : Value();
}

Value InCompute(Lowering& x, ArgRef a) { return Wide(x.tensor(a)); }

// ---- layer and RMS norm: the trailing dims ------------------------------------------------------

Slices Trailing(Lowering& x, Value v) {
  const int n = static_cast<int>(x.ints("normalized_shape").size());
  Dims dims;
  for (int d = v.rank() - n; d < v.rank(); ++d) dims.push_back(d);
  return {v, dims};
}

Dims Leading(const Slices& s) {
  Dims dims;
  for (int d = 0; d < s.v.rank() - static_cast<int>(s.dims.size()); ++d) dims.push_back(d);
  return dims;
}

Value Scaled(Value v, Value weight) { return weight ? v * BroadcastTo(weight, v.dims()) : v; }

Value Affine(Value v, Value weight, Value bias) {
  v = Scaled(v, weight);
  return bias ? v + BroadcastTo(bias, v.dims()) : v;
}

// ---- batch norm: all dims but the channel
// ----------------------------------------------------------

struct Channels : Slices {
  explicit Channels(Value value) {
    v = value;
    for (int d = 0; d < v.rank(); ++d) {
      if (d != 1) dims.push_back(d);
    }
  }
  Value PerChannel(Value c) const { return v.builder().BroadcastInDim(c, v.dims(), {1}); }
};

Value Moved(Value running, Value now, Value momentum) {
  return momentum * now + (1.0 - momentum) * running;
}

// out, saved mean, saved inverse deviation, then the new running statistics.
Values BatchNorm(Lowering& x, bool training, bool has_running) {
  Channels s(InCompute(x, "input"));
  const DType dtype = s.v.dtype();
  Value running_mean, running_var;
  if (has_running) {
    running_mean = Optional(x, "running_mean", dtype);
    running_var = Optional(x, "running_var", dtype);
  }
  Statistics stats{running_mean, running_var};
  if (training) stats = StatisticsOf(s);
  Value rstd = InverseDeviation(x, stats.variance);
  Value out = (s.v - s.PerChannel(stats.mean)) * s.PerChannel(rstd);
  if (Value w = Optional(x, "weight", dtype)) out = out * s.PerChannel(w);
  if (Value b = Optional(x, "bias", dtype)) out = out + s.PerChannel(b);

  Values results = {out};
  for (int i = 1; i <= 2; ++i) {
    // Without training torch returns nothing of use here; its size differs between overloads.
    bool saved = training || x.result(i).numel() > 0;
    results.push_back(saved ? (i == 1 ? stats.mean : rstd)
                            : x.builder().Constant(dtype, 0, x.result(i).dims));
  }
  if (training && running_mean) {
    Value momentum = x.scalar("momentum", dtype);
    running_mean = Moved(running_mean, stats.mean, momentum);
  }
  if (training && running_var) {
    Value momentum = x.scalar("momentum", dtype);
    running_var = Moved(running_var, stats.variance * (s.count() / (s.count() - 1)), momentum);
  }
  results.push_back(running_mean);
  results.push_back(running_var);
  return results;
}

Values BatchNormBackward(Lowering& x, bool training, const char* saved_rstd) {
  Channels s(InCompute(x, "input"));
  const DType dtype = s.v.dtype();
  Value grad = Convert(x.tensor("grad_out"), dtype);
  Value mean, rstd;
  if (training) {
    mean = Convert(x.tensor("save_mean"), dtype);
    rstd = Convert(x.tensor(saved_rstd), dtype);
  } else {
    mean = Convert(x.tensor("running_mean"), dtype);
    rstd = InverseDeviation(x, Convert(x.tensor("running_var"), dtype));
  }
  Value normalized = (s.v - s.PerChannel(mean)) * s.PerChannel(rstd);
  const std::vector<bool> mask = x.bools("output_mask");
  Values results(3);
  if (mask[0]) {
    Value g = grad;
    if (Value w = Optional(x, "weight", dtype)) g = g * s.PerChannel(w);
    results[0] = training ? NormalizedGradient(s, g, normalized, rstd) : g * s.PerChannel(rstd);
  }
  if (mask[1]) results[1] = Sum(grad * normalized, s.dims);
  if (mask[2]) results[2] = Sum(grad, s.dims);
  return results;
}

// ---- group norm
// ------------------------------------------------------------------------------------

struct Groups {
  int64_t n, c, area, groups;
  explicit Groups(Lowering& x)
      : n(x.integer("N")), c(x.integer("C")), area(x.integer("HxW")), groups(x.integer("group")) {}

  Slices Split(Value v) const { return {Reshape(v, {n, groups, c / groups * area}), {2}}; }
  Value ByChannel(Value v) const { return Reshape(v, {n, c, area}); }
  Value PerChannel(Value w) const { return w.builder().BroadcastInDim(w, {n, c, area}, {1}); }
};

}  // namespace

OP("aten::native_layer_norm", {.tolerance = kSums}) {
  Slices s = Trailing(x, InCompute(x, "input"));
  const DType dtype = s.v.dtype();
  Statistics stats = StatisticsOf(s);
  Value rstd = InverseDeviation(x, stats.variance);
  Value normalized = (s.v - s.Wide(stats.mean)) * s.Wide(rstd);
  Value out = Affine(normalized, Optional(x, "weight", dtype), Optional(x, "bias", dtype));
  return {out, Reshape(stats.mean, x.result(1).dims), Reshape(rstd, x.result(2).dims)};
}

OP("aten::native_layer_norm_backward", {.tolerance = kSums}) {
  Slices s = Trailing(x, InCompute(x, "input"));
  const DType dtype = s.v.dtype();
  Value grad = Convert(x.tensor("grad_out"), dtype);
  const Dims shape = KeepDims(s.Mean(s.v), s.dims).dims();
  auto wide = [&](const char* a) {
    return BroadcastTo(Reshape(Convert(x.tensor(a), dtype), shape), s.v.dims());
  };
  Value rstd = wide("rstd"), normalized = (s.v - wide("mean")) * rstd;
  const std::vector<bool> mask = x.bools("output_mask");
  Values results(3);
  if (mask[0]) {
    Value narrow = Convert(x.tensor("rstd"), dtype);
    Value g = Scaled(grad, Optional(x, "weight", dtype));
    narrow = Reshape(narrow, s.Mean(g).dims());
    results[0] = NormalizedGradient(s, g, normalized, narrow);
  }
  if (mask[1]) results[1] = Sum(grad * normalized, Leading(s));
  if (mask[2]) results[2] = Sum(grad, Leading(s));
  return results;
}

OP("aten::_fused_rms_norm", {.tolerance = kSums}) {
  Slices s = Trailing(x, InCompute(x, "input"));
  const DType dtype = s.v.dtype();
  // No eps means the machine epsilon of the type computed in.
  const double epsilon = dtype == DType::kF64 ? std::numeric_limits<double>::epsilon()
                                              : std::numeric_limits<float>::epsilon();
  Value eps = x.has("eps") ? x.scalar("eps", dtype) : x.builder().Constant(dtype, epsilon);
  Value rstd = Rsqrt(s.Mean(s.v * s.v) + eps);
  Value out = Scaled(s.v * s.Wide(rstd), Optional(x, "weight", dtype));
  return {out, Reshape(rstd, x.result(1).dims)};
}

OP("aten::_fused_rms_norm_backward", {.tolerance = kSums}) {
  Slices s = Trailing(x, InCompute(x, "input"));
  const DType dtype = s.v.dtype();
  Value grad = Convert(x.tensor("grad_out"), dtype);
  Dims shape = s.v.dims();
  for (int64_t d : s.dims) shape[d] = 1;
  Value rstd = BroadcastTo(Reshape(Convert(x.tensor("rstd"), dtype), shape), s.v.dims());
  Value normalized = s.v * rstd;
  const std::vector<bool> mask = x.bools("output_mask");
  Values results(2);
  if (mask[0]) {
    Value g = Scaled(grad, Optional(x, "weight", dtype));
    results[0] = rstd * (g - normalized * s.Wide(s.Mean(g * normalized)));
  }
  if (mask[1]) results[1] = Sum(grad * normalized, Leading(s));
  return results;
}

// Its schema does not say that it writes the running statistics.
OP("aten::native_batch_norm", {.tolerance = kSums, .writes = {"running_mean", "running_var"}}) {
  return BatchNorm(x, x.boolean("training"), true);
}

OPS(({"aten::_native_batch_norm_legit", "aten::_native_batch_norm_legit_functional"}),
    {.tolerance = kSums}) {
  return BatchNorm(x, x.boolean("training"), true);
}

OP("aten::_native_batch_norm_legit.no_stats", {.tolerance = kSums}) {
  Values results = BatchNorm(x, true, false);
  results.resize(3);
  return results;
}

OP("aten::_native_batch_norm_legit_no_training", {.tolerance = kSums}) {
  Values results = BatchNorm(x, false, true);
  results.resize(3);
  return results;
}

OPS(({"aten::_batch_norm_with_update", "aten::_batch_norm_with_update_functional"}),
    {.tolerance = kSums}) {
  Values results = BatchNorm(x, true, true);
  results.insert(results.begin() + 3, x.builder().ConstantInt(DType::kU8, 0, {0}));  // cuDNN's
  return results;
}

OP("aten::native_batch_norm_backward", {.tolerance = kSums}) {
  return BatchNormBackward(x, x.boolean("train"), "save_invstd");
}

OP("aten::batch_norm_backward", {.tolerance = kSums}) {
  return BatchNormBackward(x, x.boolean("update"), "save_var");
}

OP("aten::native_group_norm", {.tolerance = kSums}) {
  Groups groups(x);
  Slices s = groups.Split(InCompute(x, "input"));
  const DType dtype = s.v.dtype();
  Statistics stats = StatisticsOf(s);
  Value rstd = InverseDeviation(x, stats.variance);
  Value out = groups.ByChannel((s.v - s.Wide(stats.mean)) * s.Wide(rstd));
  if (Value w = Optional(x, "weight", dtype)) out = out * groups.PerChannel(w);
  if (Value b = Optional(x, "bias", dtype)) out = out + groups.PerChannel(b);
  return {Reshape(out, x.result().dims), stats.mean, rstd};
}

OP("aten::native_group_norm_backward", {.tolerance = kSums}) {
  Groups groups(x);
  Value input = InCompute(x, "input");
  Slices s = groups.Split(input);
  const DType dtype = s.v.dtype();
  Value grad = groups.ByChannel(Convert(x.tensor("grad_out"), dtype));
  Value rstd = Convert(x.tensor("rstd"), dtype);
  Value normalized = (s.v - s.Wide(Convert(x.tensor("mean"), dtype))) * s.Wide(rstd);
  const std::vector<bool> mask = x.bools("output_mask");
  Values results(3);
  if (mask[0]) {
    Value g = grad;
    if (Value w = Optional(x, "weight", dtype)) g = g * groups.PerChannel(w);
    g = groups.Split(g).v;
    results[0] = Reshape(NormalizedGradient(s, g, normalized, rstd), input.dims());
  }
  if (mask[1]) results[1] = Sum(grad * groups.ByChannel(normalized), {0, 2});
  if (mask[2]) results[2] = Sum(grad, {0, 2});
  return results;
}

}  // namespace torch_tpu::ops
