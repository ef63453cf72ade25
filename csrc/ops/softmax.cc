// SPDX-License-Identifier: Apache-2.0
// Softmax along one dim: f32 inside for bf16 and f16, one rounding.
#include "csrc/ops/op.h"
#include "csrc/ops/reduction.h"

namespace torch_tpu::ops {
namespace {

struct Axis {
  Value v;
  int dim;

  Value Wide(Value reduced) const { return BroadcastTo(KeepDims(reduced, {dim}), v.dims()); }
  Value SumWide(Value term) const { return Wide(Sum(term, {dim})); }
};

Axis AxisOf(Lowering& x, ArgRef tensor, DType dtype) {
  Value v = Convert(AtLeast1d(x.tensor(tensor)), dtype);
  return {v, static_cast<int>(Lowering::WrapDim(x.integer("dim"), v.rank()))};
}

Value Softmax(const Axis& a) {
  Value e = Exp(a.v - a.Wide(MaxReduce(a.v, {a.dim})));
  return e / a.SumWide(e);
}

}  // namespace

OP("aten::_softmax", {.tolerance = Tolerance::kAccumulate}) {
  return Reshape(Softmax(AxisOf(x, "self", x.compute_type())), x.result().dims);
}

OP("aten::_safe_softmax", {.tolerance = Tolerance::kAccumulate}) {
  // Rows that are all -inf give zeros, not NaN.
  Axis a = AxisOf(x, "self", x.compute_type());
  Value closed = a.Wide(AllReduceAnd(Eq(a.v, x.builder().MinValue(a.v.dtype())), {a.dim}));
  return Reshape(Select(closed, ZerosLike(a.v), Softmax(a)), x.result().dims);
}

OP("aten::_log_softmax", {.tolerance = Tolerance::kAccumulate}) {
  Axis a = AxisOf(x, "self", x.compute_type());
  Value shifted = a.v - a.Wide(MaxReduce(a.v, {a.dim}));
  return Reshape(shifted - a.Wide(Log(Sum(Exp(shifted), {a.dim}))), x.result().dims);
}

OP("aten::_softmax_backward_data", {.tolerance = Tolerance::kAccumulate}) {
  Axis y = AxisOf(x, "output", hlo::ComputeType(x.tensor("output").dtype()));
  Value grad = Convert(AtLeast1d(x.tensor("grad_output")), y.v.dtype());
  return Reshape((grad - y.SumWide(grad * y.v)) * y.v, x.result().dims);
}

OP("aten::_log_softmax_backward_data", {.tolerance = Tolerance::kAccumulate}) {
  Axis y = AxisOf(x, "output", hlo::ComputeType(x.tensor("output").dtype()));
  Value grad = Convert(AtLeast1d(x.tensor("grad_output")), y.v.dtype());
  return Reshape(grad - Exp(y.v) * y.SumWide(grad), x.result().dims);
}

}  // namespace torch_tpu::ops
