// SPDX-License-Identifier: Apache-2.0
// Padding with a constant, a mirror or the edge. torch lists pads from the last dimension
// backwards.
#include <algorithm>

#include "csrc/ops/op.h"
#include "csrc/ops/spatial.h"

namespace torch_tpu::ops {
namespace {

// The input position that each padded position along one dimension shows.
using Source = int64_t (*)(int64_t position, int64_t size);

int64_t Mirror(int64_t position, int64_t size) {
  if (position < 0) position = -position;
  return position < size ? position : 2 * (size - 1) - position;
}

int64_t Edge(int64_t position, int64_t size) { return std::clamp<int64_t>(position, 0, size - 1); }

struct PaddedDim {
  int dim;
  int64_t size;  // before padding
  Dims sources;
};

std::vector<PaddedDim> PaddedDims(Lowering& x, const Dims& input, Source source) {
  const Dims padding = x.ints("padding");
  std::vector<PaddedDim> out;
  for (size_t i = 0; i < padding.size() / 2; ++i) {
    PaddedDim p{.dim = static_cast<int>(input.size() - 1 - i)};
    p.size = input[p.dim];
    for (int64_t at = -padding[2 * i]; at < p.size + padding[2 * i + 1]; ++at) {
      p.sources.push_back(source(at, p.size));
    }
    out.push_back(p);
  }
  return out;
}

// Runs of consecutive positions become slices, kept or reversed; the rest are repeats of one.
Value Rearrange(Value v, const PaddedDim& p) {
  auto& b = v.builder();
  Values parts;
  const Dims& s = p.sources;
  for (size_t i = 0; i < s.size();) {
    const int64_t step = i + 1 < s.size() ? std::clamp<int64_t>(s[i + 1] - s[i], -1, 1) : 1;
    size_t end = i + 1;
    while (end < s.size() && s[end] - s[end - 1] == step) ++end;
    const int64_t first = std::min(s[i], s[end - 1]), last = std::max(s[i], s[end - 1]);
    Value part = b.SliceDim(v, p.dim, first, last + 1);
    if (step < 0) part = b.Reverse(part, {p.dim});
    if (step == 0) {
      Dims dims = part.dims();
      dims[p.dim] = static_cast<int64_t>(end - i);
      part = BroadcastTo(part, dims);
    }
    parts.push_back(part);
    i = end;
  }
  return parts.size() == 1 ? parts[0] : b.Concatenate(parts, p.dim);
}

Value PadForward(Lowering& x, Source source) {
  Value v = x.tensor("self");
  if (x.result().numel() == 0) return x.builder().Constant(v.dtype(), 0, x.result().dims);
  for (const PaddedDim& p : PaddedDims(x, v.dims(), source)) v = Rearrange(v, p);
  return v;
}

Value PadBackward(Lowering& x, Source source) {
  const Dims input = x.tensor("self").dims();
  Value grad = Convert(x.tensor("grad_output"), x.compute_type());
  if (grad.numel() == 0) return x.builder().Constant(grad.dtype(), 0, input);
  for (const PaddedDim& p : PaddedDims(x, input, source)) {
    grad = AddInto(grad, p.dim, p.sources, p.size);
  }
  return grad;
}

}  // namespace

OP("aten::constant_pad_nd", {.tolerance = Tolerance::kExact}) {
  auto v = x.tensor("self");
  const Dims pad = x.ints("pad");
  Dims low(v.rank(), 0), high(v.rank(), 0);
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    low[v.rank() - 1 - i] = pad[2 * i];
    high[v.rank() - 1 - i] = pad[2 * i + 1];
  }
  return x.builder().Pad(v, x.scalar("value", v.dtype()), low, high);
}

OPS(({"aten::reflection_pad1d", "aten::reflection_pad2d", "aten::reflection_pad3d"}),
    {.tolerance = Tolerance::kExact}) {
  return PadForward(x, Mirror);
}

OPS(({"aten::reflection_pad1d_backward", "aten::reflection_pad2d_backward",
      "aten::reflection_pad3d_backward"})) {
  return PadBackward(x, Mirror);
}

OPS(({"aten::replication_pad1d", "aten::replication_pad2d", "aten::replication_pad3d"}),
    {.tolerance = Tolerance::kExact}) {
  return PadForward(x, Edge);
}

OPS(({"aten::replication_pad1d_backward", "aten::replication_pad2d_backward",
      "aten::replication_pad3d_backward"})) {
  return PadBackward(x, Edge);
}

}  // namespace torch_tpu::ops
