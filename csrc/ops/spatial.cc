// SPDX-License-Identifier: Apache-2.0
#include "csrc/ops/spatial.h"

#include <algorithm>
#include <cstring>

namespace torch_tpu::ops {
namespace {

Dims Only(int rank, int dim, int64_t value, int64_t rest = 0) {
  Dims dims(rank, rest);
  dims[dim] = value;
  return dims;
}

Value Zero(Value x) { return x.builder().Constant(x.dtype(), 0); }

// indices[i] = first + i * step for all i.
bool IsProgression(const Dims& indices, int64_t step) {
  for (size_t i = 1; i < indices.size(); ++i) {
    if (indices[i] - indices[i - 1] != step) return false;
  }
  return true;
}

// 0 0 0 1 1 1 ... (size - 1): how often each repeats; 0 when the pattern is another.
int64_t Repeats(const Dims& indices, int64_t size) {
  const int64_t count = static_cast<int64_t>(indices.size());
  if (size == 0 || count % size != 0) return 0;
  const int64_t repeat = count / size;
  for (int64_t i = 0; i < count; ++i) {
    if (indices[i] != i / repeat) return 0;
  }
  return repeat;
}

}  // namespace

Dims PerDim(const Dims& given, int n, const Dims& fallback) {
  if (given.empty()) return fallback;
  if (static_cast<int>(given.size()) == n) return given;
  if (given.size() == 1) return Dims(n, given[0]);
  throw hlo::Error("expected 1 or " + std::to_string(n) + " numbers per spatial dimension, got " +
                   hlo::ToString(given));
}

Value Take(Value x, int dim, const Dims& indices) {
  auto& b = x.builder();
  const int64_t count = static_cast<int64_t>(indices.size());
  if (count == 0) return b.SliceDim(x, dim, 0, 0);
  const int64_t step = count > 1 ? indices[1] - indices[0] : 1;
  if (step > 0 && IsProgression(indices, step)) {
    return b.SliceDim(x, dim, indices[0], indices.back() + 1, step);
  }
  if (int64_t repeat = Repeats(indices, x.dim(dim)); repeat > 1) {
    Dims split = x.dims(), merged = x.dims(), from;
    split.insert(split.begin() + dim + 1, repeat);
    merged[dim] = count;
    for (int i = 0; i < x.rank(); ++i) from.push_back(i <= dim ? i : i + 1);
    return b.Reshape(b.BroadcastInDim(x, split, from), merged);
  }
  hlo::GatherDims g;
  for (int i = 0; i < x.rank(); ++i) {
    if (i != dim) g.offset_dims.push_back(i);
  }
  g.collapsed_slice_dims = {dim};
  g.start_index_map = {dim};
  g.index_vector_dim = 1;
  g.slice_sizes = x.dims();
  g.slice_sizes[dim] = 1;
  g.indices_are_sorted = std::is_sorted(indices.begin(), indices.end());
  return b.Gather(
      x, b.Reshape(b.Convert(b.ConstantArray(DType::kS64, indices), DType::kS32), {count, 1}), g);
}

Value AddInto(Value x, int dim, const Dims& indices, int64_t size) {
  auto& b = x.builder();
  Dims dims = x.dims();
  dims[dim] = size;
  const int64_t count = static_cast<int64_t>(indices.size());
  if (count == 0 || size == 0) return b.Constant(x.dtype(), 0, dims);
  const int64_t step = count > 1 ? indices[1] - indices[0] : 1;
  if (step > 0 && IsProgression(indices, step)) return SpreadWindow(x, dim, indices[0], step, size);
  if (int64_t repeat = Repeats(indices, size); repeat > 1) {
    Dims split = x.dims();
    split[dim] = repeat;
    split.insert(split.begin() + dim, size);
    return b.Reduce("stablehlo.add", b.Reshape(x, split), Zero(x), {dim + 1});
  }
  // Targets in a table, one row per target, each row the sources that land there: a gather and a
  // sum. A scatter would be serial on a TPU.
  std::vector<Dims> sources(size);
  size_t most = 1;
  for (int64_t i = 0; i < count; ++i) {
    sources[indices[i]].push_back(i);
    most = std::max(most, sources[indices[i]].size());
  }
  Value padded = b.Pad(x, Zero(x), Dims(x.rank(), 0), Only(x.rank(), dim, 1));
  Value sum;
  for (size_t k = 0; k < most; ++k) {
    Dims take;
    for (const Dims& s : sources) take.push_back(k < s.size() ? s[k] : count);
    Value part = Take(padded, dim, take);
    sum = sum ? sum + part : part;
  }
  return sum;
}

Value ConstantFloats(hlo::Builder& b, DType dtype, const std::vector<double>& values) {
  Dims bits;
  for (double v : values) {
    if (dtype == DType::kF64) {
      int64_t word;
      std::memcpy(&word, &v, sizeof word);
      bits.push_back(word);
    } else {
      const float f = static_cast<float>(v);
      int32_t word;
      std::memcpy(&word, &f, sizeof word);
      bits.push_back(word);
    }
  }
  const DType words = dtype == DType::kF64 ? DType::kS64 : DType::kS32;
  return b.BitcastConvert(b.ConstantArray(words, bits), dtype);
}

Value Along(Value v, const Dims& dims, int dim) {
  return v.builder().BroadcastInDim(v, dims, {dim});
}

Value StridedWindow(Value x, int dim, int64_t start, int64_t stride, int64_t count, Value padding) {
  auto& b = x.builder();
  if (count == 0) return b.SliceDim(x, dim, 0, 0);
  const int64_t last = start + (count - 1) * stride, size = x.dim(dim);
  const int64_t low = std::max<int64_t>(0, -start), high = std::max<int64_t>(0, last + 1 - size);
  if (low > 0 || high > 0) {
    x = b.Pad(x, padding, Only(x.rank(), dim, low), Only(x.rank(), dim, high));
  }
  return b.SliceDim(x, dim, start + low, last + low + 1, stride);
}

Value SpreadWindow(Value x, int dim, int64_t start, int64_t stride, int64_t size) {
  const int64_t count = x.dim(dim);
  const int64_t covered = count == 0 ? 0 : (count - 1) * stride + 1;
  return x.builder().Pad(x, Zero(x), Only(x.rank(), dim, start),
                         Only(x.rank(), dim, size - start - covered),
                         Only(x.rank(), dim, stride - 1));
}

}  // namespace torch_tpu::ops
