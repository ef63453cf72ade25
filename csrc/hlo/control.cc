// SPDX-License-Identifier: Apache-2.0
// Control flow, linear algebra and the ops that fit nowhere else. Bodies of while, if and case may
// use values from outside; XLA lifts them.
#include "csrc/hlo/builder_impl.h"

namespace torch_tpu::hlo {
namespace {

std::vector<Shape> ShapesOf(const Values& values) {
  std::vector<Shape> out;
  for (const Value& v : values) out.push_back(v.shape());
  return out;
}

std::string Describe(const std::vector<Shape>& shapes) {
  std::string out = "(";
  for (size_t i = 0; i < shapes.size(); ++i) out += (i ? ", " : "") + shapes[i].ToString();
  return out + ")";
}

void CheckMatrices(std::string_view op, const Shape& s) {
  const int r = s.rank();
  if (r < 2 || s.dims[r - 1] != s.dims[r - 2] || !(IsFloat(s.dtype) || IsComplex(s.dtype))) {
    Fail(op, "expected square float or complex matrices, got ", s.ToString());
  }
}

std::string BoolAttr(std::string_view name, bool value) {
  return StrCat(name, " = ", value ? "true" : "false");
}

}  // namespace

Values Builder::While(const Values& init, const Body& condition, const Body& body) {
  constexpr std::string_view op = "stablehlo.while";
  if (init.empty()) Fail(op, "expected at least one loop value, got none");
  const std::vector<Shape> types = ShapesOf(init);
  const auto test = impl_->MakeRegion(op, types, /*isolated=*/false, condition);
  if (test.yielded != std::vector<Shape>{{DType::kPred, {}}}) {
    Fail(op, "expected the condition to yield tensor<i1>, got ", Describe(test.yielded));
  }
  const auto step = impl_->MakeRegion(op, types, /*isolated=*/false, body);
  if (step.yielded != types) {
    Fail(op, "expected the body to yield ", Describe(types), ", got ", Describe(step.yielded));
  }
  return impl_->EmitAll(op, init, "", types, {test.text, step.text});
}

Values Builder::If(Value pred, const std::function<Values()>& on_true,
                   const std::function<Values()>& on_false) {
  constexpr std::string_view op = "stablehlo.if";
  if (impl_->shape(op, pred) != Shape{DType::kPred, {}}) {
    Fail(op, "expected a predicate of type tensor<i1>, got ", pred.shape().ToString());
  }
  const auto yes = impl_->MakeRegion(op, {}, false, [&](const Values&) { return on_true(); });
  const auto no = impl_->MakeRegion(op, {}, false, [&](const Values&) { return on_false(); });
  if (yes.yielded != no.yielded) {
    Fail(op, "expected branches that yield equal types, got ", Describe(yes.yielded), " and ",
         Describe(no.yielded));
  }
  return impl_->EmitAll(op, {pred}, "", yes.yielded, {yes.text, no.text});
}

Values Builder::Case(Value index, const std::vector<std::function<Values()>>& branches) {
  constexpr std::string_view op = "stablehlo.case";
  if (impl_->shape(op, index) != Shape{DType::kS32, {}}) {
    Fail(op, "expected an index of type tensor<i32>, got ", index.shape().ToString());
  }
  if (branches.empty()) Fail(op, "expected at least one branch, got none");
  std::vector<std::string> texts;
  std::vector<Shape> types;
  for (const auto& branch : branches) {
    auto region = impl_->MakeRegion(op, {}, false, [&](const Values&) { return branch(); });
    if (texts.empty()) types = region.yielded;
    if (region.yielded != types) {
      Fail(op, "expected branches that yield equal types, got ", Describe(types), " and ",
           Describe(region.yielded));
    }
    texts.push_back(std::move(region.text));
  }
  return impl_->EmitAll(op, {index}, "", types, texts);
}

Value Builder::Cholesky(Value x, bool lower) {
  constexpr std::string_view op = "stablehlo.cholesky";
  const Shape& in = impl_->shape(op, x);
  CheckMatrices(op, in);
  return impl_->Emit(op, {x}, BoolAttr("lower", lower), in);
}

Value Builder::TriangularSolve(Value a, Value b, bool left_side, bool lower, bool unit_diagonal,
                               std::string_view transpose_a) {
  constexpr std::string_view op = "stablehlo.triangular_solve";
  const Shape &ma = impl_->shape(op, a), &mb = impl_->shape(op, b);
  CheckMatrices(op, ma);
  if (transpose_a != "NO_TRANSPOSE" && transpose_a != "TRANSPOSE" && transpose_a != "ADJOINT") {
    Fail(op, "expected NO_TRANSPOSE, TRANSPOSE or ADJOINT, got ", transpose_a);
  }
  const int r = ma.rank();
  bool fits = ma.dtype == mb.dtype && r == mb.rank();
  for (int i = 0; fits && i < r - 2; ++i) fits = ma.dims[i] == mb.dims[i];
  if (!fits || ma.dims[r - 1] != mb.dims[left_side ? r - 2 : r - 1]) {
    Fail(op, "expected matching systems, got ", ma.ToString(), " and ", mb.ToString());
  }
  return impl_->Emit(op, {a, b},
                     BoolAttr("left_side", left_side) + ", " + BoolAttr("lower", lower) + ", " +
                         BoolAttr("unit_diagonal", unit_diagonal) +
                         ", transpose_a = " + EnumAttr("transpose", transpose_a),
                     mb);
}

Value Builder::Fft(Value x, std::string_view type, const Dims& lengths) {
  constexpr std::string_view op = "stablehlo.fft";
  Shape out = impl_->shape(op, x);
  const int n = static_cast<int>(lengths.size()), first = out.rank() - n;
  if (n < 1 || n > 3 || first < 0) {
    Fail(op, "expected one to three lengths for the last dims, got ", ToString(lengths), " for ",
         out.ToString());
  }
  const bool real_in = type == "RFFT", real_out = type == "IRFFT";
  if (!real_in && !real_out && type != "FFT" && type != "IFFT") {
    Fail(op, "expected FFT, IFFT, RFFT or IRFFT, got ", type);
  }
  if (real_in ? out.dtype != DType::kF32 && out.dtype != DType::kF64 : !IsComplex(out.dtype)) {
    Fail(op, "expected ", real_in ? "f32 or f64" : "complex", " input for ", type, ", got ",
         out.ToString());
  }
  for (int i = 0; i < n; ++i) {
    const bool half = real_out && i == n - 1;
    if (out.dims[first + i] != (half ? lengths[i] / 2 + 1 : lengths[i])) {
      Fail(op, "expected input sizes that match lengths ", ToString(lengths), " of ", type,
           ", got ", out.ToString());
    }
  }
  if (real_in) {
    out.dtype = ComplexOf(out.dtype);
    out.dims.back() = lengths.back() / 2 + 1;
  }
  if (real_out) {
    out.dtype = RealOf(out.dtype);
    out.dims.back() = lengths.back();
  }
  return impl_->Emit(
      op, {x}, "fft_type = " + EnumAttr("fft_type", type) + ", fft_length = " + I64Array(lengths),
      out);
}

Values Builder::OptimizationBarrier(const Values& xs) {
  return impl_->EmitAll("stablehlo.optimization_barrier", xs, "", ShapesOf(xs));
}

Values Builder::CustomCall(std::string_view target, const Values& operands,
                           const std::vector<Shape>& results, std::string_view attributes) {
  std::string all = StrCat("call_target_name = \"", target, "\"");
  if (!attributes.empty()) all += StrCat(", ", attributes);
  return impl_->EmitAll("stablehlo.custom_call", operands, all, results);
}

}  // namespace torch_tpu::hlo
