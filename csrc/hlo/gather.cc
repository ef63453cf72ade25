// SPDX-License-Identifier: Apache-2.0
// Gather and scatter.
#include <algorithm>

#include "csrc/hlo/builder_impl.h"

namespace torch_tpu::hlo {
namespace {

// Sizes of the indices' dims, without the one that holds an index vector.
Dims BatchDims(const Shape& indices, int64_t index_vector_dim) {
  Dims out = indices.dims;
  if (index_vector_dim < indices.rank()) out.erase(out.begin() + index_vector_dim);
  return out;
}

void CheckIndices(std::string_view op, const Shape& operand, const Shape& indices,
                  int64_t index_vector_dim, const Dims& map, const Dims& operand_batching,
                  const Dims& indices_batching) {
  CheckIntegers(op, "indices", indices.dtype);
  if (index_vector_dim < 0 || index_vector_dim > indices.rank()) {
    Fail(op, "expected index_vector_dim in [0, ", indices.rank(), "], got ", index_vector_dim);
  }
  const int64_t width = index_vector_dim == indices.rank() ? 1 : indices.dims[index_vector_dim];
  if (width != static_cast<int64_t>(map.size())) {
    Fail(op, "expected index vectors of ", map.size(), " entries, got ", width, " in ",
         indices.ToString());
  }
  CheckPositions(op, "the index map", map, operand.rank());
  CheckPositions(op, "the operand's batching dims", operand_batching, operand.rank());
  CheckPositions(op, "the indices' batching dims", indices_batching, indices.rank());
  CheckRank(op, "the indices' batching dims", indices_batching.size(),
            static_cast<int64_t>(operand_batching.size()));
  for (size_t i = 0; i < operand_batching.size(); ++i) {
    if (operand.dims[operand_batching[i]] != indices.dims[indices_batching[i]]) {
      Fail(op, "expected equal batching dims, got ", operand.ToString(), " at ",
           ToString(operand_batching), " and ", indices.ToString(), " at ",
           ToString(indices_batching));
    }
  }
}

// Result dims: window sizes at `window_positions`, batch sizes elsewhere, each in order.
Dims Interleave(std::string_view op, const Dims& batch, const Dims& window,
                const Dims& window_positions) {
  const auto rank = static_cast<int64_t>(batch.size() + window.size());
  CheckRank(op, "the window dims", window_positions.size(), static_cast<int64_t>(window.size()));
  CheckPositions(op, "the window dims", window_positions, rank);
  if (!std::is_sorted(window_positions.begin(), window_positions.end())) {
    Fail(op, "expected sorted window dims, got ", ToString(window_positions));
  }
  Dims out;
  size_t b = 0, w = 0;
  for (int64_t i = 0; i < rank; ++i) {
    out.push_back(Contains(window_positions, i) ? window[w++] : batch[b++]);
  }
  return out;
}

Dims Joined(const Dims& a, const Dims& b) {
  Dims out = a;
  out.insert(out.end(), b.begin(), b.end());
  return out;
}

std::string_view BoolName(bool b) { return b ? "true" : "false"; }

}  // namespace

Value Builder::Gather(Value operand, Value indices, const GatherDims& d) {
  constexpr std::string_view op = "stablehlo.gather";
  const Shape &in = impl_->shape(op, operand), &at = impl_->shape(op, indices);
  CheckIndices(op, in, at, d.index_vector_dim, d.start_index_map, d.operand_batching_dims,
               d.start_indices_batching_dims);
  CheckRank(op, "slice_sizes", d.slice_sizes.size(), in.rank());
  const Dims dropped = Joined(d.collapsed_slice_dims, d.operand_batching_dims);
  CheckPositions(op, "collapsed and batching dims", dropped, in.rank());
  for (int i = 0; i < in.rank(); ++i) {
    const int64_t most = Contains(dropped, i) ? std::min<int64_t>(1, in.dims[i]) : in.dims[i];
    if (d.slice_sizes[i] < 0 || d.slice_sizes[i] > most) {
      Fail(op, "expected slice sizes within ", in.ToString(), " and 1 in collapsed dims, got ",
           ToString(d.slice_sizes));
    }
  }
  const Dims out = Interleave(op, BatchDims(at, d.index_vector_dim),
                              Without(d.slice_sizes, dropped), d.offset_dims);
  const std::string attributes = StrCat(
      "dimension_numbers = #stablehlo.gather<offset_dims = ", ToString(d.offset_dims),
      ", collapsed_slice_dims = ", ToString(d.collapsed_slice_dims),
      ", operand_batching_dims = ", ToString(d.operand_batching_dims),
      ", start_indices_batching_dims = ", ToString(d.start_indices_batching_dims),
      ", start_index_map = ", ToString(d.start_index_map),
      ", index_vector_dim = ", d.index_vector_dim, ">, slice_sizes = ", I64Array(d.slice_sizes),
      ", indices_are_sorted = ", BoolName(d.indices_are_sorted));
  return impl_->Emit(op, {operand, indices}, attributes, {in.dtype, out});
}

Value Builder::Scatter(Value operand, Value indices, Value updates, const ScatterDims& d,
                       const Body& combiner) {
  constexpr std::string_view op = "stablehlo.scatter";
  const Shape &in = impl_->shape(op, operand), &at = impl_->shape(op, indices),
              &up = impl_->shape(op, updates);
  CheckIndices(op, in, at, d.index_vector_dim, d.scatter_dims_to_operand_dims,
               d.input_batching_dims, d.scatter_indices_batching_dims);
  const Dims dropped = Joined(d.inserted_window_dims, d.input_batching_dims);
  CheckPositions(op, "inserted and batching dims", dropped, in.rank());
  if (up.dtype != in.dtype) {
    Fail(op, "expected updates of type ", Name(in.dtype), ", got ", up.ToString());
  }
  Dims window;
  for (int64_t i : d.update_window_dims) {
    CheckPositions(op, "update_window_dims", {i}, up.rank());
    window.push_back(up.dims[i]);
  }
  const Dims room = Without(in.dims, dropped);
  bool fits = room.size() == window.size();
  for (size_t i = 0; fits && i < room.size(); ++i) fits = window[i] <= room[i];
  if (!fits ||
      Interleave(op, BatchDims(at, d.index_vector_dim), window, d.update_window_dims) != up.dims) {
    Fail(op, "expected updates of the indices' batch dims and windows that fit into ",
         in.ToString(), ", got ", up.ToString(), " for indices ", at.ToString());
  }
  const Body overwrite = [](const Values& v) { return Values{v[1]}; };
  const Shape scalar{in.dtype, {}};
  const std::string region =
      impl_->Combiner(op, {scalar, scalar}, {scalar}, combiner ? combiner : overwrite);
  const std::string attributes = StrCat(
      "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = ",
      ToString(d.update_window_dims), ", inserted_window_dims = ", ToString(d.inserted_window_dims),
      ", input_batching_dims = ", ToString(d.input_batching_dims),
      ", scatter_indices_batching_dims = ", ToString(d.scatter_indices_batching_dims),
      ", scatter_dims_to_operand_dims = ", ToString(d.scatter_dims_to_operand_dims),
      ", index_vector_dim = ", d.index_vector_dim,
      ">, indices_are_sorted = ", BoolName(d.indices_are_sorted),
      ", unique_indices = ", BoolName(d.unique_indices));
  return impl_->EmitAll(op, {operand, indices, updates}, attributes, {in}, {region})[0];
}

}  // namespace torch_tpu::hlo
