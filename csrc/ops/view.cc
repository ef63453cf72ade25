// SPDX-License-Identifier: Apache-2.0
// The dtype side of views: one element type seen as another. The strided side is in strided.cc.
#include "csrc/ops/view.h"

#include <algorithm>

#include "csrc/base/status.h"
#include "csrc/ops/strided.h"

namespace torch_tpu::ops {
namespace {

using hlo::Builder;
using hlo::ByteSize;
using hlo::IsComplex;
using hlo::RealOf;

// The dims of `w` in units `k` times smaller, and a last dim of the `k` parts of each element.
Strided Finer(const Strided& w, int64_t k) {
  Strided out = w;
  for (int64_t& s : out.strides) s *= k;
  out.offset *= k;
  out.sizes.push_back(k);
  out.strides.push_back(1);
  return out;
}

// The same elements in units `k` times larger, when dim `*inner` is a dense run of whole ones.
std::optional<Strided> Coarser(const Strided& w, int64_t k, int* inner) {
  Strided out = w;
  *inner = -1;
  for (size_t i = 0; i < w.sizes.size(); ++i) {
    if (w.strides[i] == 1 && w.sizes[i] % k == 0 && *inner < 0) {
      *inner = static_cast<int>(i);
      out.sizes[i] /= k;
    } else if (w.sizes[i] > 1) {
      if (w.strides[i] % k != 0) return std::nullopt;
      out.strides[i] /= k;
    }
  }
  if (*inner < 0 || w.offset % k != 0) return std::nullopt;
  out.offset /= k;
  return out;
}

// The same positions in units of pairs, when all lie at equal parity: the real or the imaginary
// parts.
std::optional<Strided> OnePart(const Strided& w) {
  Strided out = w;
  for (size_t i = 0; i < w.sizes.size(); ++i) {
    if (w.sizes[i] > 1 && w.strides[i] % 2 != 0) return std::nullopt;
    out.strides[i] /= 2;
  }
  out.offset /= 2;
  return out;
}

Value Part(Value x, bool imaginary) {
  return x.builder().Unary(imaginary ? "stablehlo.imag" : "stablehlo.real", x);
}

// Each element as parts of a narrower type in a new last dim.
Value Split(Value x, DType dtype) {
  if (!IsComplex(x.dtype())) return x.builder().BitcastConvert(x, dtype);
  const Dims last = {x.rank()};
  return x.builder().Concatenate(
      {hlo::Unsqueeze(Part(x, false), last), hlo::Unsqueeze(Part(x, true), last)}, x.rank());
}

// The reverse: the last dim's parts become one element.
Value Join(Value x, DType dtype) {
  Builder& b = x.builder();
  if (!IsComplex(dtype)) return b.BitcastConvert(x, dtype);
  Dims dims = x.dims();
  dims.pop_back();
  return b.Complex(b.Reshape(b.SliceDim(x, -1, 0, 1), dims),
                   b.Reshape(b.SliceDim(x, -1, 1, 2), dims));
}

// [..., n, ...] of parts <-> [..., n / k, ..., k]: moves the parts of dim `at` to or from the end.
Value PartsToEnd(Value x, int at, int64_t k) {
  Dims dims = x.dims();
  dims[at] /= k;
  dims.insert(dims.begin() + at + 1, k);
  Dims order;
  for (int i = 0; i < static_cast<int>(dims.size()); ++i) {
    if (i != at + 1) order.push_back(i);
  }
  order.push_back(at + 1);
  return hlo::Transpose(hlo::Reshape(x, dims), order);
}

Value PartsFromEnd(Value x, int at, int64_t k) {
  Dims order;
  for (int i = 0; i < x.rank() - 1; ++i) {
    order.push_back(i);
    if (i == at) order.push_back(x.rank() - 1);
  }
  Dims dims = x.dims();
  dims.pop_back();
  dims[at] *= k;
  return hlo::Reshape(hlo::Transpose(x, order), dims);
}

// The type to pass through when `from` cannot be seen as `to` in one step; kInvalid when it can.
DType Between(DType from, DType to) {
  if (from == to) return DType::kInvalid;
  if (IsComplex(from) && to != RealOf(from)) return RealOf(from);
  if (IsComplex(to) && from != RealOf(to)) return RealOf(to);
  return DType::kInvalid;
}

Dims DenseStrides(const Dims& sizes) {
  Dims strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
  return strides;
}

// All of an array of `dims` whose elements are `from`, in units of `to`. Bytes at the end that do
// not fill a unit are left out.
Strided Whole(const Dims& dims, DType from, DType to) {
  int64_t n = ByteSize(from);
  for (int64_t d : dims) n *= d;
  if (ByteSize(to) > ByteSize(from)) return {{n / ByteSize(to)}, {1}};
  Dims sizes = dims;
  if (ByteSize(to) < ByteSize(from)) sizes.push_back(ByteSize(from) / ByteSize(to));
  return {sizes, DenseStrides(sizes)};
}

Value Read(Value base, DType dtype, const Strided& w) {
  if (w.empty()) return base.builder().Constant(dtype, 0, w.sizes);
  const DType from = base.dtype();
  if (from == dtype) return ReadStrided(base, w);
  if (const DType mid = Between(from, dtype); mid != DType::kInvalid) {
    return Read(Read(base, mid, Whole(base.dims(), from, mid)), dtype, w);
  }
  const int64_t in = ByteSize(from), out = ByteSize(dtype);
  if (in == out) return base.builder().BitcastConvert(ReadStrided(base, w), dtype);
  if (in < out) return Join(ReadStrided(base, Finer(w, out / in)), dtype);
  const int64_t k = in / out;
  // Slice in whole elements where that is possible: it keeps the narrow last dim small.
  if (IsComplex(from)) {
    if (const auto one = OnePart(w)) return Part(ReadStrided(base, *one), w.offset % 2 != 0);
  }
  int inner;
  if (const auto whole = Coarser(w, k, &inner)) {
    return PartsFromEnd(Split(ReadStrided(base, *whole), dtype), inner, k);
  }
  return ReadStrided(Split(base, dtype), w);
}

Value Write(Value base, Value update, const Strided& w) {
  if (w.empty()) return base;
  const DType from = base.dtype(), dtype = update.dtype();
  if (from == dtype) return WriteStrided(base, update, w);
  if (const DType mid = Between(from, dtype); mid != DType::kInvalid) {
    const Strided all = Whole(base.dims(), from, mid);
    return Write(base, Write(Read(base, mid, all), update, w), all);
  }
  Builder& b = base.builder();
  const int64_t in = ByteSize(from), out = ByteSize(dtype);
  if (in == out) return WriteStrided(base, b.BitcastConvert(update, from), w);
  if (in < out) return WriteStrided(base, Split(update, from), Finer(w, out / in));
  const int64_t k = in / out;
  if (IsComplex(from)) {
    if (const auto one = OnePart(w)) {
      const bool imaginary = w.offset % 2 != 0;
      const Value other = Part(ReadStrided(base, *one), !imaginary);
      const Value both = imaginary ? b.Complex(other, update) : b.Complex(update, other);
      return WriteStrided(base, both, *one);
    }
  }
  int inner;
  if (const auto whole = Coarser(w, k, &inner)) {
    return WriteStrided(base, Join(PartsToEnd(update, inner, k), from), *whole);
  }
  return Join(WriteStrided(Split(base, dtype), update, w), from);
}

Strided WindowOf(const View& view) {
  if (view.sizes.size() != view.strides.size() || view.offset < 0 ||
      std::any_of(view.strides.begin(), view.strides.end(), [](int64_t s) { return s < 0; })) {
    throw hlo::Error(
        StrCat("[view] expected one stride of 0 or more per size and an offset of 0 or ",
               "more, got sizes ", hlo::ToString(view.sizes), ", strides ",
               hlo::ToString(view.strides), ", offset ", view.offset));
  }
  return {view.sizes, view.strides, view.offset};
}

Value Resolve(Value v, const View& view) {
  if (view.conj && IsComplex(v.dtype())) v = v.builder().Unary("chlo.conj", v);
  return view.neg ? -v : v;
}

}  // namespace

Value ReadView(Value base, const View& view) {
  return Resolve(Read(base, view.dtype, WindowOf(view)), view);
}

Value WriteView(Value base, Value update, const View& view) {
  const Shape expected{view.dtype, view.sizes};
  if (update.shape() != expected) {
    throw hlo::Error(StrCat("[view] expected an update of type ", expected.ToString(), ", got ",
                            update.shape().ToString()));
  }
  const Value out = Write(base, Resolve(update, view), WindowOf(view));
  return hlo::Reshape(out, base.dims());
}

}  // namespace torch_tpu::ops
