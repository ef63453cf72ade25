// SPDX-License-Identifier: Apache-2.0
// Ops that move elements without computing.
#include <algorithm>

#include "csrc/hlo/builder_impl.h"

namespace torch_tpu::hlo {
namespace {

void CheckStarts(std::string_view op, const Values& starts, int rank) {
  CheckRank(op, "the starts", starts.size(), rank);
  for (const Value& s : starts) {
    if (s.rank() != 0 || !IsInteger(s.dtype()) || s.dtype() != starts[0].dtype()) {
      Fail(op, "expected rank-0 integer starts of one type, got ", s.shape().ToString());
    }
  }
}

}  // namespace

Value Builder::Reshape(Value x, const Dims& dims) {
  constexpr std::string_view op = "stablehlo.reshape";
  const Shape out{impl_->shape(op, x).dtype, dims};
  if (x.dims() == dims) return x;
  if (out.numel() != x.numel() ||
      (!dims.empty() && *std::min_element(dims.begin(), dims.end()) < 0)) {
    Fail(op, "expected ", x.numel(), " elements, got ", x.shape().ToString(), " to ",
         ToString(dims));
  }
  return impl_->Emit(op, {x}, "", out);
}

Value Builder::Transpose(Value x, const Dims& permutation) {
  constexpr std::string_view op = "stablehlo.transpose";
  const Shape& in = impl_->shape(op, x);
  CheckRank(op, "the permutation", permutation.size(), in.rank());
  CheckPositions(op, "the permutation", permutation, in.rank());
  if (std::is_sorted(permutation.begin(), permutation.end())) return x;
  Shape out{in.dtype, {}};
  for (int64_t p : permutation) out.dims.push_back(in.dims[p]);
  return impl_->Emit(op, {x}, "permutation = " + I64Array(permutation), out);
}

Value Builder::BroadcastInDim(Value x, const Dims& dims, const Dims& broadcast_dimensions) {
  constexpr std::string_view op = "stablehlo.broadcast_in_dim";
  const Shape& in = impl_->shape(op, x);
  CheckRank(op, "broadcast_dimensions", broadcast_dimensions.size(), in.rank());
  CheckPositions(op, "broadcast_dimensions", broadcast_dimensions,
                 static_cast<int64_t>(dims.size()));
  for (int i = 0; i < in.rank(); ++i) {
    if (in.dims[i] != 1 && in.dims[i] != dims[broadcast_dimensions[i]]) {
      Fail(op, "expected sizes of 1 or equal sizes, got ", in.ToString(), " to ", ToString(dims),
           " at ", ToString(broadcast_dimensions));
    }
  }
  if (const std::string& literal = impl_->nodes[x.id()].literal;
      in.rank() == 0 && !literal.empty()) {
    return impl_->Constant({in.dtype, dims}, std::string(literal));  // a splat is shorter
  }
  if (in.dims == dims && std::is_sorted(broadcast_dimensions.begin(), broadcast_dimensions.end())) {
    return x;
  }
  return impl_->Emit(op, {x}, "broadcast_dimensions = " + I64Array(broadcast_dimensions),
                     {in.dtype, dims});
}

Value Builder::BroadcastTo(Value x, const Dims& dims) {
  const int lead = static_cast<int>(dims.size()) - impl_->shape("broadcast", x).rank();
  if (lead < 0) {
    Fail("broadcast", "expected at most ", dims.size(), " dims, got ", x.shape().ToString(), " to ",
         ToString(dims));
  }
  Dims positions;
  for (int i = 0; i < x.rank(); ++i) positions.push_back(lead + i);
  return BroadcastInDim(x, dims, positions);
}

Value Builder::Slice(Value x, const Dims& start, const Dims& limit, const Dims& strides) {
  constexpr std::string_view op = "stablehlo.slice";
  const Shape& in = impl_->shape(op, x);
  CheckRank(op, "start_indices", start.size(), in.rank());
  CheckRank(op, "limit_indices", limit.size(), in.rank());
  const Dims steps = OrDefault(op, "strides", strides, in.rank(), 1);
  Shape out{in.dtype, {}};
  bool whole = true;
  for (int i = 0; i < in.rank(); ++i) {
    if (start[i] < 0 || start[i] > limit[i] || limit[i] > in.dims[i] || steps[i] < 1) {
      Fail(op, "expected 0 <= start <= limit <= size and strides of 1 or more, got start ",
           ToString(start), ", limit ", ToString(limit), ", strides ", ToString(steps), " of ",
           in.ToString());
    }
    out.dims.push_back((limit[i] - start[i] + steps[i] - 1) / steps[i]);
    whole = whole && out.dims[i] == in.dims[i];
  }
  if (whole) return x;
  return impl_->Emit(op, {x},
                     "start_indices = " + I64Array(start) + ", limit_indices = " + I64Array(limit) +
                         ", strides = " + I64Array(steps),
                     out);
}

Value Builder::SliceDim(Value x, int dim, int64_t start, int64_t limit, int64_t stride) {
  const Shape& in = impl_->shape("stablehlo.slice", x);
  if (dim < 0) dim += in.rank();
  CheckPositions("stablehlo.slice", "the dim", {dim}, in.rank());
  Dims starts(in.rank(), 0), limits = in.dims, strides(in.rank(), 1);
  starts[dim] = start;
  limits[dim] = limit;
  strides[dim] = stride;
  return Slice(x, starts, limits, strides);
}

Value Builder::DynamicSlice(Value x, const Values& starts, const Dims& sizes) {
  constexpr std::string_view op = "stablehlo.dynamic_slice";
  const Shape& in = impl_->shape(op, x);
  CheckStarts(op, starts, in.rank());
  CheckRank(op, "slice_sizes", sizes.size(), in.rank());
  for (int i = 0; i < in.rank(); ++i) {
    if (sizes[i] < 0 || sizes[i] > in.dims[i]) {
      Fail(op, "expected slice sizes within ", in.ToString(), ", got ", ToString(sizes));
    }
  }
  if (in.rank() == 0) return x;
  Values operands = {x};
  operands.insert(operands.end(), starts.begin(), starts.end());
  return impl_->Emit(op, operands, "slice_sizes = " + I64Array(sizes), {in.dtype, sizes});
}

Value Builder::DynamicUpdateSlice(Value x, Value update, const Values& starts) {
  constexpr std::string_view op = "stablehlo.dynamic_update_slice";
  const Shape &in = impl_->shape(op, x), &up = impl_->shape(op, update);
  CheckStarts(op, starts, in.rank());
  bool fits = in.dtype == up.dtype && in.rank() == up.rank();
  for (int i = 0; fits && i < in.rank(); ++i) fits = up.dims[i] <= in.dims[i];
  if (!fits) {
    Fail(op, "expected an update of the operand's type and rank that fits into it, got ",
         up.ToString(), " into ", in.ToString());
  }
  if (in.rank() == 0) return update;
  Values operands = {x, update};
  operands.insert(operands.end(), starts.begin(), starts.end());
  return impl_->Emit(op, operands, "", in);
}

Value Builder::Pad(Value x, Value padding, const Dims& low, const Dims& high,
                   const Dims& interior) {
  constexpr std::string_view op = "stablehlo.pad";
  const Shape& in = impl_->shape(op, x);
  if (impl_->shape(op, padding) != Shape{in.dtype, {}}) {
    Fail(op, "expected a rank-0 padding value of type ", Name(in.dtype), ", got ",
         padding.shape().ToString());
  }
  CheckRank(op, "the low padding", low.size(), in.rank());
  CheckRank(op, "the high padding", high.size(), in.rank());
  const Dims inner = OrDefault(op, "the interior padding", interior, in.rank(), 0);
  Shape out{in.dtype, {}};
  for (int i = 0; i < in.rank(); ++i) {
    const int64_t n = in.dims[i];
    out.dims.push_back(low[i] + high[i] + n + std::max<int64_t>(n - 1, 0) * inner[i]);
    if (inner[i] < 0 || out.dims[i] < 0) {
      Fail(op, "expected no negative interior padding or result size, got low ", ToString(low),
           ", high ", ToString(high), ", interior ", ToString(inner), " of ", in.ToString());
    }
  }
  auto zero = [](const Dims& d) {
    return std::all_of(d.begin(), d.end(), [](int64_t v) { return v == 0; });
  };
  if (zero(low) && zero(high) && zero(inner)) return x;
  return impl_->Emit(op, {x, padding},
                     "edge_padding_low = " + I64Array(low) + ", edge_padding_high = " +
                         I64Array(high) + ", interior_padding = " + I64Array(inner),
                     out);
}

Value Builder::Concatenate(const Values& xs, int dim) {
  constexpr std::string_view op = "stablehlo.concatenate";
  if (xs.empty()) Fail(op, "expected at least one operand, got none");
  Shape out = impl_->shape(op, xs[0]);
  if (dim < 0) dim += out.rank();
  CheckPositions(op, "the dim", {dim}, out.rank());
  for (size_t k = 1; k < xs.size(); ++k) {
    Shape other = impl_->shape(op, xs[k]);
    bool same = other.dtype == out.dtype && other.rank() == out.rank();
    for (int i = 0; same && i < out.rank(); ++i) same = i == dim || other.dims[i] == out.dims[i];
    if (!same) {
      Fail(op, "expected operands that agree except in dim ", dim, ", got ",
           xs[0].shape().ToString(), " and ", other.ToString());
    }
    out.dims[dim] += other.dims[dim];
  }
  if (xs.size() == 1) return xs[0];
  return impl_->Emit(op, xs, I64Attr("dimension", dim), out);
}

Value Builder::Reverse(Value x, const Dims& dims) {
  constexpr std::string_view op = "stablehlo.reverse";
  const Shape& in = impl_->shape(op, x);
  CheckPositions(op, "the dims", dims, in.rank());
  if (dims.empty()) return x;
  return impl_->Emit(op, {x}, "dimensions = " + I64Array(dims), in);
}

}  // namespace torch_tpu::hlo
