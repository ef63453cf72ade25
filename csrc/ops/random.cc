// SPDX-License-Identifier: Apache-2.0
// Random fills and samplers. Values are drawn in f32 (f64 for f64 results) and rounded once.
#include <cmath>
#include <limits>

#include "csrc/ops/op.h"
#include "csrc/ops/reduction.h"
#include "csrc/ops/scan.h"

namespace torch_tpu::ops {
namespace {

const Options kRandom = {.tolerance = Tolerance::kRandom, .random = true};

DType DrawType(Lowering& x) {
  const DType real = hlo::RealOf(x.result().dtype);
  return real == DType::kF64 ? DType::kF64 : DType::kF32;
}

// In [0, 1) also after rounding to a narrow result type: no more bits than it holds.
Value Uniform(Lowering& x) {
  Value u = x.random().Uniform(DrawType(x), x.result().dims);
  const DType dtype = x.result().dtype;
  const double steps = dtype == DType::kBF16 ? 256 : dtype == DType::kF16 ? 2048 : 0;
  return steps > 0 ? Floor(u * steps) / steps : u;
}

// In (0, 1].
Value UniformAboveZero(Lowering& x) {
  return 1.0 - x.random().Uniform(DrawType(x), x.result().dims);
}

// -log(u), never 0: samplers divide by it.
Value StandardExponential(Value u) {
  const double epsilon = u.dtype() == DType::kF64 ? std::numeric_limits<double>::epsilon()
                                                  : std::numeric_limits<float>::epsilon();
  return Max(-Log(u), Like(u, epsilon / 2));
}

Value StandardNormal(Lowering& x) {
  const Dims dims = x.result().dims;
  if (!hlo::IsComplex(x.result().dtype)) return x.random().Normal(DrawType(x), dims);
  // Variance one in all, half for each part.
  Dims parts = dims;
  parts.insert(parts.begin(), 2);
  Value both = x.random().Normal(DrawType(x), parts) * std::sqrt(0.5);
  auto part = [&](int i) { return Reshape(x.builder().SliceDim(both, 0, i, i + 1), dims); };
  return x.builder().Complex(part(0), part(1));
}

Value Bernoulli(Lowering& x, Value p) {
  return x.random().Uniform(DrawType(x), x.result().dims) < BroadcastTo(p, x.result().dims);
}

// ---- integers
// -------------------------------------------------------------------------------------

// low + [0, range); range 0 stands for 2^64.
Value RandomIntegers(Lowering& x, int64_t low, uint64_t range) {
  hlo::Builder& b = x.builder();
  const Dims& dims = x.result().dims;
  auto shift = [&](Value v, std::string_view op) {
    return b.Binary(op, v, b.ConstantInt(DType::kU64, 32));
  };
  Value drawn;
  if (range != 0 && range < (uint64_t{1} << 28)) {
    // The top of word * range: no division; the bias is below range / 2^32.
    Value word = Convert(x.random().Bits(dims), DType::kU64);
    Value scaled = word * b.ConstantInt(DType::kU64, static_cast<int64_t>(range));
    drawn = shift(scaled, "stablehlo.shift_right_logical");
  } else {
    Values words = x.random().Words(dims);
    drawn = shift(Convert(words[0], DType::kU64), "stablehlo.shift_left") |
            Convert(words[1], DType::kU64);
    if (range != 0) drawn = Rem(drawn, b.ConstantInt(DType::kU64, static_cast<int64_t>(range)));
  }
  return b.BitcastConvert(drawn, DType::kS64) + b.ConstantInt(DType::kS64, low);
}

// The greatest integer random_() draws: the type's maximum, for floats the last exact integer.
uint64_t GreatestInteger(DType dtype) {
  switch (dtype) {
    case DType::kPred: return 1;
    case DType::kBF16: return uint64_t{1} << 8;
    case DType::kF16: return uint64_t{1} << 11;
    case DType::kF32: return uint64_t{1} << 24;
    case DType::kF64: return uint64_t{1} << 53;
    default: {
      const int64_t bits = 8 * hlo::ByteSize(dtype);
      const uint64_t all = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
      return hlo::IsSigned(dtype) ? all >> 1 : all;
    }
  }
}

}  // namespace

OPS(({"aten::uniform_", "aten::uniform"}), kRandom) {
  Value u = Uniform(x);
  Value from = x.scalar("from", u.dtype()), to = x.scalar("to", u.dtype());
  return from + u * (to - from);
}

OPS(({"aten::normal_", "aten::normal_functional"}), kRandom) {
  Value z = StandardNormal(x);
  return x.scalar("mean", z.dtype()) + z * x.scalar("std", z.dtype());
}

OPS(({"aten::normal.Tensor_float", "aten::normal.float_Tensor", "aten::normal.Tensor_Tensor"}),
    kRandom) {
  Value z = StandardNormal(x);
  return x.arg("mean") + z * x.arg("std");
}

OPS(({"aten::log_normal_", "aten::log_normal"}), kRandom) {
  Value z = StandardNormal(x);
  return Exp(x.scalar("mean", z.dtype()) + z * x.scalar("std", z.dtype()));
}

OPS(({"aten::exponential_", "aten::exponential"}), kRandom) {
  Value e = StandardExponential(UniformAboveZero(x));
  return e / x.scalar("lambd", e.dtype());
}

OPS(({"aten::geometric_", "aten::geometric"}), kRandom) {
  Value u = UniformAboveZero(x);
  Value trials = Ceil(Log(u) / Log1p(-x.scalar("p", u.dtype())));
  return Max(trials, OnesLike(trials));
}

OPS(({"aten::cauchy_", "aten::cauchy"}), kRandom) {
  Value u = x.random().Uniform(DrawType(x), x.result().dims);
  Value angle = (u - 0.5) * M_PI;
  return x.scalar("median", u.dtype()) + x.scalar("sigma", u.dtype()) * (Sin(angle) / Cos(angle));
}

OPS(({"aten::bernoulli_.float", "aten::bernoulli.p"}), kRandom) {
  return Bernoulli(x, x.scalar("p", DrawType(x)));
}

OPS(({"aten::bernoulli_.Tensor", "aten::bernoulli.Tensor"}), kRandom) {
  return Bernoulli(x, Convert(x.tensor("p"), DrawType(x)));
}

OP("aten::bernoulli", kRandom) { return Bernoulli(x, Convert(x.tensor("self"), DrawType(x))); }

OPS(({"aten::random_", "aten::random"}), kRandom) {
  return RandomIntegers(x, 0, GreatestInteger(x.result().dtype) + 1);
}

OPS(({"aten::random_.to", "aten::random.to"}), kRandom) {
  return RandomIntegers(x, 0, static_cast<uint64_t>(x.integer("to")));
}

OPS(({"aten::random_.from", "aten::random.from"}), kRandom) {
  const int64_t from = x.integer("from");
  const uint64_t end =
      x.has("to") ? static_cast<uint64_t>(x.integer("to")) : GreatestInteger(x.result().dtype) + 1;
  return RandomIntegers(x, from, end - static_cast<uint64_t>(from));
}

OP("aten::randperm.generator_out", kRandom) {
  // Positions sorted by 64 random bits each.
  const Dims& dims = x.result().dims;
  Values words = x.random().Words(dims);
  Value at = x.builder().Iota(DType::kS32, dims, 0);
  return x.builder().Sort({words[0], words[1], at}, 0, false, [](const Values& p) {
    return Values{(p[0] < p[1]) | (Eq(p[0], p[1]) & (p[2] < p[3]))};
  })[2];
}

// ---- dropout and samplers over weights
// ----------------------------------------------------------------

OP("aten::native_dropout", kRandom) {
  Value input = x.arg("input");
  if (x.has("train") && !x.boolean("train")) {
    return {input, x.builder().ConstantInt(DType::kPred, 1, input.dims())};
  }
  const DType draw = DrawType(x);
  Value p = x.scalar("p", draw);
  Value keep = x.random().Uniform(draw, input.dims()) >= BroadcastTo(p, input.dims());
  Value scale = 1.0 / (1.0 - x.scalar("p", input.dtype()));
  return {Select(keep, input * scale, ZerosLike(input)), keep};
}

OP("aten::native_dropout_backward") {
  Value grad = x.arg("grad_output");
  Value keep = Convert(x.tensor("mask"), DType::kPred);
  return Select(keep, grad * x.scalar("scale"), ZerosLike(grad));
}

OPS(({"aten::rrelu_with_noise", "aten::rrelu_with_noise_functional"}), kRandom) {
  Value self = x.arg("self");
  Value lower = x.scalar("lower"), upper = x.scalar("upper");
  if (!x.boolean("training")) {
    Value slope = (lower + upper) / 2.0;
    return {Select(self <= 0, self * slope, self), x.tensor("noise")};
  }
  Value u = Convert(x.random().Uniform(DrawType(x), self.dims()), self.dtype());
  Value noise = Select(self <= 0, lower + u * (upper - lower), OnesLike(self));
  return {self * noise, noise};
}

OP("aten::multinomial", kRandom) {
  hlo::Builder& b = x.builder();
  Value weights = Wide(x.tensor("self"));
  const int64_t classes = weights.dim(-1), samples = x.integer("num_samples");
  const int64_t rows = weights.rank() == 2 ? weights.dim(0) : 1;
  weights = Reshape(weights, {rows, classes});
  const DType dtype = weights.dtype();
  Value index;
  if (x.boolean("replacement") && samples > 1) {
    // The first class whose cumulative weight passes a uniform share of the total.
    Value total = CumulativeSum(weights, 1);
    Value share = x.random().Uniform(dtype, {rows, samples}) *
                  BroadcastTo(b.SliceDim(total, 1, classes - 1, classes), {rows, samples});
    const Dims wide = {rows, samples, classes};
    Value below = b.BroadcastInDim(total, wide, {0, 2}) <= b.BroadcastInDim(share, wide, {0, 1});
    index = CountTrue(below, {2});
    // A share may round up to the total: then the last class that has a weight.
    Value at = Positions(weights, 1);
    Value last = MaxReduce(Select(weights > 0, at, ZerosLike(at)), {1});
    last = b.BroadcastInDim(Convert(last, DType::kS64), {rows, samples}, {0});
    index = Min(index, last);
  } else {
    // Weight over an exponential: its order is a draw without replacement.
    Value u = 1.0 - x.random().Uniform(dtype, weights.dims());
    Value score = weights / StandardExponential(u);
    if (samples == 1) {
      index = ArgExtreme(score, 1, true).index;
    } else {
      Value at = Positions(score, 1);
      index = b.Sort({score, at}, 1, true, [](const Values& p) { return Values{p[0] > p[1]}; })[1];
      index = b.SliceDim(index, 1, 0, samples);
    }
  }
  return Reshape(index, x.result().dims);
}

}  // namespace torch_tpu::ops
