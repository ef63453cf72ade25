// SPDX-License-Identifier: Apache-2.0
// Reductions to one value per slice. Results take their sizes (keepdim) from torch's meta kernel.
#include "csrc/ops/op.h"
#include "csrc/ops/reduction.h"

namespace torch_tpu::ops {
namespace {

constexpr Tolerance kSums = Tolerance::kAccumulate;

Value Shaped(Lowering& x, Value v, int result = 0) { return Reshape(v, x.result(result).dims); }

Dims AllDims(Value v) { return Lowering::WrapDims({}, v.rank()); }

// any and all take an empty list as "no dims", the other reductions as "all".
Dims LogicalDims(Lowering& x, Value v) {
  if (Takes(x, "dim") && x.has("dim") && x.ints("dim").empty()) return {};
  return ReducedDims(x, "dim", v.rank());
}

struct Moments {
  Value mean, variance;  // reduced dims dropped
};

// Two passes, as accurate as torch's Welford. A divisor below zero counts as zero.
Moments MeanAndVariance(Lowering& x) {
  Value v = Wide(AtLeast1d(x.tensor("self")));
  const Dims dims = ReducedDims(x, "dim", v.rank());
  const DType real = hlo::RealOf(v.dtype());
  const double n = static_cast<double>(CountOver(v, dims));
  Value mean = Sum(v, dims) / n;
  Value delta = v - BroadcastTo(KeepDims(mean, dims), v.dims());
  Value square;
  if (hlo::IsComplex(v.dtype())) {
    Value re = x.builder().Unary("stablehlo.real", delta);
    Value im = x.builder().Unary("stablehlo.imag", delta);
    square = re * re + im * im;
  } else {
    square = delta * delta;
  }
  Value correction =
      x.has("correction") ? x.scalar("correction", real) : x.builder().Constant(real, 1);
  Value left = n - correction;
  return {mean, Sum(square, dims) / Max(left, Like(left, 0))};
}

}  // namespace

OPS(({"aten::sum", "aten::sum.dim_IntList"}), {.tolerance = kSums}) {
  Value v = ReductionInput(x, "self");
  Dims dims = ReducedDims(x, "dim", v.rank());
  return Shaped(x, Sum(v, dims));
}

OPS(({"aten::mean", "aten::mean.dim"}), {.tolerance = kSums}) {
  Value v = ReductionInput(x, "self");
  Dims dims = ReducedDims(x, "dim", v.rank());
  return Shaped(x, Sum(v, dims) / static_cast<double>(CountOver(v, dims)));
}

OP("aten::nansum", {.tolerance = kSums}) {
  Value v = ReductionInput(x, "self");
  return Shaped(x, Sum(Select(IsNan(v), ZerosLike(v), v), ReducedDims(x, "dim", v.rank())));
}

OPS(({"aten::prod", "aten::prod.dim_int"}), {.tolerance = kSums}) {
  Value v = ReductionInput(x, "self");
  Dims dims = ReducedDims(x, "dim", v.rank());
  Value one = x.builder().Constant(v.dtype(), 1);
  return Shaped(x, x.builder().Reduce("stablehlo.multiply", v, one, dims));
}

OP("aten::amax", {.tolerance = Tolerance::kExact}) {
  Value v = AtLeast1d(x.tensor("self"));
  return Shaped(x, MaxReduce(v, ReducedDims(x, "dim", v.rank())));
}

OP("aten::amin", {.tolerance = Tolerance::kExact}) {
  Value v = AtLeast1d(x.tensor("self"));
  return Shaped(x, MinReduce(v, ReducedDims(x, "dim", v.rank())));
}

// torch's meta kernel lets an empty tensor pass.
static void RequireElements(Lowering& x, Value v) {
  if (v.numel() == 0) x.Unsupported("expected at least one element. Try: a reduction with dim");
}

OP("aten::max", {.tolerance = Tolerance::kExact}) {
  Value v = x.tensor("self");
  RequireElements(x, v);
  return MaxReduce(v, AllDims(v));
}

OP("aten::min", {.tolerance = Tolerance::kExact}) {
  Value v = x.tensor("self");
  RequireElements(x, v);
  return MinReduce(v, AllDims(v));
}

OP("aten::aminmax", {.tolerance = Tolerance::kExact}) {
  Value v = AtLeast1d(x.tensor("self"));
  Dims dims = ReducedDims(x, "dim", v.rank());
  return {Shaped(x, MinReduce(v, dims), 0), Shaped(x, MaxReduce(v, dims), 1)};
}

OP("aten::max.dim", {.tolerance = Tolerance::kExact}) {
  Value v = AtLeast1d(x.tensor("self"));
  Extreme best = ArgExtreme(v, Lowering::WrapDim(x.integer("dim"), v.rank()), true);
  return {Shaped(x, best.value, 0), Shaped(x, best.index, 1)};
}

OP("aten::min.dim", {.tolerance = Tolerance::kExact}) {
  Value v = AtLeast1d(x.tensor("self"));
  Extreme best = ArgExtreme(v, Lowering::WrapDim(x.integer("dim"), v.rank()), false);
  return {Shaped(x, best.value, 0), Shaped(x, best.index, 1)};
}

OP("aten::argmax", {.tolerance = Tolerance::kExact}) {
  Value v = x.has("dim") ? AtLeast1d(x.tensor("self")) : Flat(x.tensor("self"));
  return Shaped(x, ArgExtreme(v, Lowering::WrapDim(x.integer_or("dim", 0), v.rank()), true).index);
}

OP("aten::argmin", {.tolerance = Tolerance::kExact}) {
  Value v = x.has("dim") ? AtLeast1d(x.tensor("self")) : Flat(x.tensor("self"));
  return Shaped(x, ArgExtreme(v, Lowering::WrapDim(x.integer_or("dim", 0), v.rank()), false).index);
}

OPS(({"aten::any", "aten::any.dim", "aten::any.dims"}), {.tolerance = Tolerance::kExact}) {
  Value v = Convert(AtLeast1d(x.tensor("self")), DType::kPred);
  return Shaped(x, AnyReduceOr(v, LogicalDims(x, v)));
}

OPS(({"aten::all", "aten::all.dim", "aten::all.dims"}), {.tolerance = Tolerance::kExact}) {
  Value v = Convert(AtLeast1d(x.tensor("self")), DType::kPred);
  return Shaped(x, AllReduceAnd(v, LogicalDims(x, v)));
}

OPS(({"aten::count_nonzero", "aten::count_nonzero.dim_IntList"}),
    {.tolerance = Tolerance::kExact}) {
  Value v = Convert(AtLeast1d(x.tensor("self")), DType::kPred);
  return Shaped(x, CountTrue(v, ReducedDims(x, "dim", v.rank())));
}

OP("aten::var.correction", {.tolerance = kSums}) { return Shaped(x, MeanAndVariance(x).variance); }

OP("aten::std.correction", {.tolerance = kSums}) {
  return Shaped(x, Sqrt(MeanAndVariance(x).variance));
}

OP("aten::var_mean.correction", {.tolerance = kSums}) {
  Moments m = MeanAndVariance(x);
  return {Shaped(x, m.variance, 0), Shaped(x, m.mean, 1)};
}

OP("aten::std_mean.correction", {.tolerance = kSums}) {
  Moments m = MeanAndVariance(x);
  return {Shaped(x, Sqrt(m.variance), 0), Shaped(x, m.mean, 1)};
}

OP("aten::logsumexp", {.tolerance = kSums}) {
  DType dtype = x.compute_type();
  Value v = AtLeast1d(x.tensor("self"));
  if (hlo::IsComplex(v.dtype())) dtype = hlo::ComplexOf(v.dtype());
  v = Convert(v, dtype);
  const Dims dims = ReducedDims(x, "dim", v.rank());
  const bool complex = hlo::IsComplex(dtype);
  Value top = MaxReduce(complex ? x.builder().Unary("stablehlo.real", v) : v, dims);
  // An infinite maximum is not subtracted: inf - inf would be NaN.
  top = Select(IsFinite(top), top, ZerosLike(top));
  if (complex) top = Convert(top, dtype);
  Value sum = Sum(Exp(v - BroadcastTo(KeepDims(top, dims), v.dims())), dims);
  return Shaped(x, Log(sum) + top);
}

// ---- norms ------------------------------------------------------------------------------------

OP("aten::linalg_vector_norm", {.constants = {"ord"}, .tolerance = kSums}) {
  Value v = AtLeast1d(x.tensor("self"));
  if (x.has("dtype")) v = Convert(v, *x.dtype("dtype"));
  return Shaped(x, VectorNorm(Wide(v), x.number("ord"), ReducedDims(x, "dim", v.rank())));
}

OP("aten::norm.Scalar", {.constants = {"p"}, .tolerance = kSums}) {
  Value v = x.tensor("self");
  return VectorNorm(Wide(v), x.number("p"), AllDims(v));
}

OP("aten::norm.ScalarOpt_dim", {.constants = {"p"}, .tolerance = kSums}) {
  Value v = AtLeast1d(x.tensor("self"));
  double p = x.has("p") ? x.number("p") : 2;
  return Shaped(x, VectorNorm(Wide(v), p, ReducedDims(x, "dim", v.rank())));
}

OP("aten::norm.ScalarOpt_dtype", {.constants = {"p"}, .tolerance = kSums}) {
  Value v = Convert(x.tensor("self"), *x.dtype("dtype"));
  return VectorNorm(Wide(v), x.has("p") ? x.number("p") : 2, AllDims(v));
}

OP("aten::norm.ScalarOpt_dim_dtype", {.constants = {"p"}, .tolerance = kSums}) {
  Value v = Convert(AtLeast1d(x.tensor("self")), *x.dtype("dtype"));
  double p = x.has("p") ? x.number("p") : 2;
  return Shaped(x, VectorNorm(Wide(v), p, ReducedDims(x, "dim", v.rank())));
}

OP("aten::dist", {.constants = {"p"}, .tolerance = kSums}) {
  Value self = x.tensor("self"), other = x.tensor("other");
  const DType dtype = hlo::ComputeType(hlo::Promote(self.dtype(), other.dtype()));
  Values v = BroadcastTogether({Convert(self, dtype), Convert(other, dtype)});
  return VectorNorm(v[0] - v[1], x.number("p"), AllDims(v[0]));
}

OP("aten::renorm", {.constants = {"p"}, .tolerance = kSums}) {
  Value v = Wide(x.tensor("self"));
  const int64_t kept = Lowering::WrapDim(x.integer("dim"), v.rank());
  Dims dims;
  for (int64_t d = 0; d < v.rank(); ++d) {
    if (d != kept) dims.push_back(d);
  }
  Value norm = VectorNorm(v, x.number("p"), dims);
  Value limit = x.scalar("maxnorm", norm.dtype());
  Value factor = Select(norm > limit, limit / (norm + 1e-7), OnesLike(norm));
  return v * BroadcastTo(KeepDims(Convert(factor, v.dtype()), dims), v.dims());
}

OP("aten::_weight_norm_interface", {.tolerance = kSums}) {
  Value v = Wide(x.tensor("v")), g = Wide(x.tensor("g"));
  const int64_t kept = Lowering::WrapDim(x.integer("dim"), v.rank());
  Dims dims;
  for (int64_t d = 0; d < v.rank(); ++d) {
    if (d != kept) dims.push_back(d);
  }
  Value norm = KeepDims(VectorNorm(v, 2, dims), dims);
  return {v * BroadcastTo(Reshape(g, norm.dims()) / norm, v.dims()), Shaped(x, norm, 1)};
}

OP("aten::_weight_norm_interface_backward", {.tolerance = kSums}) {
  Value grad = Wide(x.tensor("grad_w")), v = Wide(x.tensor("saved_v"));
  const int64_t kept = Lowering::WrapDim(x.integer("dim"), v.rank());
  Dims dims, row(v.rank(), 1);
  row[kept] = v.dim(static_cast<int>(kept));
  for (int64_t d = 0; d < v.rank(); ++d) {
    if (d != kept) dims.push_back(d);
  }
  Value g = Reshape(Wide(x.tensor("saved_g")), row);
  Value norm = Reshape(Wide(x.tensor("saved_norms")), row);
  Value along = KeepDims(Sum(grad * v, dims), dims);
  auto wide = [&](Value s) { return BroadcastTo(s, v.dims()); };
  return {wide(g / norm) * (grad - v * wide(along / (norm * norm))), Shaped(x, along / norm, 1)};
}

}  // namespace torch_tpu::ops
