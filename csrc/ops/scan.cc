// SPDX-License-Identifier: Apache-2.0
#include "csrc/ops/scan.h"

#include "csrc/ops/reduction.h"

namespace torch_tpu::ops {
namespace {

// Windows that end at each position and reach back to the first.
hlo::Window Prefixes(Value x, int dim) {
  hlo::Window window;
  window.sizes = Dims(x.rank(), 1);
  window.pad_low = window.pad_high = Dims(x.rank(), 0);
  window.sizes[dim] = x.dim(dim);
  window.pad_low[dim] = x.dim(dim) - 1;
  return window;
}

}  // namespace

Value Scan(std::string_view op, Value x, Value init, int dim) {
  if (x.numel() == 0) return x;
  return x.builder().ReduceWindow(op, x, init, Prefixes(x, dim));
}

Value CumulativeSum(Value x, int dim) {
  return Scan("stablehlo.add", x, x.builder().Constant(x.dtype(), 0), dim);
}

namespace {

struct Axis {
  Value v;
  int dim;
};

Axis Along(Lowering& x, Value v) {
  return {v, static_cast<int>(Lowering::WrapDim(x.integer("dim"), v.rank()))};
}

// torch moves the index to the latest of equal elements; a NaN stays, and a later NaN replaces it.
Values RunningExtreme(Lowering& x, bool maximum) {
  auto [v, dim] = Along(x, AtLeast1d(x.tensor("self")));
  hlo::Builder& b = x.builder();
  if (v.dtype() == DType::kPred) v = Convert(v, DType::kS32);
  Value best = maximum ? Scan("stablehlo.maximum", v, b.MinValue(v.dtype()), dim)
                       : Scan("stablehlo.minimum", v, b.MaxValue(v.dtype()), dim);
  Value record = Eq(v, best);
  if (hlo::IsFloat(v.dtype())) record = record | IsNan(v);
  Value at = Positions(v, dim);
  Value index =
      Scan("stablehlo.maximum", Select(record, at, ZerosLike(at)), b.MinValue(DType::kS32), dim);
  return {Reshape(best, x.result(0).dims), Reshape(index, x.result(1).dims)};
}

}  // namespace

OP("aten::cumsum", {.tolerance = Tolerance::kAccumulate}) {
  auto [v, dim] = Along(x, ReductionInput(x, "self"));
  return Reshape(CumulativeSum(v, dim), x.result().dims);
}

OP("aten::cumprod", {.tolerance = Tolerance::kAccumulate}) {
  auto [v, dim] = Along(x, ReductionInput(x, "self"));
  Value one = x.builder().Constant(v.dtype(), 1);
  return Reshape(Scan("stablehlo.multiply", v, one, dim), x.result().dims);
}

OPS(({"aten::logcumsumexp", "aten::_logcumsumexp"}), {.tolerance = Tolerance::kAccumulate}) {
  auto [v, dim] = Along(x, ReductionInput(x, "self"));
  if (v.numel() == 0) return Reshape(v, x.result().dims);
  hlo::Builder& b = x.builder();
  const bool complex = hlo::IsComplex(v.dtype());
  auto body = [&](const Values& p) {
    auto real = [&](Value z) { return complex ? b.Unary("stablehlo.real", z) : z; };
    Value top, low;
    if (complex) {
      Value first = real(p[0]) >= real(p[1]);
      top = Select(first, p[0], p[1]);
      low = Select(first, p[1], p[0]);
    } else {
      top = Max(p[0], p[1]);
      low = Min(p[0], p[1]);
    }
    // Equal infinities: their difference would be NaN.
    Value plain = Eq(real(low), real(top)) & ~IsFinite(real(low));
    return Values{Select(plain, top, top + Log1p(Exp(low - top)))};
  };
  Value init = Convert(b.MinValue(hlo::RealOf(v.dtype())), v.dtype());
  Value sums = b.ReduceWindow(Values{v}, Values{init}, Prefixes(v, dim), body)[0];
  return Reshape(sums, x.result().dims);
}

OP("aten::cummax", {.tolerance = Tolerance::kExact}) { return RunningExtreme(x, true); }

OP("aten::cummin", {.tolerance = Tolerance::kExact}) { return RunningExtreme(x, false); }

}  // namespace torch_tpu::ops
