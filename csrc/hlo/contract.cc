// SPDX-License-Identifier: Apache-2.0
// Dots and convolutions, in the one form that every plugin runs well: batch dims leading, explicit
// transposes, and f32 results for half precision (CPU plugins refuse or crawl on other forms).
#include <algorithm>

#include "csrc/hlo/builder_impl.h"

namespace torch_tpu::hlo {
namespace {

Dims Rest(int rank, const Dims& a, const Dims& b) {
  Dims out;
  for (int i = 0; i < rank; ++i) {
    if (!Contains(a, i) && !Contains(b, i)) out.push_back(i);
  }
  return out;
}

Dims Joined(const Dims& a, const Dims& b, const Dims& c) {
  Dims out = a;
  out.insert(out.end(), b.begin(), b.end());
  out.insert(out.end(), c.begin(), c.end());
  return out;
}

Dims Count(int64_t from, size_t n) {
  Dims out;
  for (size_t i = 0; i < n; ++i) out.push_back(from + static_cast<int64_t>(i));
  return out;
}

Dims Sizes(const Dims& dims, const Dims& positions) {
  Dims out;
  for (int64_t p : positions) out.push_back(dims[p]);
  return out;
}

// The types of one contraction: operands are converted to `operand`, the op gives `accumulator`.
struct Types {
  DType operand, accumulator;
};

Types TypesFor(DType in) {
  switch (in) {
    case DType::kF16:
    case DType::kBF16: return {in, DType::kF32};
    // Every float8 value is a bf16 value.
    case DType::kF8E4M3FN:
    case DType::kF8E5M2: return {DType::kBF16, DType::kF32};
    case DType::kPred:
    case DType::kU8:
    case DType::kS8:
    case DType::kS16: return {DType::kS32, DType::kS32};
    case DType::kU16: return {DType::kU32, DType::kU32};
    default: return {in, in};
  }
}

std::string ConvLayout(const Dims& positions, int spatial, char batch, char feature) {
  std::vector<std::string> names(spatial + 2);
  names[positions[0]] = batch;
  names[positions[1]] = feature;
  for (int i = 0; i < spatial; ++i) names[positions[2 + i]] = std::to_string(i);
  std::string out = "[";
  for (size_t i = 0; i < names.size(); ++i) out += (i ? ", " : "") + names[i];
  return out + "]";
}

Dims LayoutOrDefault(std::string_view op, std::string_view what, const Dims& positions, int rank) {
  if (positions.empty()) return Count(0, rank);
  CheckRank(op, what, positions.size(), rank);
  CheckPositions(op, what, positions, rank);
  return positions;
}

}  // namespace

void Builder::SetDotPrecision(std::string_view precision) {
  if (precision != "DEFAULT" && precision != "HIGH" && precision != "HIGHEST") {
    Fail("dot precision", "expected DEFAULT, HIGH or HIGHEST, got ", precision);
  }
  impl_->precision = precision;
}

std::string Builder::Impl::PrecisionAttr(DType operands) const {
  if (operands != DType::kF32 && operands != DType::kC64) return "";
  const std::string one = EnumAttr("precision", precision);
  return ", precision_config = [" + one + ", " + one + "]";
}

Value Builder::Dot(Value lhs, Value rhs, const DotDims& d, DType result) {
  constexpr std::string_view op = "stablehlo.dot_general";
  const Shape a = impl_->shape(op, lhs), b = impl_->shape(op, rhs);
  if (a.dtype != b.dtype) {
    Fail(op, "expected equal element types, got ", a.ToString(), " and ", b.ToString(),
         ". Try: Convert one side");
  }
  CheckPositions(op, "the lhs dims", Joined(d.lhs_batch, d.lhs_contract, {}), a.rank());
  CheckPositions(op, "the rhs dims", Joined(d.rhs_batch, d.rhs_contract, {}), b.rank());
  CheckRank(op, "rhs_batch", d.rhs_batch.size(), static_cast<int64_t>(d.lhs_batch.size()));
  CheckRank(op, "rhs_contract", d.rhs_contract.size(), static_cast<int64_t>(d.lhs_contract.size()));
  auto same = [&](const Dims& l, const Dims& r) {
    for (size_t i = 0; i < l.size(); ++i) {
      if (a.dims[l[i]] != b.dims[r[i]]) return false;
    }
    return true;
  };
  if (!same(d.lhs_batch, d.rhs_batch) || !same(d.lhs_contract, d.rhs_contract)) {
    Fail(op, "expected equal batch and contracted sizes, got ", a.ToString(), " (batch ",
         ToString(d.lhs_batch), ", contract ", ToString(d.lhs_contract), ") and ", b.ToString(),
         " (batch ", ToString(d.rhs_batch), ", contract ", ToString(d.rhs_contract), ")");
  }

  const Dims lhs_free = Rest(a.rank(), d.lhs_batch, d.lhs_contract);
  const Dims rhs_free = Rest(b.rank(), d.rhs_batch, d.rhs_contract);
  const Types types = TypesFor(a.dtype);
  lhs = Convert(Transpose(lhs, Joined(d.lhs_batch, lhs_free, d.lhs_contract)), types.operand);
  rhs = Convert(Transpose(rhs, Joined(d.rhs_batch, d.rhs_contract, rhs_free)), types.operand);

  const size_t batch = d.lhs_batch.size(), contract = d.lhs_contract.size();
  Shape out{types.accumulator, {}};
  for (int64_t i : d.lhs_batch) out.dims.push_back(a.dims[i]);
  for (int64_t i : lhs_free) out.dims.push_back(a.dims[i]);
  for (int64_t i : rhs_free) out.dims.push_back(b.dims[i]);
  const std::string attributes = StrCat(
      "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = ",
      ToString(Count(0, batch)), ", rhs_batching_dimensions = ", ToString(Count(0, batch)),
      ", lhs_contracting_dimensions = ",
      ToString(Count(static_cast<int64_t>(batch + lhs_free.size()), contract)),
      ", rhs_contracting_dimensions = ", ToString(Count(static_cast<int64_t>(batch), contract)),
      ">", impl_->PrecisionAttr(types.operand));
  // TPUs have no 64-bit integer dots. XLA fuses this form into one loop.
  if (types.operand == DType::kS64 || types.operand == DType::kU64) {
    const size_t free = lhs_free.size();
    const Dims all = Joined(lhs.dims(), {}, Sizes(b.dims, rhs_free));
    const Dims summed = Count(static_cast<int64_t>(batch + free), contract);
    const Dims rhs_at = Joined(Count(0, batch), summed, Count(lhs.rank(), rhs_free.size()));
    const Value product =
        BroadcastInDim(lhs, all, Count(0, lhs.dims().size())) * BroadcastInDim(rhs, all, rhs_at);
    return Convert(Sum(product, summed), result == DType::kInvalid ? a.dtype : result);
  }
  const Value dot = impl_->Emit(op, {lhs, rhs}, attributes, out);
  return Convert(dot, result == DType::kInvalid ? a.dtype : result);
}

Value Builder::Convolution(Value input, Value kernel, const ConvDims& d, DType result) {
  constexpr std::string_view op = "stablehlo.convolution";
  const Shape in = impl_->shape(op, input), ker = impl_->shape(op, kernel);
  if (in.dtype != ker.dtype || in.rank() != ker.rank() || in.rank() < 2) {
    Fail(op, "expected input and kernel of equal type and rank of 2 or more, got ", in.ToString(),
         " and ", ker.ToString());
  }
  const int rank = in.rank(), spatial = rank - 2;
  const Dims at_in = LayoutOrDefault(op, "the input's dims", d.input, rank);
  const Dims at_ker = LayoutOrDefault(op, "the kernel's dims", d.kernel, rank);
  const Dims at_out = LayoutOrDefault(op, "the output's dims", d.output, rank);
  const Window w = {[&] {
                      Dims sizes;
                      for (int i = 0; i < spatial; ++i) sizes.push_back(ker.dims[at_ker[2 + i]]);
                      return sizes;
                    }(),
                    OrDefault(op, "the strides", d.strides, spatial, 1),
                    OrDefault(op, "the lhs dilation", d.lhs_dilation, spatial, 1),
                    OrDefault(op, "the rhs dilation", d.rhs_dilation, spatial, 1),
                    OrDefault(op, "the low padding", d.pad_low, spatial, 0),
                    OrDefault(op, "the high padding", d.pad_high, spatial, 0)};
  const int64_t batch = in.dims[at_in[0]], features = in.dims[at_in[1]];
  const int64_t out_features = ker.dims[at_ker[0]], ker_features = ker.dims[at_ker[1]];
  const int64_t groups = d.feature_groups, batches = d.batch_groups;
  if (groups < 1 || batches < 1 || (groups > 1 && batches > 1) ||
      features != ker_features * groups || out_features % groups != 0 || batch % batches != 0 ||
      out_features % batches != 0) {
    Fail(op, "expected features that divide into the groups, got ", in.ToString(), " and kernel ",
         ker.ToString(), " with ", groups, " feature groups and ", batches, " batch groups");
  }
  Dims in_spatial;
  for (int i = 0; i < spatial; ++i) in_spatial.push_back(in.dims[at_in[2 + i]]);
  const Dims out_spatial = WindowedDims(op, in_spatial, w);

  const Types types = TypesFor(in.dtype);
  Shape out{types.accumulator, Dims(rank)};
  out.dims[at_out[0]] = batch / batches;
  out.dims[at_out[1]] = out_features;
  for (int i = 0; i < spatial; ++i) out.dims[at_out[2 + i]] = out_spatial[i];

  std::string reversal = "array<i1";
  if (!d.reversed.empty()) CheckRank(op, "the reversal", d.reversed.size(), spatial);
  for (int i = 0; i < spatial; ++i) {
    reversal += i ? ", " : ": ";
    reversal += !d.reversed.empty() && d.reversed[i] ? "true" : "false";
  }
  const std::string attributes =
      "dimension_numbers = #stablehlo.conv<" + ConvLayout(at_in, spatial, 'b', 'f') + "x" +
      ConvLayout(at_ker, spatial, 'o', 'i') + "->" + ConvLayout(at_out, spatial, 'b', 'f') +
      ">, window_strides = " + I64Array(w.strides) + ", padding = " + Pairs(w.pad_low, w.pad_high) +
      ", lhs_dilation = " + I64Array(w.base_dilations) +
      ", rhs_dilation = " + I64Array(w.window_dilations) + ", window_reversal = " + reversal +
      ">, " + I64Attr("feature_group_count", groups) + ", " +
      I64Attr("batch_group_count", batches) + impl_->PrecisionAttr(types.operand);
  const Value conv = impl_->Emit(
      op, {Convert(input, types.operand), Convert(kernel, types.operand)}, attributes, out);
  return Convert(conv, result == DType::kInvalid ? in.dtype : result);
}

}  // namespace torch_tpu::hlo
