// SPDX-License-Identifier: Apache-2.0
// Comparisons, logic, bits, and choices by a mask.
#include "csrc/ops/math.h"
#include "csrc/ops/op.h"

namespace torch_tpu::ops {
namespace {

// An operand of a comparison: in the promoted dtype itself, because torch rounds a Python number to
// it (bfloat16(0.1) equals 0.1).
Value Promoted(Lowering& x, ArgRef a) {
  return BroadcastTo(Convert(x.tensor(a), x.common_dtype()), x.result().dims);
}

Value Truth(Lowering& x, ArgRef a) {
  return BroadcastTo(Convert(x.tensor(a), DType::kPred), x.result().dims);
}

// A branch of a choice: moved, not computed with, so in the result's own dtype.
Value Branch(Lowering& x, ArgRef a) {
  return BroadcastTo(Convert(x.tensor(a), x.result().dtype), x.result().dims);
}

Value Shift(Lowering& x, const char* op) {
  // torch: too many places give 0, or the sign for a right shift.
  Value self = x.arg("self"), other = x.arg("other");
  const int64_t width = hlo::ByteSize(self.dtype()) * 8;
  Value limit = x.builder().ConstantInt(self.dtype(), width, self.dims());
  Value outside = other >= limit;
  if (hlo::IsSigned(self.dtype())) outside = outside | (other < 0);
  Value last = x.builder().ConstantInt(self.dtype(), width - 1, self.dims());
  Value shifted = x.builder().Binary(op, self, Select(outside, last, other));
  if (op == std::string_view("stablehlo.shift_right_arithmetic")) return shifted;
  return Select(outside, ZerosLike(shifted), shifted);
}

}  // namespace

OPS(({"aten::eq.Tensor", "aten::eq.Scalar"}), {.tolerance = Tolerance::kExact}) {
  return Eq(Promoted(x, "self"), Promoted(x, "other"));
}
OPS(({"aten::ne.Tensor", "aten::ne.Scalar"}), {.tolerance = Tolerance::kExact}) {
  return Ne(Promoted(x, "self"), Promoted(x, "other"));
}
OPS(({"aten::lt.Tensor", "aten::lt.Scalar"}), {.tolerance = Tolerance::kExact}) {
  return Promoted(x, "self") < Promoted(x, "other");
}
OPS(({"aten::le.Tensor", "aten::le.Scalar"}), {.tolerance = Tolerance::kExact}) {
  return Promoted(x, "self") <= Promoted(x, "other");
}
OPS(({"aten::gt.Tensor", "aten::gt.Scalar"}), {.tolerance = Tolerance::kExact}) {
  return Promoted(x, "self") > Promoted(x, "other");
}
OPS(({"aten::ge.Tensor", "aten::ge.Scalar"}), {.tolerance = Tolerance::kExact}) {
  return Promoted(x, "self") >= Promoted(x, "other");
}

OP("aten::logical_not", {.tolerance = Tolerance::kExact}) { return ~Truth(x, "self"); }
OP("aten::logical_and", {.tolerance = Tolerance::kExact}) {
  return Truth(x, "self") & Truth(x, "other");
}
OP("aten::logical_or", {.tolerance = Tolerance::kExact}) {
  return Truth(x, "self") | Truth(x, "other");
}
OP("aten::logical_xor", {.tolerance = Tolerance::kExact}) {
  return Truth(x, "self") ^ Truth(x, "other");
}

OP("aten::bitwise_not", {.tolerance = Tolerance::kExact}) { return ~x.arg("self"); }
OPS(({"aten::bitwise_and.Tensor", "aten::bitwise_and.Scalar", "aten::bitwise_and.Scalar_Tensor"}),
    {.tolerance = Tolerance::kExact}) {
  return x.arg("self") & x.arg("other");
}
OPS(({"aten::bitwise_or.Tensor", "aten::bitwise_or.Scalar", "aten::bitwise_or.Scalar_Tensor"}),
    {.tolerance = Tolerance::kExact}) {
  return x.arg("self") | x.arg("other");
}
OPS(({"aten::bitwise_xor.Tensor", "aten::bitwise_xor.Scalar", "aten::bitwise_xor.Scalar_Tensor"}),
    {.tolerance = Tolerance::kExact}) {
  return x.arg("self") ^ x.arg("other");
}
OPS(({"aten::bitwise_left_shift.Tensor", "aten::bitwise_left_shift.Tensor_Scalar",
      "aten::bitwise_left_shift.Scalar_Tensor", "aten::__lshift__.Tensor",
      "aten::__lshift__.Scalar"}),
    {.tolerance = Tolerance::kExact}) {
  return Shift(x, "stablehlo.shift_left");
}
OPS(({"aten::bitwise_right_shift.Tensor", "aten::bitwise_right_shift.Tensor_Scalar",
      "aten::bitwise_right_shift.Scalar_Tensor", "aten::__rshift__.Tensor",
      "aten::__rshift__.Scalar"}),
    {.tolerance = Tolerance::kExact}) {
  const bool is_signed = hlo::IsSigned(x.result().dtype);
  return Shift(x, is_signed ? "stablehlo.shift_right_arithmetic" : "stablehlo.shift_right_logical");
}

OP("aten::where.self", {.tolerance = Tolerance::kExact}) {
  return Select(Truth(x, "condition"), Branch(x, "self"), Branch(x, "other"));
}
OPS(({"aten::masked_fill.Scalar", "aten::masked_fill.Tensor"}), {.tolerance = Tolerance::kExact}) {
  return Select(Truth(x, "mask"), Branch(x, "value"), Branch(x, "self"));
}

}  // namespace torch_tpu::ops
