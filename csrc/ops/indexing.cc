// SPDX-License-Identifier: Apache-2.0
#include "csrc/ops/indexing.h"

#include <algorithm>
#include <limits>
#include <string>

#include "csrc/ops/scan.h"

namespace torch_tpu::ops {
namespace {

DType IndexType(int64_t bound) {
  return bound <= std::numeric_limits<int32_t>::max() ? DType::kS32 : DType::kS64;
}

Dims Zeros(int rank) { return Dims(rank, 0); }

}  // namespace

Value AtLeast1d(Value x) { return x.rank() == 0 ? Reshape(x, {1}) : x; }

Value Wide(Value x) { return Convert(x, hlo::ComputeType(x.dtype())); }

Value Flat(Value x) { return Reshape(x, {x.numel()}); }

Value IndexValue(Value index, int64_t bound, bool wrap) {
  auto& b = index.builder();
  Value i = b.Convert(index, IndexType(bound));
  if (!wrap || index.dtype() == DType::kU8 || index.dtype() == DType::kPred) return i;
  return b.Select(i < 0.0, i + b.ConstantInt(i.dtype(), bound), i);
}

hlo::Body Combiner(std::string_view reduce) {
  if (reduce.empty()) return nullptr;
  if (reduce == "sum") {
    return [](const Values& v) -> Values {
      return {v[0].dtype() == DType::kPred ? (v[0] | v[1]) : v[0] + v[1]};
    };
  }
  if (reduce == "prod") {
    return [](const Values& v) -> Values {
      return {v[0].dtype() == DType::kPred ? (v[0] & v[1]) : v[0] * v[1]};
    };
  }
  // Not a maximum: inside a scatter the CPU plugin's drops a NaN update.
  if (reduce == "amax") {
    return [](const Values& v) -> Values {
      return {v[0].dtype() == DType::kPred ? (v[0] | v[1])
                                           : Select((v[0] >= v[1]) | IsNan(v[0]), v[0], v[1])};
    };
  }
  if (reduce == "amin") {
    return [](const Values& v) -> Values {
      return {v[0].dtype() == DType::kPred ? (v[0] & v[1])
                                           : Select((v[0] <= v[1]) | IsNan(v[0]), v[0], v[1])};
    };
  }
  throw hlo::Error("expected a reduction among sum, prod, amax, amin; got " + std::string(reduce));
}

Value Neutral(hlo::Builder& b, std::string_view reduce, DType dtype) {
  bool pred = dtype == DType::kPred;
  if (reduce == "sum") return pred ? b.ConstantInt(dtype, 0) : b.Constant(dtype, 0);
  if (reduce == "prod") return pred ? b.ConstantInt(dtype, 1) : b.Constant(dtype, 1);
  if (reduce == "amax") return pred ? b.ConstantInt(dtype, 0) : b.MinValue(dtype);
  if (reduce == "amin") return pred ? b.ConstantInt(dtype, 1) : b.MaxValue(dtype);
  throw hlo::Error("expected a reduction among sum, prod, amax, amin; got " + std::string(reduce));
}

Value TakeRows(Value operand, Value index, int dim) {
  Values indices(dim + 1);
  indices[dim] = index;
  return GatherAdvanced(operand, ResolveIndices(operand, indices));
}

Value ScatterRows(Value operand, Value index, Value updates, int dim, const hlo::Body& combiner) {
  Values indices(dim + 1);
  indices[dim] = index;
  return ScatterAdvanced(operand, ResolveIndices(operand, indices), updates, combiner);
}

Value GatherAlong(Value operand, Value index, int dim) {
  auto& b = operand.builder();
  int rank = operand.rank();
  if (index.numel() == 0 || operand.numel() == 0) {
    return b.Constant(operand.dtype(), 0, index.dims());
  }
  Dims part = index.dims();
  part[dim] = operand.dim(dim);
  hlo::GatherDims d;
  d.slice_sizes = Dims(rank, 1);
  d.collapsed_slice_dims = d.start_index_map = {dim};
  d.index_vector_dim = rank;
  for (int i = 0; i < rank; ++i) {
    if (i == dim) continue;
    d.operand_batching_dims.push_back(i);
    d.start_indices_batching_dims.push_back(i);
  }
  return b.Gather(b.Slice(operand, Zeros(rank), part), index, d);
}

Value ScatterAlong(Value operand, Value index, Value updates, int dim, const hlo::Body& combiner) {
  auto& b = operand.builder();
  int rank = operand.rank();
  if (index.numel() == 0 || operand.numel() == 0) return operand;
  Dims part = index.dims();
  part[dim] = operand.dim(dim);
  bool whole = part == operand.dims();
  hlo::ScatterDims d;
  d.inserted_window_dims = d.scatter_dims_to_operand_dims = {dim};
  d.index_vector_dim = rank;
  for (int i = 0; i < rank; ++i) {
    if (i == dim) continue;
    d.input_batching_dims.push_back(i);
    d.scatter_indices_batching_dims.push_back(i);
  }
  Value region = whole ? operand : b.Slice(operand, Zeros(rank), part);
  Value result = b.Scatter(region, index, b.Slice(updates, Zeros(rank), index.dims()), d, combiner);
  if (whole) return result;
  return b.DynamicUpdateSlice(operand, result, Values(rank, b.ConstantInt(DType::kS32, 0)));
}

AdvancedIndex ResolveIndices(Value operand, const Values& indices) {
  AdvancedIndex plan;
  auto& b = operand.builder();
  size_t rank = 0;
  for (const Value& index : indices) {
    if (index) rank = std::max(rank, index.dims().size());
  }
  plan.broadcast = Dims(rank, 1);
  Values present;
  for (size_t i = 0; i < indices.size(); ++i) {
    if (!indices[i]) continue;
    plan.indexed.push_back(static_cast<int64_t>(i));
    present.push_back(indices[i]);
    const Dims& dims = indices[i].dims();
    for (size_t k = 0; k < dims.size(); ++k) {
      if (dims[k] != 1) plan.broadcast[rank - dims.size() + k] = dims[k];
    }
  }
  for (Value& index : present) index = b.BroadcastTo(index, plan.broadcast);
  if (present.size() == 1) {
    plan.starts = present[0];
  } else {
    DType type = DType::kS32;
    for (Value& index : present) {
      if (index.dtype() == DType::kS64) type = DType::kS64;
    }
    Dims column = plan.broadcast;
    column.push_back(1);
    for (Value& index : present) index = b.Reshape(b.Convert(index, type), column);
    plan.starts = b.Concatenate(present, static_cast<int>(rank));
  }
  // Adjacent indices leave their dims in place; separated ones move them to the front.
  bool adjacent =
      plan.indexed.back() - plan.indexed.front() + 1 == static_cast<int64_t>(plan.indexed.size());
  auto place = [&plan] {
    plan.result.insert(plan.result.end(), plan.broadcast.begin(), plan.broadcast.end());
  };
  if (!adjacent) place();
  for (int i = 0; i < operand.rank(); ++i) {
    if (adjacent && i == plan.indexed.front()) place();
    if (std::count(plan.indexed.begin(), plan.indexed.end(), i)) continue;
    plan.offset.push_back(static_cast<int64_t>(plan.result.size()));
    plan.result.push_back(operand.dim(i));
  }
  return plan;
}

Value GatherAdvanced(Value operand, const AdvancedIndex& plan) {
  auto& b = operand.builder();
  int64_t numel = hlo::Shape{operand.dtype(), plan.result}.numel();
  if (numel == 0 || operand.numel() == 0) return b.Constant(operand.dtype(), 0, plan.result);
  hlo::GatherDims d;
  d.offset_dims = plan.offset;
  d.collapsed_slice_dims = d.start_index_map = plan.indexed;
  d.index_vector_dim = static_cast<int64_t>(plan.broadcast.size());
  d.slice_sizes = operand.dims();
  for (int64_t i : plan.indexed) d.slice_sizes[i] = 1;
  return b.Gather(operand, plan.starts, d);
}

Value ScatterAdvanced(Value operand, const AdvancedIndex& plan, Value updates,
                      const hlo::Body& combiner) {
  auto& b = operand.builder();
  if (updates.numel() == 0 || operand.numel() == 0) return operand;
  hlo::ScatterDims d;
  d.update_window_dims = plan.offset;
  d.inserted_window_dims = d.scatter_dims_to_operand_dims = plan.indexed;
  d.index_vector_dim = static_cast<int64_t>(plan.broadcast.size());
  return b.Scatter(operand, plan.starts, updates, d, combiner);
}

Slicing ResolveSlice(int64_t size, int64_t start, int64_t end, int64_t step) {
  if (start < 0) start += size;
  if (end < 0) end += size;
  start = std::clamp<int64_t>(start, 0, size);
  end = std::clamp<int64_t>(end, start, size);
  return {start, end, step, (end - start + step - 1) / step};
}

View ContiguousView(const Shape& base) {
  View view;
  view.base = base;
  view.dtype = base.dtype;
  view.sizes = base.dims;
  view.strides = Dims(base.rank(), 1);
  for (int i = base.rank() - 2; i >= 0; --i) {
    view.strides[i] = view.strides[i + 1] * std::max<int64_t>(base.dims[i + 1], 1);
  }
  return view;
}

// A mask and a select: no scatter, and it fuses.
Value WriteDiagonal(Value self, Value diagonal, int64_t offset, int dim1, int dim2) {
  if (diagonal.numel() == 0) return self;
  auto& b = self.builder();
  int rank = self.rank();
  Dims permutation, inverse(rank);
  for (int i = 0; i < rank; ++i) {
    if (i != dim1 && i != dim2) permutation.push_back(i);
  }
  permutation.push_back(dim1);
  permutation.push_back(dim2);
  for (int i = 0; i < rank; ++i) inverse[permutation[i]] = i;
  Value matrix = b.Transpose(self, permutation);
  int64_t rows = matrix.dim(-2), cols = matrix.dim(-1), length = diagonal.dim(-1);
  int64_t first = std::max<int64_t>(-offset, 0);
  Dims low(rank - 1, 0), high(rank - 1, 0), dims;
  low.back() = first;
  high.back() = rows - first - length;
  Value column = b.Pad(diagonal, b.Constant(diagonal.dtype(), 0), low, high);
  for (int i = 0; i < rank - 1; ++i) dims.push_back(i);
  Value hit = Eq(b.Iota(DType::kS32, {rows, cols}, 1) - b.Iota(DType::kS32, {rows, cols}, 0),
                 static_cast<double>(offset));
  Value out = b.Select(b.BroadcastInDim(hit, matrix.dims(), {rank - 2, rank - 1}),
                       b.BroadcastInDim(column, matrix.dims(), dims), matrix);
  return b.Transpose(out, inverse);
}

Value CountScan(Value flags) { return CumulativeSum(Convert(flags, DType::kS32), 0); }

Value TruePositions(Value flags, Value scan) {
  auto& b = flags.builder();
  int64_t n = flags.dim(0);
  if (n == 0) return b.Convert(flags, DType::kS32);
  // Every element has a slot of its own: the true ones in front, the others dropped.
  Value slots = b.Select(flags, scan - 1.0, b.ConstantInt(DType::kS32, n, {n}));
  hlo::ScatterDims d;
  d.inserted_window_dims = d.scatter_dims_to_operand_dims = {0};
  d.index_vector_dim = 1;
  return b.Scatter(b.ConstantInt(DType::kS32, n, {n}), slots, b.Iota(DType::kS32, {n}, 0), d);
}

Value LowerBound(Value sorted, Value queries) {
  auto& b = sorted.builder();
  int64_t n = sorted.dim(0), m = queries.dim(0);
  Value low = b.ConstantInt(DType::kS32, 0, {m});
  if (n == 0 || m == 0) return low;
  int64_t step = 1;
  while (step * 2 <= n) step *= 2;
  for (; step > 0; step /= 2) {
    Value next = low + b.ConstantInt(DType::kS32, step);
    Value probe = TakeRows(sorted, Min(next, b.ConstantInt(DType::kS32, n, {m})) - 1.0, 0);
    Value below = TotalLess(probe, queries) & (next <= static_cast<double>(n));
    low = b.Select(below, next, low);
  }
  return low;
}

Value TotalLess(Value a, Value b) {
  if (!hlo::IsFloat(a.dtype())) return a < b;
  return (a < b) | (~IsNan(a) & IsNan(b));
}

}  // namespace torch_tpu::ops
