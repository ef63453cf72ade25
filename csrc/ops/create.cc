// SPDX-License-Identifier: Apache-2.0
// Values made from numbers or positions, and conversions between dtypes.
#include "csrc/ops/math.h"
#include "csrc/ops/op.h"

namespace torch_tpu::ops {

OP("aten::zero", {.tolerance = Tolerance::kExact}) {
  return x.builder().Constant(x.result().dtype, 0, x.result().dims);
}
OP("aten::fill.Scalar", {.tolerance = Tolerance::kExact}) {
  return BroadcastTo(x.scalar("value", x.result().dtype), x.result().dims);
}
OP("aten::fill.Tensor", {.tolerance = Tolerance::kExact}) {
  return BroadcastTo(Convert(x.tensor("value"), x.result().dtype), x.result().dims);
}

OP("aten::copy", {.tolerance = Tolerance::kExact}) {
  Value src = x.tensor("src");
  const DType to = x.result().dtype;
  // A float that a small integer cannot hold wraps around in torch, saturates in StableHLO.
  if (hlo::IsFloat(src.dtype()) && hlo::IsInteger(to) && hlo::ByteSize(to) < 4) {
    src = Convert(src, DType::kS32);
  }
  return BroadcastTo(Convert(src, to), x.result().dims);
}
OPS(({"aten::complex", "aten::complex.out"})) {
  const DType part = hlo::RealOf(x.result().dtype);
  auto broadcast = [&](ArgRef a) {
    return BroadcastTo(Convert(x.tensor(a), part), x.result().dims);
  };
  return x.builder().Complex(broadcast("real"), broadcast("imag"));
}
OPS(({"aten::polar", "aten::polar.out"})) {
  const DType part = hlo::RealOf(x.result().dtype);
  Value length = BroadcastTo(Convert(x.tensor("abs"), part), x.result().dims);
  Value angle = BroadcastTo(Convert(x.tensor("angle"), part), x.result().dims);
  return x.builder().Complex(length * Cos(angle), length * Sin(angle));
}

// ---- ranges: as torch, integers in s64 and floats in f64 ---------------------------------------
namespace {

// Positions 0, 1, 2, ... in row-major order over the result.
Value Positions(Lowering& x, DType dtype) {
  const int64_t n = x.result().numel();
  return Reshape(x.builder().Iota(dtype, {n}, 0), x.result().dims);
}

// torch counts the second half down from the end, so that the last value is exact.
Value Linspace(Lowering& x, DType dtype) {
  const int64_t steps = x.integer("steps");
  const DType exact = x.result().dtype;  // the ends are rounded to it first
  Value start = Convert(x.scalar("start", exact), dtype);
  Value end = Convert(x.scalar("end", exact), dtype);
  if (steps == 1) return BroadcastTo(start, x.result().dims);
  Value step = (end - start) / static_cast<double>(steps - 1);
  Value i = Positions(x, dtype);
  Value from_end = static_cast<double>(steps - 1) - i;
  return Select(i < static_cast<double>(steps / 2), start + step * i, end - step * from_end);
}

DType RangeType(Lowering& x) {
  const DType dtype = x.compute_type();
  return hlo::IsFloat(dtype) || hlo::IsComplex(dtype) ? dtype : DType::kF64;
}

}  // namespace

OPS(({"aten::arange.start_out", "aten::range.out"})) {
  const DType dtype = hlo::IsFloat(x.result().dtype) ? DType::kF64 : DType::kS64;
  return x.scalar("start", dtype) + Positions(x, dtype) * x.scalar("step", dtype);
}
OP("aten::linspace.out") { return Linspace(x, RangeType(x)); }
OP("aten::logspace.out") {
  const DType dtype = RangeType(x);
  Value exponents = Linspace(x, dtype);
  return Pow(BroadcastTo(x.scalar("base", dtype), exponents.dims()), exponents);
}

// ---- matrices by position ----------------------------------------------------------------------
namespace {

// Column minus row, over the last two dims.
Value Diagonals(Lowering& x, const Dims& dims) {
  const int rank = static_cast<int>(dims.size());
  return x.builder().Iota(DType::kS64, dims, rank - 1) -
         x.builder().Iota(DType::kS64, dims, rank - 2);
}

Value At(Value like, int64_t value) {
  return like.builder().ConstantInt(like.dtype(), value, like.dims());
}

// (row, column) of each element on the wanted side of a diagonal, in row-major order. A stable sort
// brings the wanted positions to the front; there are no more than rows * columns of them.
Value TriangleIndices(Lowering& x, hlo::Direction side) {
  const int64_t rows = x.integer("row"), columns = x.integer("col");
  const int64_t found = x.result().numel() / 2;
  if (found == 0) return x.builder().Constant(DType::kS64, 0, x.result().dims);
  hlo::Builder& b = x.builder();
  Value diagonal = Diagonals(x, {rows, columns});
  Value unwanted = ~b.Compare(diagonal, At(diagonal, x.integer("offset")), side);
  Value order = Reshape(Convert(unwanted, DType::kS32), {rows * columns});
  Value position = b.Iota(DType::kS64, {rows * columns}, 0);
  Value sorted = b.Sort({order, position}, 0, /*stable=*/true,
                        [](const Values& v) { return Values{v[0] < v[1]}; })[1];
  Value kept = Reshape(b.SliceDim(sorted, 0, 0, found), {1, found});
  Value width = At(kept, columns);
  return b.Concatenate({kept / width, Rem(kept, width)}, 0);
}

}  // namespace

OPS(({"aten::eye.out", "aten::eye.m_out"}), {.tolerance = Tolerance::kExact}) {
  return Eq(Diagonals(x, x.result().dims), 0);
}
OP("aten::tril", {.tolerance = Tolerance::kExact}) {
  Value self = x.tensor("self");
  Value diagonal = Diagonals(x, self.dims());
  return Select(diagonal <= At(diagonal, x.integer("diagonal")), self, ZerosLike(self));
}
OP("aten::triu", {.tolerance = Tolerance::kExact}) {
  Value self = x.tensor("self");
  Value diagonal = Diagonals(x, self.dims());
  return Select(diagonal >= At(diagonal, x.integer("diagonal")), self, ZerosLike(self));
}
OP("aten::tril_indices", {.tolerance = Tolerance::kExact}) {
  return TriangleIndices(x, hlo::Direction::kLe);
}
OP("aten::triu_indices", {.tolerance = Tolerance::kExact}) {
  return TriangleIndices(x, hlo::Direction::kGe);
}

}  // namespace torch_tpu::ops
