// SPDX-License-Identifier: Apache-2.0
// Factorizations and solves. Cholesky and triangular solves are StableHLO ops; LU with partial
// pivoting is a loop over columns of whole-matrix updates. Matrices are [batch, rows, columns]
// here.
#include <algorithm>
#include <numeric>

#include "csrc/ops/op.h"

namespace torch_tpu::ops {
namespace {

using hlo::Direction;

Value Flat(Value v) {
  int64_t batch = 1;
  for (int i = 0; i < v.rank() - 2; ++i) batch *= v.dim(i);
  return Reshape(v, {batch, v.dim(-2), v.dim(-1)});
}

Value Turn(Value v) {  // the matrix transposed
  Dims order(v.rank());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[v.rank() - 1], order[v.rank() - 2]);
  return Transpose(v, order);
}

Value Conj(Value v) {
  if (!hlo::IsComplex(v.dtype())) return v;
  auto& b = v.builder();
  return b.Complex(b.Unary("stablehlo.real", v), -b.Unary("stablehlo.imag", v));
}

Value Rows(const Value& like) {
  return like.builder().Iota(DType::kS32, like.dims(), like.rank() - 2);
}
Value Columns(const Value& like) {
  return like.builder().Iota(DType::kS32, like.dims(), like.rank() - 1);
}

Value Lower(Value v, bool unit) {  // with ones on the diagonal when `unit`
  auto kept = Select(Rows(v) >= Columns(v), v, ZerosLike(v));
  return unit ? Select(Eq(Rows(v), Columns(v)), OnesLike(v), kept) : kept;
}
Value Upper(Value v) { return Select(Rows(v) <= Columns(v), v, ZerosLike(v)); }

Value Identity(hlo::Builder& b, DType type, const Dims& dims) {
  auto zeros = b.Constant(type, 0, dims);
  return Select(Eq(Rows(zeros), Columns(zeros)), OnesLike(zeros), zeros);
}

// Batch dims broadcast as torch does for two stacks of matrices.
Dims BatchOf(Value a, Value c) {
  const int rank = std::max(a.rank(), c.rank());
  Dims dims(rank - 2, 1);
  for (Value v : {a, c}) {
    for (int i = 0; i < v.rank() - 2; ++i) {
      int64_t& d = dims[rank - v.rank() + i];
      d = d == 1 ? v.dim(i) : d;
    }
  }
  return dims;
}

Value ToBatch(Value v, Dims batch) {
  batch.push_back(v.dim(-2));
  batch.push_back(v.dim(-1));
  return BroadcastTo(v, batch);
}

Value SolveTriangle(Value a, Value c, bool left, bool lower, bool unit, const char* transpose) {
  return a.builder().TriangularSolve(a, c, left, lower, unit, transpose);
}

// ---- LU
// --------------------------------------------------------------------------------------------

struct Lu {
  Value factors;      // [B, M, N]: U, and L below its unit diagonal
  Value pivots;       // s32 [B, K], from 1, as LAPACK's
  Value permutation;  // s32 [B, M]: row i of L * U is this row of the matrix
  Value info;         // s32 [B]: 0, or the first pivot that is 0, from 1
};

// Row `row` (one per matrix) of v, [B, 1, N].
Value RowAt(Value v, Value row) {
  auto here = Eq(Rows(v), v.builder().BroadcastInDim(row, v.dims(), {0}));
  return Sum(Select(here, v, ZerosLike(v)), {1}, true);
}

// v with rows `i` (the same in all matrices) and `j` (one per matrix) swapped.
Value SwapRows(Value v, Value i, Value j) {
  auto& b = v.builder();
  auto wide_i = BroadcastTo(i, v.dims()), wide_j = b.BroadcastInDim(j, v.dims(), {0});
  auto row_i = BroadcastTo(RowAt(v, BroadcastTo(i, j.dims())), v.dims());
  auto row_j = BroadcastTo(RowAt(v, j), v.dims());
  return Select(Eq(Rows(v), wide_i), row_j, Select(Eq(Rows(v), wide_j), row_i, v));
}

Value ColumnAt(Value v, Value column) {  // [B, M, 1]
  auto here = Eq(Columns(v), BroadcastTo(column, v.dims()));
  return Sum(Select(here, v, ZerosLike(v)), {2}, true);
}

// The row at or below k with the largest entry in column k, [B].
Value PivotRow(Value v, Value k) {
  auto& b = v.builder();
  auto column = Reshape(ColumnAt(v, k), {v.dim(0), v.dim(1)});
  auto size = Abs(column);
  if (hlo::IsComplex(v.dtype())) {  // as LAPACK measures complex pivots
    size = Abs(b.Unary("stablehlo.real", column)) + Abs(b.Unary("stablehlo.imag", column));
  }
  auto row = b.Iota(DType::kS32, size.dims(), 1);
  size = Select(row < BroadcastTo(k, size.dims()), Like(size, -1), size);
  auto largest = BroadcastTo(MaxReduce(size, {1}, true), size.dims());
  auto found = Eq(size, largest) | (IsNan(size) & (row >= BroadcastTo(k, size.dims())));
  return MinReduce(Select(found, row, b.MaxValue(DType::kS32, row.dims())), {1});
}

Lu Factor(Value v, bool pivot) {
  auto& b = v.builder();
  const int64_t batch = v.dim(0), m = v.dim(1), n = v.dim(2), steps = std::min(m, n);
  auto rows = b.Iota(DType::kS32, {batch, m, 1}, 1);
  if (v.numel() == 0) {
    return {v, b.ConstantInt(DType::kS32, 0, {batch, steps}), Reshape(rows, {batch, m}),
            b.ConstantInt(DType::kS32, 0, {batch})};
  }
  auto done = b.While(
      {b.ConstantInt(DType::kS32, 0), v, b.ConstantInt(DType::kS32, 0, {batch, steps}), rows,
       b.ConstantInt(DType::kS32, 0, {batch})},
      [&](const Values& s) -> Values { return {s[0] < static_cast<double>(steps)}; },
      [&](const Values& s) -> Values {
        const Value k = s[0];
        auto from = pivot ? PivotRow(s[1], k) : BroadcastTo(k, {batch});
        auto a = SwapRows(s[1], k, from);
        auto at_k = BroadcastTo(k, a.dims());
        auto top = RowAt(a, BroadcastTo(k, {batch}));  // [B, 1, N]
        auto divisor = ColumnAt(top, k);               // [B, 1, 1]
        auto zero = Eq(divisor, 0);
        auto safe = Select(zero, OnesLike(divisor), divisor);
        auto column = ColumnAt(a, k);
        auto ratio = column / BroadcastTo(safe, column.dims());  // [B, M, 1]
        auto wide_ratio = BroadcastTo(ratio, a.dims());
        auto below = Rows(a) > at_k;
        auto reduced = a - wide_ratio * BroadcastTo(top, a.dims());
        a = Select(below & (Columns(a) > at_k), reduced,
                   Select(below & Eq(Columns(a), at_k), wide_ratio, a));
        auto here = Eq(b.Iota(DType::kS32, s[2].dims(), 1), BroadcastTo(k, s[2].dims()));
        auto pivots = Select(here, b.BroadcastInDim(from + 1.0, s[2].dims(), {0}), s[2]);
        auto singular = Reshape(zero, {batch}) & Eq(s[4], 0);
        auto info = Select(singular, BroadcastTo(k + 1.0, s[4].dims()), s[4]);
        return {k + 1.0, a, pivots, SwapRows(s[3], k, from), info};
      });
  return {done[1], done[2], Reshape(done[3], {batch, m}), done[4]};
}

// The permutation that LAPACK's pivots [B, K] make of m rows.
Value PermutationOf(Value pivots, int64_t m) {
  auto& b = pivots.builder();
  const int64_t batch = pivots.dim(0), steps = pivots.dim(1);
  auto done = b.While(
      {b.ConstantInt(DType::kS32, 0), b.Iota(DType::kS32, {batch, m, 1}, 1)},
      [&](const Values& s) -> Values { return {s[0] < static_cast<double>(steps)}; },
      [&](const Values& s) -> Values {
        auto zero = b.ConstantInt(DType::kS32, 0);
        auto from = Reshape(b.DynamicSlice(pivots, {zero, s[0]}, {batch, 1}), {batch}) - 1.0;
        return {s[0] + 1.0, SwapRows(s[1], s[0], from)};
      });
  return Reshape(done[1], {batch, m});
}

// One-hot [B, M, M] with a 1 at (permutation[i], i).
Value PermutationMatrix(Value permutation, DType type) {
  auto& b = permutation.builder();
  const Dims dims = {permutation.dim(0), permutation.dim(1), permutation.dim(1)};
  auto source = b.BroadcastInDim(permutation, dims, {0, 2});
  return Convert(Eq(b.Iota(DType::kS32, dims, 1), source), type);
}

// Rows of v in the permutation's order; `inverse`: put back.
Value Permute(Value v, Value permutation, bool inverse) {
  auto& b = v.builder();
  if (inverse) {
    auto order = b.Iota(DType::kS32, permutation.dims(), 1);
    permutation = b.Sort({permutation, order}, 1, false,
                         [](const Values& s) -> Values { return {s[0] < s[1]}; })[1];
  }
  return b.Gather(v, Unsqueeze(permutation, {2}),
                  {.offset_dims = {2},
                   .collapsed_slice_dims = {1},
                   .operand_batching_dims = {0},
                   .start_indices_batching_dims = {0},
                   .start_index_map = {1},
                   .index_vector_dim = 2,
                   .slice_sizes = {1, 1, v.dim(2)}});
}

// A X = C, or A^H X = C, from A's factors.
Value SolveLeft(Value factors, Value permutation, Value c, bool adjoint) {
  if (adjoint) {
    auto y = SolveTriangle(factors, c, true, false, false, "ADJOINT");
    return Permute(SolveTriangle(factors, y, true, true, true, "ADJOINT"), permutation, true);
  }
  auto y = SolveTriangle(factors, Permute(c, permutation, false), true, true, true, "NO_TRANSPOSE");
  return SolveTriangle(factors, y, true, false, false, "NO_TRANSPOSE");
}

// X A = C is A^H X^H = C^H.
Value Solve(Value factors, Value permutation, Value c, bool left, bool adjoint) {
  if (left) return SolveLeft(factors, permutation, c, adjoint);
  return Conj(Turn(SolveLeft(factors, permutation, Conj(Turn(c)), !adjoint)));
}

// For determinants torch factors the transpose of a contiguous real matrix, and its backward
// formulas know it.
bool FactorsTranspose(Lowering& x, ArgRef a) {
  const View& view = x.call().args[a.position].tensors[0].view;
  if (hlo::IsComplex(view.dtype)) return false;
  int64_t expected = 1;
  for (size_t i = view.sizes.size(); i-- > 0;) {
    if (view.sizes[i] != 1 && view.strides[i] != expected) return false;
    expected *= view.sizes[i];
  }
  return true;
}

Lu FactorForDet(Lowering& x) {
  auto a = Flat(x.tensor(0));
  return Factor(FactorsTranspose(x, 0) ? Turn(a) : a, true);
}

Value Diagonal(Value v) {  // [B, N] of [B, N, N]
  return Sum(Select(Eq(Rows(v), Columns(v)), v, ZerosLike(v)), {2});
}

// +1 or -1 per matrix: the permutation's sign.
Value SignOfPivots(Value pivots, DType type) {
  auto& b = pivots.builder();
  auto moved = Ne(pivots, b.Iota(DType::kS32, pivots.dims(), 1) + 1.0);
  auto odd = Sum(Convert(moved, DType::kS32), {1}) & b.ConstantInt(DType::kS32, 1);
  return 1.0 - 2.0 * Convert(odd, type);
}

Value ProductOf(Value v) {
  return v.builder().Reduce("stablehlo.multiply", v, v.builder().Constant(v.dtype(), 1), {1});
}

// X with A X = C where L L^H = A, from L.
Value SolveCholesky(Value factor, Value c, bool upper) {
  auto y = SolveTriangle(factor, c, true, !upper, false, upper ? "ADJOINT" : "NO_TRANSPOSE");
  return SolveTriangle(factor, y, true, !upper, false, upper ? "NO_TRANSPOSE" : "ADJOINT");
}

const Options kLinalg = {.tolerance = Tolerance::kApproximate};

Value Shaped(Lowering& x, Value v, int i) { return Reshape(v, x.result(i).dims); }

}  // namespace

OP("aten::linalg_cholesky_ex", kLinalg) {
  auto a = x.tensor("self");
  auto& b = x.builder();
  if (a.numel() == 0) return {a, b.Constant(DType::kS32, 0, x.result(1).dims)};
  const bool upper = x.boolean("upper");
  auto flat = Flat(a), factor = b.Cholesky(flat, !upper);
  // A matrix that is not positive definite comes back as NaN; its first such minor is not known.
  auto bad = Diagonal(factor);
  bad = hlo::IsComplex(bad.dtype()) ? b.Unary("stablehlo.real", bad) : bad;
  auto row = b.Iota(DType::kS32, bad.dims(), 1) + 1.0;
  auto first = MinReduce(Select(IsNan(bad), row, b.MaxValue(DType::kS32, row.dims())), {1});
  auto info = Select(Eq(first, b.MaxValue(DType::kS32, first.dims())), ZerosLike(first), first);
  return {Shaped(x, upper ? Upper(factor) : Lower(factor, false), 0), Shaped(x, info, 1)};
}

OP("aten::cholesky_solve", kLinalg) {
  auto c = x.tensor("self"), a = x.tensor("input2");
  if (x.result().numel() == 0) return x.builder().Constant(c.dtype(), 0, x.result().dims);
  const Dims batch = BatchOf(a, c);
  return SolveCholesky(ToBatch(a, batch), ToBatch(c, batch), x.boolean("upper"));
}

OP("aten::cholesky_inverse", kLinalg) {
  auto a = x.tensor("self");
  if (a.numel() == 0) return a;
  return SolveCholesky(a, Identity(x.builder(), a.dtype(), a.dims()), x.boolean("upper"));
}

OP("aten::linalg_solve_triangular", kLinalg) {
  auto a = x.tensor("self"), c = x.tensor("B");
  if (x.result().numel() == 0) return x.builder().Constant(c.dtype(), 0, x.result().dims);
  const Dims batch = BatchOf(a, c);
  return SolveTriangle(ToBatch(a, batch), ToBatch(c, batch), x.boolean("left"), !x.boolean("upper"),
                       x.boolean("unitriangular"), "NO_TRANSPOSE");
}

OP("aten::triangular_solve", kLinalg) {
  auto c = x.tensor("self"), a = x.tensor("A");
  const Dims batch = BatchOf(a, c);
  a = ToBatch(a, batch);
  if (x.result(0).numel() == 0) return {x.builder().Constant(c.dtype(), 0, x.result(0).dims), a};
  return {SolveTriangle(a, ToBatch(c, batch), true, !x.boolean("upper"), x.boolean("unitriangular"),
                        x.boolean("transpose") ? "TRANSPOSE" : "NO_TRANSPOSE"),
          a};
}

OP("aten::linalg_lu_factor_ex", kLinalg) {
  auto lu = Factor(Flat(x.tensor("A")), x.boolean("pivot"));
  return {Shaped(x, lu.factors, 0), Shaped(x, lu.pivots, 1), Shaped(x, lu.info, 2)};
}

OP("aten::linalg_lu_solve", kLinalg) {
  auto a = x.tensor("LU"), c = x.tensor("B");
  if (x.result().numel() == 0) return x.builder().Constant(c.dtype(), 0, x.result().dims);
  const Dims batch = BatchOf(a, c);
  Dims wide = batch;
  wide.push_back(x.tensor("pivots").dim(-1));
  auto pivots = BroadcastTo(x.tensor("pivots"), wide);
  a = Flat(ToBatch(a, batch));
  auto permutation = PermutationOf(Reshape(pivots, {a.dim(0), wide.back()}), a.dim(1));
  return Shaped(
      x, Solve(a, permutation, Flat(ToBatch(c, batch)), x.boolean("left"), x.boolean("adjoint")),
      0);
}

OP("aten::linalg_lu", kLinalg) {
  auto lu = Factor(Flat(x.tensor("A")), x.boolean("pivot"));
  const DType type = lu.factors.dtype();
  auto& b = x.builder();
  const int64_t k = std::min(lu.factors.dim(1), lu.factors.dim(2));
  Value p;  // no pivoting: torch gives an empty matrix
  if (x.result(0).numel() == 0) p = b.Constant(type, 0, x.result(0).dims);
  if (!p) p = Shaped(x, PermutationMatrix(lu.permutation, type), 0);
  return {p, Shaped(x, Lower(b.SliceDim(lu.factors, 2, 0, k), true), 1),
          Shaped(x, Upper(b.SliceDim(lu.factors, 1, 0, k)), 2)};
}

OP("aten::lu_unpack", kLinalg) {
  auto& b = x.builder();
  auto factors = Flat(x.tensor("LU_data"));
  const int64_t m = factors.dim(1), k = std::min(m, factors.dim(2));
  const DType type = factors.dtype();
  auto empty = [&](int i) { return b.Constant(type, 0, x.result(i).dims); };
  Values out = {empty(0), empty(1), empty(2)};
  if (x.boolean("unpack_pivots") && x.result(0).numel() > 0) {
    auto pivots = Reshape(Convert(x.tensor("LU_pivots"), DType::kS32), {factors.dim(0), k});
    out[0] = Shaped(x, PermutationMatrix(PermutationOf(pivots, m), type), 0);
  }
  if (x.boolean("unpack_data")) {
    out[1] = Shaped(x, Lower(b.SliceDim(factors, 2, 0, k), true), 1);
    out[2] = Shaped(x, Upper(b.SliceDim(factors, 1, 0, k)), 2);
  }
  return out;
}

OP("aten::linalg_inv_ex", kLinalg) {
  auto a = Flat(x.tensor("A"));
  if (a.numel() == 0)
    return {x.tensor("A"), x.builder().Constant(DType::kS32, 0, x.result(1).dims)};
  auto lu = Factor(a, true);
  auto inverse =
      SolveLeft(lu.factors, lu.permutation, Identity(x.builder(), a.dtype(), a.dims()), false);
  return {Shaped(x, inverse, 0), Shaped(x, lu.info, 1)};
}

OP("aten::_linalg_solve_ex", kLinalg) {
  auto a = x.tensor("A"), c = x.tensor("B");
  auto lu = Factor(Flat(a), true);
  const Dims& out = x.result(0).dims;
  Value solution = x.builder().Constant(c.dtype(), 0, out);
  if (x.result(0).numel() > 0) {
    // A right side of vectors has the batch dims of A and one more.
    const bool vectors = c.rank() == 1 || (c.rank() == a.rank() - 1 &&
                                           c.dims() == Dims(a.dims().begin(), a.dims().end() - 1));
    if (vectors) c = Unsqueeze(c, {static_cast<int64_t>(c.rank())});
    const Dims batch = BatchOf(a, c);
    auto spread = [&](Value v) {  // one matrix or vector per matrix of the result's batch
      Dims own(a.dims().begin(), a.dims().end() - 2), wide = batch;
      for (int i = 1; i < v.rank(); ++i) own.push_back(v.dim(i)), wide.push_back(v.dim(i));
      Dims flat = {-1};
      v = BroadcastTo(Reshape(v, own), wide);
      int64_t count = 1;
      for (int64_t d : batch) count *= d;
      flat.assign(1, count);
      for (size_t i = batch.size(); i < wide.size(); ++i) flat.push_back(wide[i]);
      return Reshape(v, flat);
    };
    solution = Solve(spread(lu.factors), spread(lu.permutation), Flat(ToBatch(c, batch)),
                     vectors || x.boolean("left"), false);
  }
  return {Shaped(x, solution, 0), Shaped(x, lu.factors, 1), Shaped(x, lu.pivots, 2),
          Shaped(x, lu.info, 3)};
}

OP("aten::_linalg_det", kLinalg) {
  auto lu = FactorForDet(x);
  auto diagonal = Diagonal(lu.factors);
  auto det = ProductOf(diagonal) * SignOfPivots(lu.pivots, diagonal.dtype());
  return {Shaped(x, det, 0), Shaped(x, lu.factors, 1), Shaped(x, lu.pivots, 2)};
}

OP("aten::_linalg_slogdet", kLinalg) {
  auto lu = FactorForDet(x);
  auto diagonal = Diagonal(lu.factors);
  auto sign = ProductOf(x.builder().Unary("stablehlo.sign", diagonal)) *
              SignOfPivots(lu.pivots, diagonal.dtype());
  return {Shaped(x, sign, 0), Shaped(x, Sum(Log(Abs(diagonal)), {1}), 1), Shaped(x, lu.factors, 2),
          Shaped(x, lu.pivots, 3)};
}

}  // namespace torch_tpu::ops
