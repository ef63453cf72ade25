// SPDX-License-Identifier: Apache-2.0
// Matrix products. Half-precision operands accumulate in f32; alpha, beta and the added matrix are
// applied there too, so a result is rounded once.
#include <algorithm>
#include <cmath>

#include "csrc/ops/op.h"

namespace torch_tpu::ops {
namespace {

using hlo::Direction;
using hlo::DotDims;

const Options kProduct = {.tolerance = Tolerance::kAccumulate};

Value MatMul(Lowering& x, Value a, Value b, DType result) {
  const int64_t batch = a.rank() - 2;
  DotDims dims = {.lhs_contract = {batch + 1}, .rhs_contract = {batch}};
  for (int64_t i = 0; i < batch; ++i) {
    dims.lhs_batch.push_back(i);
    dims.rhs_batch.push_back(i);
  }
  return x.builder().Dot(a, b, dims, result);
}

// beta * self + alpha * product, where beta 0 hides a NaN in self.
Value AddProduct(Lowering& x, Value product) {
  auto self = Convert(x.tensor("self"), x.compute_type());
  auto beta = x.scalar("beta");
  auto added = Select(Eq(beta, 0), ZerosLike(self), beta * self);
  return BroadcastTo(added, x.result().dims) + x.scalar("alpha") * product;
}

Value Conj(Value v) {
  if (!hlo::IsComplex(v.dtype())) return v;
  auto& b = v.builder();
  return b.Complex(b.Unary("stablehlo.real", v), -b.Unary("stablehlo.imag", v));
}

// ---- grouped products: `offsets` are the ends of the groups, as torch gives them
// ------------------

// One state of the walk over the groups: the group that holds row `row`, and where it ends.
struct GroupAt {
  Value group, end;
};

GroupAt FindGroup(Value offsets, Value row) {
  auto& b = offsets.builder();
  auto passed = Convert(offsets <= BroadcastTo(row, offsets.dims()), DType::kS32);
  auto group = Sum(passed, {0});
  return {group, Reshape(b.DynamicSlice(offsets, {group}, {1}), {})};
}

// The next block's first row. Moves on even when the offsets are not sorted.
Value NextRow(Value row, Value end, int64_t block) {
  return Max(row + 1.0, Min(end, row + static_cast<double>(block)));
}

// Half the mean group: a walk then takes about 2.5 steps per group and wastes a quarter of its
// rows.
int64_t BlockRows(int64_t rows, int64_t groups) {
  const int64_t half = rows / std::max<int64_t>(1, 2 * groups);
  return std::clamp<int64_t>((half + 7) / 8 * 8, 8, 256);
}

Value PadRows(Value v, int64_t rows, int dim) {
  Dims high(v.rank(), 0);
  high[dim] = rows;
  return v.builder().Pad(v, v.builder().Constant(v.dtype(), 0), Dims(v.rank(), 0), high);
}

// [S, K] x [G, K, N] -> [S, N]. A block of rows starts where its group starts; the rows it computes
// beyond the group's end are overwritten by the next block. Rows after the last group are zero.
Value GroupedRows(Value a, Value weights, Value offsets, DType result) {
  auto& b = a.builder();
  const int64_t rows = a.dim(0), depth = a.dim(1), groups = weights.dim(0),
                columns = weights.dim(2);
  const int64_t block = BlockRows(rows, groups);
  auto zero = b.ConstantInt(DType::kS32, 0);
  auto last = Reshape(b.SliceDim(offsets, 0, groups - 1, groups), {});
  auto padded = PadRows(a, block, 0);
  auto done = b.While(
      {zero, b.Constant(result, 0, {rows + block, columns})},
      [&](const Values& s) -> Values { return {b.Compare(s[0], last, Direction::kLt)}; },
      [&](const Values& s) -> Values {
        auto at = FindGroup(offsets, s[0]);
        auto lhs = b.DynamicSlice(padded, {s[0], zero}, {block, depth});
        auto rhs = Reshape(b.DynamicSlice(weights, {at.group, zero, zero}, {1, depth, columns}),
                           {depth, columns});
        auto product = b.Dot(lhs, rhs, {.lhs_contract = {1}, .rhs_contract = {0}}, result);
        return {NextRow(s[0], at.end, block), b.DynamicUpdateSlice(s[1], product, {s[0], zero})};
      });
  auto out = b.SliceDim(done[1], 0, 0, rows);
  auto used = b.Iota(DType::kS32, out.dims(), 0) < BroadcastTo(last, out.dims());
  return Select(used, out, ZerosLike(out));
}

// [M, S] x [S, N] -> [G, M, N]: each group is the product over its own part of S.
Value GroupedDepth(Value a, Value c, Value offsets, DType result) {
  auto& b = a.builder();
  const int64_t m = a.dim(0), depth = a.dim(1), n = c.dim(1), groups = offsets.dim(0);
  const int64_t block = BlockRows(depth, groups);
  const DType sum_type = hlo::ComputeType(result);
  auto zero = b.ConstantInt(DType::kS32, 0);
  auto last = Reshape(b.SliceDim(offsets, 0, groups - 1, groups), {});
  auto lhs_padded = PadRows(a, block, 1), rhs_padded = PadRows(c, block, 0);
  auto done = b.While(
      {zero, b.Constant(sum_type, 0, {groups, m, n})},
      [&](const Values& s) -> Values { return {b.Compare(s[0], last, Direction::kLt)}; },
      [&](const Values& s) -> Values {
        auto at = FindGroup(offsets, s[0]);
        auto lhs = b.DynamicSlice(lhs_padded, {zero, s[0]}, {m, block});
        auto rhs = b.DynamicSlice(rhs_padded, {s[0], zero}, {block, n});
        auto length = at.end - s[0];
        auto inside = [&](Value v, int dim) {
          auto keep = b.Iota(DType::kS32, v.dims(), dim) < BroadcastTo(length, v.dims());
          return Select(keep, v, ZerosLike(v));
        };
        auto product = b.Dot(inside(lhs, 1), inside(rhs, 0),
                             {.lhs_contract = {1}, .rhs_contract = {0}}, sum_type);
        auto old = b.DynamicSlice(s[1], {at.group, zero, zero}, {1, m, n});
        auto sum = old + Reshape(product, {1, m, n});
        return {NextRow(s[0], at.end, block),
                b.DynamicUpdateSlice(s[1], sum, {at.group, zero, zero})};
      });
  return done[1];
}

}  // namespace

OPS(({"aten::mm", "aten::mm.dtype", "aten::bmm", "aten::bmm.dtype", "aten::_int_mm"}), kProduct) {
  return MatMul(x, x.tensor("self"), x.tensor("mat2"), x.result().dtype);
}

OPS(({"aten::addmm", "aten::addmm.dtype"}), kProduct) {
  return AddProduct(x, MatMul(x, x.tensor("mat1"), x.tensor("mat2"), x.compute_type()));
}

OPS(({"aten::baddbmm", "aten::baddbmm.dtype"}), kProduct) {
  return AddProduct(x, MatMul(x, x.tensor("batch1"), x.tensor("batch2"), x.compute_type()));
}

OP("aten::addbmm", kProduct) {  // the products are summed over the batch
  DotDims dims = {.lhs_contract = {0, 2}, .rhs_contract = {0, 1}};
  return AddProduct(
      x, x.builder().Dot(x.tensor("batch1"), x.tensor("batch2"), dims, x.compute_type()));
}

OP("aten::_addmm_activation", kProduct) {  // relu, or gelu in its erf form
  auto v = AddProduct(x, MatMul(x, x.tensor("mat1"), x.tensor("mat2"), x.compute_type()));
  if (!x.boolean("use_gelu")) return Max(v, ZerosLike(v));
  return v * 0.5 * (Erf(v * M_SQRT1_2) + 1.0);
}

OP("aten::mv", kProduct) {
  DotDims dims = {.lhs_contract = {1}, .rhs_contract = {0}};
  return x.builder().Dot(x.tensor("self"), x.tensor("vec"), dims, x.result().dtype);
}

OP("aten::addmv", kProduct) {
  DotDims dims = {.lhs_contract = {1}, .rhs_contract = {0}};
  return AddProduct(x, x.builder().Dot(x.tensor("mat"), x.tensor("vec"), dims, x.compute_type()));
}

OP("aten::dot", kProduct) {
  DotDims dims = {.lhs_contract = {0}, .rhs_contract = {0}};
  return x.builder().Dot(x.tensor("self"), x.tensor("tensor"), dims, x.result().dtype);
}

OP("aten::vdot", kProduct) {
  DotDims dims = {.lhs_contract = {0}, .rhs_contract = {0}};
  return x.builder().Dot(Conj(x.tensor("self")), x.tensor("other"), dims, x.result().dtype);
}

OP("aten::addr") {  // beta * self + alpha * outer(vec1, vec2)
  const Dims& dims = x.result().dims;
  auto part = [&](const char* name, int64_t dim) {
    return x.builder().BroadcastInDim(Convert(x.tensor(name), x.compute_type()), dims, {dim});
  };
  return AddProduct(x, part("vec1", 0) * part("vec2", 1));
}

OP("aten::_grouped_mm",
   {.tolerance = Tolerance::kAccumulate, .limitation = "bias is not supported"}) {
  if (x.has("bias")) x.Unsupported("a bias (torch has none yet). Try: adding it to the result");
  auto a = x.tensor("self"), c = x.tensor("mat2");
  const DType result = x.result().dtype;
  if (a.rank() == 3 && c.rank() == 3) return MatMul(x, a, c, result);
  if (!x.has("offs")) x.Unsupported("a 2-D operand without offs");
  auto offsets = Convert(x.tensor("offs"), DType::kS32);
  if (a.rank() == 2 && c.rank() == 3) return GroupedRows(a, c, offsets, result);
  if (a.rank() == 2 && c.rank() == 2) return GroupedDepth(a, c, offsets, result);
  // [G, M, K] x [K, N]: the groups split N. The transposed product splits rows.
  auto rows = GroupedRows(Transpose(c, {1, 0}), Transpose(a, {0, 2, 1}), offsets, result);
  return Transpose(rows, {1, 0});
}

OP("aten::_trilinear", kProduct) {  // sum over sumdim of i1 * i2 * i3, each unsqueezed at expandN
  auto part = [&](const char* name, const char* expand) {
    auto v = Convert(x.tensor(name), x.compute_type());
    return Unsqueeze(v, x.ints(expand));
  };
  Values parts = {part("i1", "expand1"), part("i2", "expand2"), part("i3", "expand3")};
  Dims dims(parts[0].rank(), 1);
  for (auto& v : parts) {
    for (int i = 0; i < v.rank(); ++i) dims[i] = dims[i] == 1 ? v.dim(i) : dims[i];
  }
  for (auto& v : parts) v = BroadcastTo(v, dims);
  return Sum(parts[0] * parts[1] * parts[2], x.ints("sumdim"));
}

OP("aten::trace", kProduct) {
  auto v = Convert(x.tensor("self"), x.compute_type());
  auto& b = x.builder();
  auto diagonal = Eq(b.Iota(DType::kS32, v.dims(), 0), b.Iota(DType::kS32, v.dims(), 1));
  return Sum(Select(diagonal, v, ZerosLike(v)), {0, 1});
}

OP("aten::linalg_cross") {
  auto a = x.arg("self"), c = x.arg("other");
  const int dim = static_cast<int>(Lowering::WrapDim(x.integer("dim"), a.rank()));
  auto& b = x.builder();
  // Component i of the product is a[i+1] c[i+2] - a[i+2] c[i+1], indices modulo 3.
  auto turned = [&](Value v, int64_t by) {
    return b.Concatenate({b.SliceDim(v, dim, by, 3), b.SliceDim(v, dim, 0, by)}, dim);
  };
  return turned(a, 1) * turned(c, 2) - turned(a, 2) * turned(c, 1);
}

}  // namespace torch_tpu::ops
