// SPDX-License-Identifier: Apache-2.0
#include "csrc/ops/scan.h"

#include "csrc/ops/reduction.h"

namespace torch_tpu::ops {
namespace {

constexpr int64_t kBlock = 128;  // a TPU's lanes

// Hillis-Steele: each step combines with the result `shift` earlier. The barrier keeps steps from
// fusing, where each would compute the one before twice.
Value ScanSteps(Value x, int dim, const Combine& combine) {
  hlo::Builder& b = x.builder();
  const int64_t n = x.dim(dim);
  for (int64_t shift = 1; shift < n; shift *= 2) {
    Value tail = combine(b.SliceDim(x, dim, 0, n - shift), b.SliceDim(x, dim, shift, n));
    Value next = b.Concatenate({b.SliceDim(x, dim, 0, shift), tail}, dim);
    x = b.OptimizationBarrier({next})[0];
  }
  return x;
}

}  // namespace

Value Scan(Value x, int dim, const Combine& combine) {
  hlo::Builder& b = x.builder();
  const int64_t n = x.dim(dim);
  if (x.numel() == 0) return x;
  if (n <= kBlock) return ScanSteps(x, dim, combine);
  // Blocks along a new dim behind `dim`; what pads the last one reaches no earlier position.
  const int64_t blocks = (n + kBlock - 1) / kBlock;
  Dims split = x.dims(), low(split.size(), 0), high(split.size(), 0);
  high[dim] = blocks * kBlock - n;
  split[dim] = blocks;
  const Dims totals_shape = split;
  split.insert(split.begin() + dim + 1, kBlock);
  Value inner = Reshape(b.Pad(x, b.Constant(x.dtype(), 0), low, high), split);
  inner = ScanSteps(inner, dim + 1, combine);
  Value totals = Reshape(b.SliceDim(inner, dim + 1, kBlock - 1, kBlock), totals_shape);
  totals = b.SliceDim(Scan(totals, dim, combine), dim, 0, blocks - 1);
  Value later = b.SliceDim(inner, dim, 1, blocks);
  Value before = BroadcastTo(KeepDims(totals, {dim + 1}), later.dims());
  Value whole = b.Concatenate({b.SliceDim(inner, dim, 0, 1), combine(before, later)}, dim);
  Dims flat = x.dims();
  flat[dim] = blocks * kBlock;
  return b.SliceDim(Reshape(whole, flat), dim, 0, n);
}

Value CumulativeSum(Value x, int dim) {
  return Scan(x, dim, [](Value a, Value b) { return a + b; });
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
  if (v.dtype() == DType::kPred) v = Convert(v, DType::kS32);
  Value best = Scan(v, dim, [&](Value a, Value b) { return maximum ? Max(a, b) : Min(a, b); });
  Value record = Eq(v, best);
  if (hlo::IsFloat(v.dtype())) record = record | IsNan(v);
  Value at = Positions(v, dim);
  Value index =
      Scan(Select(record, at, ZerosLike(at)), dim, [](Value a, Value b) { return Max(a, b); });
  return {Reshape(best, x.result(0).dims), Reshape(index, x.result(1).dims)};
}

}  // namespace

OP("aten::cumsum", {.tolerance = Tolerance::kAccumulate}) {
  auto [v, dim] = Along(x, ReductionInput(x, "self"));
  return Reshape(CumulativeSum(v, dim), x.result().dims);
}

OP("aten::cumprod", {.tolerance = Tolerance::kAccumulate}) {
  auto [v, dim] = Along(x, ReductionInput(x, "self"));
  Value products = Scan(v, dim, [](Value a, Value b) { return a * b; });
  return Reshape(products, x.result().dims);
}

OPS(({"aten::logcumsumexp", "aten::_logcumsumexp"}), {.tolerance = Tolerance::kAccumulate}) {
  auto [v, dim] = Along(x, ReductionInput(x, "self"));
  const bool complex = hlo::IsComplex(v.dtype());
  auto real = [&](Value z) { return complex ? x.builder().Unary("stablehlo.real", z) : z; };
  Value sums = Scan(v, dim, [&](Value a, Value b) {
    Value top, low;
    if (complex) {
      Value first = real(a) >= real(b);
      top = Select(first, a, b);
      low = Select(first, b, a);
    } else {
      top = Max(a, b);
      low = Min(a, b);
    }
    // Equal infinities: their difference would be NaN.
    Value plain = Eq(real(low), real(top)) & ~IsFinite(real(low));
    return Select(plain, top, top + Log1p(Exp(low - top)));
  });
  return Reshape(sums, x.result().dims);
}

OP("aten::cummax", {.tolerance = Tolerance::kExact}) { return RunningExtreme(x, true); }

OP("aten::cummin", {.tolerance = Tolerance::kExact}) { return RunningExtreme(x, false); }

}  // namespace torch_tpu::ops
