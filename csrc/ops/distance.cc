// SPDX-License-Identifier: Apache-2.0
// Pairwise p-norm distances, without the [P, R, M] differences in memory: they fuse into the sum.
#include <cmath>

#include "csrc/ops/op.h"
#include "csrc/ops/reduction.h"

namespace torch_tpu::ops {
namespace {

const Options kDistance = {.constants = {"p"}, .tolerance = Tolerance::kAccumulate};

// [.., P, M] - [.., R, M] -> [.., P, R, M]
Value Differences(Value a, Value b) {
  Values v = BroadcastTogether({Unsqueeze(a, {a.rank() - 1}), Unsqueeze(b, {b.rank() - 2})});
  return v[0] - v[1];
}

// d distance / d difference, times the gradient of the distance. Zero where the distance is zero.
Value DifferenceGradient(Value difference, Value distance, Value grad, double p) {
  Value zero = ZerosLike(difference), size = Abs(difference);
  if (p == 0) return zero;
  if (p == 1) return grad * Sign(difference);
  if (std::isinf(p)) return grad * Sign(difference) * Convert(Eq(size, distance), grad.dtype());
  Value slope =
      p == 2 ? difference / distance : Sign(difference) * Pow(size / distance, Like(size, p - 1));
  return Select(Eq(distance, 0) | Eq(difference, 0), zero, grad * slope);
}

// The gradient of the rows of `a`, given the gradients of all distances to the rows of `b`.
Value RowGradient(Value a, Value b, Value distance, Value grad, double p) {
  Value d = Differences(a, b);
  const int last = d.rank() - 1;
  auto wide = [&](Value v) { return BroadcastTo(Unsqueeze(v, {last}), d.dims()); };
  return Sum(DifferenceGradient(d, wide(distance), wide(grad), p), {last - 1});
}

// Rows i < j of an n x n matrix, row by row: where pair (i, j) stands in the flat list.
Value PairPosition(Value i, Value j, int64_t n) {
  return i * static_cast<double>(n) - i * (i + 1.0) / 2.0 + (j - i - 1.0);
}

Value Take(Value flat, Value index) {
  hlo::GatherDims element;
  element.collapsed_slice_dims = {0};
  element.start_index_map = {0};
  element.index_vector_dim = index.rank();
  element.slice_sizes = {1};
  return flat.builder().Gather(flat, Unsqueeze(index, {index.rank()}), element);
}

// The row of pair k, from the root of PairPosition(i, i + 1) <= k, exact after one correction.
Value PairRow(Value k, int64_t n) {
  const double m = 2.0 * static_cast<double>(n) - 1.0;
  Value root = Sqrt(Max(m * m - 8.0 * Convert(k, DType::kF64), Like(Convert(k, DType::kF64), 0)));
  Value i = Convert(Floor((m - root) / 2.0), DType::kS64);
  i = Select(PairPosition(i, i + 1.0, n) > k, i - 1.0, i);
  return Select(PairPosition(i + 1.0, i + 2.0, n) <= k, i + 1.0, i);
}

}  // namespace

OP("aten::_cdist_forward", kDistance) {
  Value d = Differences(Wide(x.tensor("x1")), Wide(x.tensor("x2")));
  return VectorNorm(d, x.number("p"), {d.rank() - 1});
}

OP("aten::_cdist_backward", kDistance) {
  Value a = Wide(x.tensor("x1")), b = Wide(x.tensor("x2"));
  if (a.numel() == 0 || b.numel() == 0) return x.builder().Constant(a.dtype(), 0, x.result().dims);
  Value grad = RowGradient(a, b, Wide(x.tensor("cdist")), Wide(x.tensor("grad")), x.number("p"));
  return Reshape(grad, x.result().dims);
}

OP("aten::_pdist_forward", kDistance) {
  hlo::Builder& b = x.builder();
  Value rows = Wide(x.tensor("self"));
  const int64_t n = rows.dim(0), pairs = x.result().numel();
  if (pairs == 0) return b.Constant(rows.dtype(), 0, x.result().dims);
  Value k = b.Iota(DType::kS64, {pairs}, 0);
  Value i = PairRow(k, n), j = k - PairPosition(i, i + 1.0, n) + i + 1.0;
  Value d = Differences(rows, rows);
  Value all = Reshape(VectorNorm(d, x.number("p"), {2}), {n * n});
  return Take(all, i * static_cast<double>(n) + j);
}

OP("aten::_pdist_backward", kDistance) {
  hlo::Builder& b = x.builder();
  Value rows = Wide(x.tensor("self"));
  const int64_t n = rows.dim(0);
  if (n <= 1) return ZerosLike(rows);
  const Dims square = {n, n};
  Value i = b.Iota(DType::kS64, square, 0), j = b.Iota(DType::kS64, square, 1);
  Value diagonal = Eq(i, j);
  Value at = Select(diagonal, ZerosLike(i), PairPosition(Min(i, j), Max(i, j), n));
  auto matrix = [&](const char* a) {
    Value v = Take(Wide(x.tensor(a)), at);
    return Select(diagonal, ZerosLike(v), v);
  };
  return RowGradient(rows, rows, matrix("pdist"), matrix("grad"), x.number("p"));
}

}  // namespace torch_tpu::ops
