// SPDX-License-Identifier: Apache-2.0
// Scaled dot-product attention, forward and backward, one program each. Queries [B, H, S, D], keys
// and values with H or fewer heads (grouped queries). Scores, softmax and sums are f32.
//
// Long sequences are cut into blocks of query rows, written out one after the other: scores of one
// block at a time are alive, and causal blocks skip the keys that no row of theirs may see.
#include <algorithm>
#include <cmath>
#include <limits>

#include "csrc/ops/op.h"

namespace torch_tpu::ops {
namespace {

constexpr int64_t kBlockRows = 1024;

struct Attention {
  hlo::Builder& b;
  Value query, key, value;  // rank 4
  Value bias;               // rank 4, each dim full or 1; may be absent
  Value scale;              // rank 0, compute type
  Value keep;               // dropout: pred [B, H, S, T]; absent: keep all
  double keep_scale = 1;
  bool causal = false;
  DType compute;

  int64_t batch() const { return query.dim(0); }
  int64_t heads() const { return query.dim(1); }
  int64_t kv_heads() const { return key.dim(1); }
  int64_t rows() const { return query.dim(2); }
  int64_t columns() const { return key.dim(2); }
};

Value Rank4(Value v) {
  Dims dims = v.dims();
  while (dims.size() < 4) dims.insert(dims.begin(), 1);
  return Reshape(v, dims);
}

Attention Read(Lowering& x, double dropout, const std::function<Random()>& random) {
  Attention a{.b = x.builder(),
              .query = Rank4(x.tensor("query")),
              .key = Rank4(x.tensor("key")),
              .value = Rank4(x.tensor("value")),
              .causal = x.boolean("is_causal")};
  a.compute = hlo::ComputeType(a.query.dtype());
  if (a.heads() % std::max<int64_t>(1, a.kv_heads()) != 0 || a.key.dim(1) != a.value.dim(1)) {
    x.Unsupported("query heads that are not a multiple of the key and value heads: " +
                  a.query.shape().ToString() + ", " + a.key.shape().ToString() + ", " +
                  a.value.shape().ToString());
  }
  a.scale = x.has("scale") ? x.scalar("scale", a.compute)
                           : a.b.Constant(a.compute, 1 / std::sqrt(double(a.query.dim(3))));
  if (x.has("attn_bias")) a.bias = Rank4(x.tensor("attn_bias"));
  if (dropout > 0) {
    Dims dims = {a.batch(), a.heads(), a.rows(), a.columns()};
    a.keep = random().Uniform(DType::kF32, dims) >= dropout;
    a.keep_scale = dropout < 1 ? 1 / (1 - dropout) : 0;
  }
  return a;
}

// One block of query rows and the keys it sees.
struct Block {
  int64_t start, end, columns;
};

std::vector<Block> Blocks(const Attention& a) {
  std::vector<Block> blocks;
  const int64_t step = std::max<int64_t>(1, std::min(kBlockRows, a.rows()));
  for (int64_t start = 0; start < a.rows(); start += step) {
    const int64_t end = std::min(start + step, a.rows());
    blocks.push_back({start, end, a.causal ? std::min(end, a.columns()) : a.columns()});
  }
  if (blocks.empty()) blocks.push_back({0, 0, a.columns()});
  return blocks;
}

Value Rows(Value v, const Block& k) { return v.builder().SliceDim(v, 2, k.start, k.end); }
Value Columns(Value v, const Block& k) { return v.builder().SliceDim(v, 2, 0, k.columns); }

// [B, H, S, ...] <-> [B, KvHeads, Group * S, ...]: grouped heads read their key without a copy.
Value Group(const Attention& a, Value v) {
  const int64_t group = a.heads() / a.kv_heads();
  return Reshape(v, {v.dim(0), a.kv_heads(), group * v.dim(2), v.dim(3)});
}

Value Ungroup(const Attention& a, Value v) {
  const int64_t group = a.heads() / a.kv_heads();
  return Reshape(v, {v.dim(0), a.heads(), v.dim(2) / group, v.dim(3)});
}

// Batched over the two leading dims; contracts dim `i` of p with dim `j` of q.
Value BatchDot(const Attention& a, Value p, Value q, int64_t i, int64_t j) {
  return a.b.Dot(
      p, q, {.lhs_batch = {0, 1}, .rhs_batch = {0, 1}, .lhs_contract = {i}, .rhs_contract = {j}},
      a.compute);
}

// A mask or bias [B|1, H|1, S|1, T|1] cut to the block and broadcast to its scores.
Value Cut(Value v, const Block& k, const Dims& dims) {
  if (v.dim(2) != 1) v = Rows(v, k);
  if (v.dim(3) != 1) v = v.builder().SliceDim(v, 3, 0, k.columns);
  return BroadcastTo(v, dims);
}

Value Scores(const Attention& a, const Block& k) {
  auto s = BatchDot(a, Group(a, Rows(a.query, k)), Columns(a.key, k), 3, 3);
  s = Ungroup(a, s) * a.scale;
  if (a.bias) s = s + Cut(Convert(a.bias, a.compute), k, s.dims());
  if (a.causal) {  // row i sees columns 0..i: aligned at the top left, as torch's is_causal
    auto row = a.b.Iota(DType::kS32, s.dims(), 2) + static_cast<double>(k.start);
    auto seen = a.b.Iota(DType::kS32, s.dims(), 3) <= row;
    s = Select(seen, s, a.b.MinValue(a.compute, s.dims()));
  }
  return s;
}

// The row maximum with -inf (a row that sees nothing) replaced by 0, so that exp gives 0, not NaN.
Value Finite(Value v) {
  return Select(Eq(v, -std::numeric_limits<double>::infinity()), ZerosLike(v), v);
}

struct Softmax {
  Value exponentials, sums, log_sum_exp;  // [.., T], [.., 1], [.., 1]
};

Softmax SoftmaxOf(Value s) {
  auto highest = Finite(MaxReduce(s, {3}, true));
  auto e = Exp(s - BroadcastTo(highest, s.dims()));
  auto sums = Sum(e, {3}, true);
  return {e, sums, Log(sums) + highest};
}

Value Dropped(const Attention& a, const Block& k, Value v) {
  if (!a.keep) return v;
  return Select(Cut(a.keep, k, v.dims()), v * a.keep_scale, ZerosLike(v));
}

// Sums `v` over the dims that were broadcast from `dims`.
Value ReduceTo(Value v, const Dims& dims) {
  Dims over;
  for (int i = 0; i < v.rank(); ++i) {
    if (dims[i] == 1 && v.dim(i) != 1) over.push_back(i);
  }
  return over.empty() ? v : Sum(v, over, true);
}

// A running sum of key-side gradients; causal blocks give fewer columns than the whole.
Value AddColumns(Value sum, Value part, int64_t columns) {
  auto& b = part.builder();
  if (part.dim(2) != columns) {
    part = b.Pad(part, b.Constant(part.dtype(), 0), Dims(4, 0), {0, 0, columns - part.dim(2), 0});
  }
  return sum ? sum + part : part;
}

}  // namespace

OP("aten::_scaled_dot_product_fused_attention_overrideable",
   {.constants = {"dropout_p"}, .tolerance = Tolerance::kAccumulate, .random = true}) {
  auto& b = x.builder();
  const double dropout = x.number("dropout_p");
  auto a = Read(x, dropout, [&] { return x.random(); });
  Values outs, sums;
  for (const Block& k : Blocks(a)) {
    auto p = SoftmaxOf(Scores(a, k));
    auto weights = Convert(Dropped(a, k, p.exponentials), a.value.dtype());
    auto out = Ungroup(a, BatchDot(a, Group(a, weights), Columns(a.value, k), 3, 2));
    auto sum = Select(Eq(p.sums, 0), OnesLike(p.sums), p.sums);
    outs.push_back(Convert(out / BroadcastTo(sum, out.dims()), x.result().dtype));
    sums.push_back(p.log_sum_exp);
  }
  auto out = Reshape(b.Concatenate(outs, 2), x.result().dims);
  auto log_sum_exp = Reshape(b.Concatenate(sums, 2), {a.batch(), a.heads(), a.rows()});
  // The backward draws the same numbers again from the seed and the offset.
  auto state = b.BitcastConvert(x.random().state(), DType::kS64);
  auto seed = Reshape(b.SliceDim(state, 0, 0, 1), {}),
       offset = Reshape(b.SliceDim(state, 0, 1, 2), {});
  const Value none;  // cum_seq_q, cum_seq_k, debug_attn_mask
  return {out, log_sum_exp, none, none, seed, offset, none};
}

OP("aten::_scaled_dot_product_fused_attention_overrideable_backward",
   {.constants = {"dropout_p"}, .tolerance = Tolerance::kAccumulate}) {
  auto& b = x.builder();
  const double dropout = x.number("dropout_p");
  auto a = Read(x, dropout, [&] {
    auto word = [&](const char* name) {
      return Reshape(b.BitcastConvert(x.tensor(name), DType::kU64), {1});
    };
    return Random(b.Concatenate({word("philox_seed"), word("philox_offset")}, 0));
  });
  auto grad = Rank4(x.tensor("grad_out")), out = Rank4(x.tensor("out"));
  auto saved = Unsqueeze(Convert(x.tensor("logsumexp"), a.compute), {3});
  const bool bias_grad = a.bias && x.bools("grad_input_mask")[3];
  Values queries, biases;
  Value keys, values;
  for (const Block& k : Blocks(a)) {
    auto s = Scores(a, k);
    // torch keeps the logsumexp in f32: not enough to recompute float64 weights from.
    auto log_sum_exp = a.compute == DType::kF64 ? SoftmaxOf(s).log_sum_exp : Rows(saved, k);
    auto p = Exp(s - BroadcastTo(Finite(log_sum_exp), s.dims()));
    auto g = Convert(Rows(grad, k), a.value.dtype());
    auto grouped = Group(a, g);
    auto weights = Convert(Group(a, Dropped(a, k, p)), a.value.dtype());
    values = AddColumns(values, BatchDot(a, weights, grouped, 2, 2), a.columns());
    auto dp = Dropped(a, k, Ungroup(a, BatchDot(a, grouped, Columns(a.value, k), 3, 3)));
    auto delta = Sum(Convert(g, a.compute) * Convert(Rows(out, k), a.compute), {3}, true);
    auto ds = p * (dp - BroadcastTo(delta, dp.dims()));
    if (bias_grad) biases.push_back(ReduceTo(ds, a.bias.dims()));
    auto scaled = Convert(Group(a, ds * a.scale), a.key.dtype());
    queries.push_back(
        Convert(Ungroup(a, BatchDot(a, scaled, Columns(a.key, k), 3, 2)), x.result(0).dtype));
    keys = AddColumns(keys, BatchDot(a, scaled, Group(a, Rows(a.query, k)), 2, 2), a.columns());
  }
  Values results = {Reshape(b.Concatenate(queries, 2), x.result(0).dims),
                    Reshape(keys, x.result(1).dims), Reshape(values, x.result(2).dims)};
  if (bias_grad) {
    Value sum = biases[0];
    if (a.bias.dim(2) != 1) {
      sum = b.Concatenate(biases, 2);
    } else {
      for (size_t i = 1; i < biases.size(); ++i) sum = sum + biases[i];
    }
    results.push_back(Reshape(sum, x.result(3).dims));
  } else if (a.bias) {  // torch's meta kernel promises a tensor, asked for or not
    results.push_back(b.Constant(x.result(3).dtype, 0, x.result(3).dims));
  } else {
    results.push_back(Value());
  }
  return results;
}

}  // namespace torch_tpu::ops
