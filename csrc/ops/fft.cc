// SPDX-License-Identifier: Apache-2.0
// Fourier transforms, one dimension after the other: the dimension goes last, is transformed, and
// goes back. Any length; real input only in the last of the given dimensions.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "csrc/ops/op.h"

namespace torch_tpu::ops {
namespace {

// torch's fft_norm_mode: nothing, 1/sqrt(n), 1/n.
double Factor(int64_t normalization, int64_t count) {
  if (normalization == 0) return 1;
  return normalization == 1 ? 1 / std::sqrt(static_cast<double>(count))
                            : 1 / static_cast<double>(count);
}

Value Scaled(Value v, double factor) {
  if (factor == 1) return v;
  if (!hlo::IsComplex(v.dtype())) return v * factor;
  auto& b = v.builder();
  return b.Complex(b.Unary("stablehlo.real", v) * factor, b.Unary("stablehlo.imag", v) * factor);
}

Value Transform(Value v, int64_t dim, const char* type, int64_t length) {
  auto& b = v.builder();
  Dims swap(v.rank());
  std::iota(swap.begin(), swap.end(), 0);
  std::swap(swap[dim], swap.back());
  return b.Transpose(b.Fft(b.Transpose(v, swap), type, {length}), swap);
}

Value TransformAll(Value v, const Dims& dims, bool forward) {
  for (int64_t dim : dims) {
    const int64_t length = v.dim(static_cast<int>(dim));
    v = Transform(v, dim, forward ? "FFT" : "IFFT", length);
    // StableHLO's inverse divides by the length; torch's normalization says all.
    if (!forward) v = Scaled(v, static_cast<double>(length));
  }
  return v;
}

int64_t Count(const Dims& sizes, const Dims& dims) {
  int64_t count = 1;
  for (int64_t dim : dims) count *= sizes[dim];
  return count;
}

Dims AllButLast(const Dims& dims) { return Dims(dims.begin(), dims.end() - 1); }

Dims ReadDims(Lowering& x, int rank) {
  Dims dims = x.ints("dim");
  for (int64_t& d : dims) d = Lowering::WrapDim(d, rank);
  return dims;
}

// The second half of a one-sided spectrum: conj(v[-k]) along every transformed dimension.
Value Mirrored(Value half, const Dims& dims, int64_t length) {
  auto& b = half.builder();
  const int last = static_cast<int>(dims.back());
  Value v = b.SliceDim(half, last, 1, length - half.dim(last) + 1);
  v = b.Reverse(v, {last});
  for (int64_t d : AllButLast(dims)) {  // index -k modulo the size
    const int dim = static_cast<int>(d);
    v = b.Concatenate(
        {b.SliceDim(v, dim, 0, 1), b.Reverse(b.SliceDim(v, dim, 1, v.dim(dim)), {dim})}, dim);
  }
  return b.Concatenate(
      {half, b.Complex(b.Unary("stablehlo.real", v), -b.Unary("stablehlo.imag", v))}, last);
}

const Options kTransform = {.tolerance = Tolerance::kApproximate};

}  // namespace

OP("aten::_fft_c2c", kTransform) {
  auto v = x.tensor("self");
  const Dims dims = ReadDims(x, v.rank());
  if (v.numel() == 0 || dims.empty()) return v;
  return Scaled(TransformAll(v, dims, x.boolean("forward")),
                Factor(x.integer("normalization"), Count(v.dims(), dims)));
}

OP("aten::_fft_r2c", kTransform) {
  auto v = Convert(x.tensor("self"), hlo::RealOf(x.result().dtype));
  if (x.result().numel() == 0) return x.builder().Constant(x.result().dtype, 0, x.result().dims);
  const Dims dims = ReadDims(x, v.rank());
  const int64_t length = v.dim(static_cast<int>(dims.back()));
  auto half = Transform(v, dims.back(), "RFFT", length);
  half = TransformAll(half, AllButLast(dims), true);
  half = Scaled(half, Factor(x.integer("normalization"), Count(v.dims(), dims)));
  return x.boolean("onesided") ? half : Mirrored(half, dims, length);
}

OP("aten::_fft_c2r", kTransform) {
  auto v = x.tensor("self");
  const Dims& out = x.result().dims;
  if (x.result().numel() == 0) return x.builder().Constant(x.result().dtype, 0, out);
  const Dims dims = ReadDims(x, v.rank());
  const int64_t length = x.integer("last_dim_size");
  v = TransformAll(v, AllButLast(dims), false);
  v = Transform(v, dims.back(), "IRFFT", length);
  return Scaled(v,
                static_cast<double>(length) * Factor(x.integer("normalization"), Count(out, dims)));
}

}  // namespace torch_tpu::ops
