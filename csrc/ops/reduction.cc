// SPDX-License-Identifier: Apache-2.0
#include "csrc/ops/reduction.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace torch_tpu::ops {

Value ReductionInput(Lowering& x, ArgRef self) {
  return Wide(Convert(AtLeast1d(x.tensor(self)), x.result(0).dtype));
}

bool Takes(Lowering& x, std::string_view name) {
  const auto& args = x.call().schema->args;
  return std::find(args.begin(), args.end(), name) != args.end();
}

Dims ReducedDims(Lowering& x, const char* dim, int rank) {
  return Lowering::WrapDims(Takes(x, dim) && x.has(dim) ? x.ints(dim) : Dims{}, rank);
}

int64_t CountOver(Value v, const Dims& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= v.dim(static_cast<int>(d));
  return n;
}

Value KeepDims(Value v, const Dims& dims) { return Unsqueeze(v, dims); }

Value CountTrue(Value pred, const Dims& dims) {
  // A device without 64-bit integers counts faster in 32.
  DType narrow =
      CountOver(pred, dims) > std::numeric_limits<int32_t>::max() ? DType::kS64 : DType::kS32;
  return Convert(Sum(Convert(pred, narrow), dims), DType::kS64);
}

Value Positions(Value v, int dim) { return v.builder().Iota(DType::kS32, v.dims(), dim); }

Dims BroadcastDims(const Dims& a, const Dims& b) {
  Dims out(std::max(a.size(), b.size()), 1);
  for (const Dims* dims : {&a, &b}) {
    size_t lead = out.size() - dims->size();
    for (size_t i = 0; i < dims->size(); ++i) {
      if ((*dims)[i] != 1) out[lead + i] = (*dims)[i];
    }
  }
  return out;
}

Values BroadcastTogether(Values vs) {
  Dims dims;
  for (const Value& v : vs) {
    if (v) dims = BroadcastDims(dims, v.dims());
  }
  for (Value& v : vs) {
    if (v) v = BroadcastTo(v, dims);
  }
  return vs;
}

Value VectorNorm(Value v, double p, const Dims& dims) {
  if (p == 2) {
    if (!hlo::IsComplex(v.dtype())) return Sqrt(Sum(v * v, dims));
    Value re = v.builder().Unary("stablehlo.real", v), im = v.builder().Unary("stablehlo.imag", v);
    return Sqrt(Sum(re * re + im * im, dims));
  }
  Value a = Abs(v);
  if (p == 0) return Sum(Convert(Ne(a, 0), a.dtype()), dims);
  if (p == 1) return Sum(a, dims);
  if (std::isinf(p)) return p > 0 ? MaxReduce(a, dims) : MinReduce(a, dims);
  Value sum = Sum(Pow(a, Like(a, p)), dims);
  return Pow(sum, Like(sum, 1 / p));
}

Extreme ArgExtreme(Value v, int dim, bool maximum) {
  // Two plain reductions: they vectorize, where one over (value, index) pairs does not.
  if (v.dtype() == DType::kPred) v = Convert(v, DType::kS32);
  Value best = maximum ? MaxReduce(v, {dim}) : MinReduce(v, {dim});
  Value wide = BroadcastTo(Convert(KeepDims(best, {dim}), v.dtype()), v.dims());
  Value hit = Eq(v, wide);
  if (hlo::IsFloat(v.dtype())) hit = Select(IsNan(wide), IsNan(v), hit);
  Value at = Positions(v, dim);
  Value index = MinReduce(Select(hit, at, Like(at, std::numeric_limits<int32_t>::max())), {dim});
  return {best, Convert(index, DType::kS64)};
}

}  // namespace torch_tpu::ops
