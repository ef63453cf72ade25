// SPDX-License-Identifier: Apache-2.0
// Reductions, windows and sort. Their bodies see only their arguments and constants.
#include <algorithm>

#include "csrc/hlo/builder_impl.h"

namespace torch_tpu::hlo {
namespace {

Body BinaryBody(std::string_view op) {
  return [op](const Values& v) { return Values{v[0].builder().Binary(op, v[0], v[1])}; };
}

// Operands share their dims; each init is a rank-0 value of its operand's type.
std::vector<Shape> CheckOperands(std::string_view op, const Values& xs, const Values& inits) {
  if (xs.empty()) Fail(op, "expected at least one operand, got none");
  CheckRank(op, "the init values", inits.size(), static_cast<int64_t>(xs.size()));
  std::vector<Shape> scalars;
  for (size_t i = 0; i < xs.size(); ++i) {
    const Shape scalar{xs[i].dtype(), {}};
    if (xs[i].dims() != xs[0].dims()) {
      Fail(op, "expected operands of equal dims, got ", xs[0].shape().ToString(), " and ",
           xs[i].shape().ToString());
    }
    if (inits[i].shape() != scalar) {
      Fail(op, "expected an init value of type ", scalar.ToString(), ", got ",
           inits[i].shape().ToString());
    }
    scalars.push_back(scalar);
  }
  return scalars;
}

std::vector<Shape> Twice(const std::vector<Shape>& shapes) {
  std::vector<Shape> out = shapes;
  out.insert(out.end(), shapes.begin(), shapes.end());
  return out;
}

Values Joined(const Values& a, const Values& b) {
  Values out = a;
  out.insert(out.end(), b.begin(), b.end());
  return out;
}

Window Complete(std::string_view op, const Window& w, int rank) {
  CheckRank(op, "the window sizes", w.sizes.size(), rank);
  return {w.sizes,
          OrDefault(op, "the window strides", w.strides, rank, 1),
          OrDefault(op, "the base dilations", w.base_dilations, rank, 1),
          OrDefault(op, "the window dilations", w.window_dilations, rank, 1),
          OrDefault(op, "the low padding", w.pad_low, rank, 0),
          OrDefault(op, "the high padding", w.pad_high, rank, 0)};
}

}  // namespace

Dims WindowedDims(std::string_view op, const Dims& in, const Window& w) {
  Dims out;
  for (size_t i = 0; i < in.size(); ++i) {
    if (w.sizes[i] < 1 || w.strides[i] < 1 || w.base_dilations[i] < 1 ||
        w.window_dilations[i] < 1) {
      Fail(op, "expected window sizes, strides and dilations of 1 or more, got sizes ",
           ToString(w.sizes), ", strides ", ToString(w.strides), ", dilations ",
           ToString(w.base_dilations), " and ", ToString(w.window_dilations));
    }
    const int64_t base = in[i] == 0 ? 0 : (in[i] - 1) * w.base_dilations[i] + 1;
    const int64_t padded = base + w.pad_low[i] + w.pad_high[i];
    const int64_t window = (w.sizes[i] - 1) * w.window_dilations[i] + 1;
    out.push_back(padded < window ? 0 : (padded - window) / w.strides[i] + 1);
  }
  return out;
}

Value Builder::Reduce(std::string_view op, Value x, Value init, const Dims& dims) {
  return Reduce(Values{x}, Values{init}, dims, BinaryBody(op))[0];
}

Values Builder::Reduce(const Values& xs, const Values& inits, const Dims& dims, const Body& body) {
  constexpr std::string_view op = "stablehlo.reduce";
  const std::vector<Shape> scalars = CheckOperands(op, xs, inits);
  CheckPositions(op, "the dims", dims, xs[0].rank());
  Dims sorted = dims;
  std::sort(sorted.begin(), sorted.end());
  const std::string region = impl_->Combiner(op, Twice(scalars), scalars, body);
  std::vector<Shape> out;
  for (const Value& x : xs) out.push_back({x.dtype(), Without(x.dims(), sorted)});
  return impl_->EmitAll(op, Joined(xs, inits), "dimensions = " + I64Array(sorted), out, {region});
}

Value Builder::ReduceWindow(std::string_view op, Value x, Value init, const Window& window) {
  return ReduceWindow(Values{x}, Values{init}, window, BinaryBody(op))[0];
}

Values Builder::ReduceWindow(const Values& xs, const Values& inits, const Window& window,
                             const Body& body) {
  constexpr std::string_view op = "stablehlo.reduce_window";
  const std::vector<Shape> scalars = CheckOperands(op, xs, inits);
  const Window w = Complete(op, window, xs[0].rank());
  const Dims dims = WindowedDims(op, xs[0].dims(), w);
  const std::string region = impl_->Combiner(op, Twice(scalars), scalars, body);
  std::vector<Shape> out;
  for (const Value& x : xs) out.push_back({x.dtype(), dims});
  const std::string attributes = "window_dimensions = " + I64Array(w.sizes) +
                                 ", window_strides = " + I64Array(w.strides) +
                                 ", base_dilations = " + I64Array(w.base_dilations) +
                                 ", window_dilations = " + I64Array(w.window_dilations) +
                                 ", padding = " + Pairs(w.pad_low, w.pad_high);
  return impl_->EmitAll(op, Joined(xs, inits), attributes, out, {region});
}

Value Builder::SelectAndScatter(Value operand, Value source, Value init, const Window& window,
                                Direction select, std::string_view scatter_op) {
  constexpr std::string_view op = "stablehlo.select_and_scatter";
  const std::vector<Shape> scalars = CheckOperands(op, {operand}, {init});
  const Window w = Complete(op, window, operand.rank());
  const Dims ones(operand.rank(), 1);
  if (w.base_dilations != ones || w.window_dilations != ones) {
    Fail(op, "expected no dilation, got ", ToString(w.base_dilations), " and ",
         ToString(w.window_dilations));
  }
  const Shape expected{operand.dtype(), WindowedDims(op, operand.dims(), w)};
  if (impl_->shape(op, source) != expected) {
    Fail(op, "expected a source of type ", expected.ToString(), ", got ",
         source.shape().ToString());
  }
  const Body choose = [select](const Values& v) {
    return Values{v[0].builder().Compare(v[0], v[1], select)};
  };
  const std::vector<Shape> two = Twice(scalars);
  const std::string select_region = impl_->Combiner(op, two, {{DType::kPred, {}}}, choose);
  const std::string scatter_region = impl_->Combiner(op, two, scalars, BinaryBody(scatter_op));
  const std::string attributes = "window_dimensions = " + I64Array(w.sizes) +
                                 ", window_strides = " + I64Array(w.strides) +
                                 ", padding = " + Pairs(w.pad_low, w.pad_high);
  return impl_->EmitAll(op, {operand, source, init}, attributes, {operand.shape()},
                        {select_region, scatter_region})[0];
}

Values Builder::Sort(const Values& xs, int dim, bool stable, const Body& less) {
  constexpr std::string_view op = "stablehlo.sort";
  if (xs.empty()) Fail(op, "expected at least one operand, got none");
  std::vector<Shape> out, arguments;
  for (const Value& x : xs) {
    out.push_back(impl_->shape(op, x));
    if (x.dims() != xs[0].dims()) {
      Fail(op, "expected operands of equal dims, got ", xs[0].shape().ToString(), " and ",
           x.shape().ToString());
    }
    arguments.insert(arguments.end(), 2, Shape{x.dtype(), {}});
  }
  if (dim < 0) dim += xs[0].rank();
  CheckPositions(op, "the dim", {dim}, xs[0].rank());
  const std::string region = impl_->Combiner(op, arguments, {{DType::kPred, {}}}, less);
  return impl_->EmitAll(op, xs,
                        I64Attr("dimension", dim) + ", is_stable = " + (stable ? "true" : "false"),
                        out, {region});
}

}  // namespace torch_tpu::hlo
