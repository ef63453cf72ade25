// SPDX-License-Identifier: Apache-2.0
#include "csrc/ops/scan.h"

#include <limits>

#include "csrc/ops/reduction.h"

namespace torch_tpu::ops {
namespace {

// Positions of one block, and blocks of one group: three levels cover 32k, four a million.
constexpr int64_t kBlock = 32;

Values Sliced(const Values& xs, int dim, int64_t start, int64_t limit) {
  Values out;
  for (Value v : xs) out.push_back(v.builder().SliceDim(v, dim, start, limit));
  return out;
}

// `head`, then `tail`, along `dim`.
Values Joined(const Values& head, const Values& tail, int dim) {
  Values out;
  for (size_t i = 0; i < head.size(); ++i) {
    out.push_back(head[i].builder().Concatenate({head[i], tail[i]}, dim));
  }
  return out;
}

// Hillis-Steele: each step combines with the result `shift` earlier.
Values ScanSteps(Values xs, int dim, const Combine& combine) {
  const int64_t n = xs[0].dim(dim);
  for (int64_t shift = 1; shift < n; shift *= 2) {
    Values head = Sliced(xs, dim, 0, shift);
    Values tail = combine(Sliced(xs, dim, 0, n - shift), Sliced(xs, dim, shift, n));
    xs = Joined(head, tail, dim);
  }
  return xs;
}

}  // namespace

Values Scan(const Values& xs, int dim, const Combine& combine) {
  const int64_t n = xs[0].dim(dim);
  if (xs[0].numel() == 0 || n <= kBlock) return ScanSteps(xs, dim, combine);
  // Blocks along a new dim before `dim`; what pads the last block reaches no earlier position.
  const int64_t blocks = (n + kBlock - 1) / kBlock;
  Dims split = xs[0].dims(), low(split.size(), 0), high(split.size(), 0);
  high[dim] = blocks * kBlock - n;
  split[dim] = blocks;
  split.insert(split.begin() + dim + 1, kBlock);
  Values inner;
  for (Value v : xs) {
    hlo::Builder& b = v.builder();
    inner.push_back(Reshape(b.Pad(v, b.Constant(v.dtype(), 0), low, high), split));
  }
  inner = ScanSteps(inner, dim + 1, combine);
  Dims totals_shape = split;
  totals_shape.erase(totals_shape.begin() + dim + 1);
  Values totals;
  for (Value v : Sliced(inner, dim + 1, kBlock - 1, kBlock)) {
    totals.push_back(Reshape(v, totals_shape));
  }
  Values before = Sliced(Scan(totals, dim, combine), dim, 0, blocks - 1);
  Values later = Sliced(inner, dim, 1, blocks);
  for (size_t i = 0; i < before.size(); ++i) {
    before[i] = BroadcastTo(KeepDims(before[i], {dim + 1}), later[i].dims());
  }
  Values whole = Joined(Sliced(inner, dim, 0, 1), combine(before, later), dim);
  Dims flat = xs[0].dims();
  flat[dim] = blocks * kBlock;
  for (Value& v : whole) v = Reshape(v, flat);
  return Sliced(whole, dim, 0, n);
}

Value CumulativeSum(Value x, int dim) {
  return Scan({x}, dim, [](const Values& a, const Values& b) { return Values{a[0] + b[0]}; })[0];
}

namespace {

Value ScanAlong(Lowering& x, Value v, const Combine& combine) {
  const int dim = static_cast<int>(Lowering::WrapDim(x.integer("dim"), v.rank()));
  return Reshape(Scan({v}, dim, combine)[0], x.result().dims);
}

// torch moves the index to the latest of equal elements; a NaN stays, and a later NaN replaces it.
Values ExtremeScan(Lowering& x, hlo::Direction keeps_later) {
  Value v = AtLeast1d(x.tensor("self"));
  if (v.dtype() == DType::kPred) v = Convert(v, DType::kS32);
  const int dim = static_cast<int>(Lowering::WrapDim(x.integer("dim"), v.rank()));
  Values scanned = Scan({v, Positions(v, dim)}, dim, [&](const Values& a, const Values& b) {
    Value later = x.builder().Compare(b[0], a[0], keeps_later);
    if (hlo::IsFloat(v.dtype())) later = IsNan(b[0]) | (~IsNan(a[0]) & later);
    return Values{Select(later, b[0], a[0]), Select(later, b[1], a[1])};
  });
  return {Reshape(scanned[0], x.result(0).dims), Reshape(scanned[1], x.result(1).dims)};
}

}  // namespace

OP("aten::cumsum", {.tolerance = Tolerance::kAccumulate}) {
  Value v = ReductionInput(x, "self");
  const int dim = static_cast<int>(Lowering::WrapDim(x.integer("dim"), v.rank()));
  return Reshape(CumulativeSum(v, dim), x.result().dims);
}

OP("aten::cumprod", {.tolerance = Tolerance::kAccumulate}) {
  return ScanAlong(x, ReductionInput(x, "self"),
                   [](const Values& a, const Values& b) { return Values{a[0] * b[0]}; });
}

OPS(({"aten::logcumsumexp", "aten::_logcumsumexp"}), {.tolerance = Tolerance::kAccumulate}) {
  Value v = ReductionInput(x, "self");
  if (hlo::IsComplex(v.dtype())) x.Unsupported("expected a real dtype, got complex. Try: .cpu()");
  return ScanAlong(x, v, [](const Values& a, const Values& b) {
    Value top = Max(a[0], b[0]), low = Min(a[0], b[0]);
    // Equal infinities: their difference would be NaN.
    Value plain = Eq(low, top) & ~IsFinite(low);
    return Values{Select(plain, top, top + Log1p(Exp(low - top)))};
  });
}

OP("aten::cummax", {.tolerance = Tolerance::kExact}) { return ExtremeScan(x, hlo::Direction::kGe); }

OP("aten::cummin", {.tolerance = Tolerance::kExact}) { return ExtremeScan(x, hlo::Direction::kLe); }

}  // namespace torch_tpu::ops
