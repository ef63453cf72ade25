// SPDX-License-Identifier: Apache-2.0
// Ops whose result size depends on values. The program makes a padded result and a count; the host
// reads the count and narrows. So a changing count never compiles.
#include <ATen/core/Tensor.h>
#include <ATen/ops/broadcast_tensors.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "csrc/eager/copy.h"
#include "csrc/eager/table_op.h"

namespace torch_tpu::eager {
namespace {

using at::Tensor;

int64_t ReadCount(const Tensor& count) { return ReadToHost(count).item<int64_t>(); }

Tensor Nonzero(const Tensor& self) {
  std::vector<Tensor> r = RunDirect("tpu::nonzero_padded", {{"self", self}});
  return r[0].narrow(0, 0, ReadCount(r[1]));
}

Tensor MaskedSelect(const Tensor& self, const Tensor& mask) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_select: expected BoolTensor for mask, got ",
              mask.scalar_type());
  std::vector<Tensor> both = at::broadcast_tensors({self, mask});
  std::vector<Tensor> r =
      RunDirect("tpu::masked_select_padded", {{"self", both[0]}, {"mask", both[1]}});
  return r[0].narrow(0, 0, ReadCount(r[1]));
}

Tensor& CopyOut(const Tensor& result, Tensor& out) {
  TORCH_CHECK(result.scalar_type() == out.scalar_type(), "expected out of dtype ",
              result.scalar_type(), ", got ", out.scalar_type());
  out.resize_(result.sizes());
  return out.copy_(result);
}

Tensor& NonzeroOut(const Tensor& self, Tensor& out) { return CopyOut(Nonzero(self), out); }
Tensor& MaskedSelectOut(const Tensor& self, const Tensor& mask, Tensor& out) {
  return CopyOut(MaskedSelect(self, mask), out);
}

std::tuple<Tensor, Tensor, Tensor> Unique(const Tensor& self, const char* row, bool inverse,
                                          bool counts) {
  std::vector<Tensor> r = RunDirect(row, {{"self", self}});
  int64_t n = ReadCount(r[3]);
  Tensor none = at::empty({0}, self.options().dtype(at::kLong));
  return {r[0].narrow(0, 0, n), inverse ? r[1] : none, counts ? r[2].narrow(0, 0, n) : none};
}

std::tuple<Tensor, Tensor, Tensor> Unique2(const Tensor& self, bool, bool return_inverse,
                                           bool return_counts) {
  return Unique(self, "tpu::unique_padded", return_inverse, return_counts);
}

// Slices of `dim` as the rows of a matrix.
std::tuple<Tensor, Tensor, Tensor> UniqueSlices(const Tensor& self, int64_t dim, const char* row,
                                                bool inverse, bool counts) {
  Tensor moved = self.movedim(dim, 0).contiguous();
  TORCH_CHECK(
      moved.numel() > 0 || moved.size(0) == 0,
      "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
  int64_t n = moved.size(0);
  auto [rows, positions, sizes] =
      Unique(moved.reshape({n, n == 0 ? 0 : moved.numel() / n}), row, inverse, counts);
  std::vector<int64_t> shape = moved.sizes().vec();
  shape[0] = rows.size(0);
  return {rows.reshape(shape).movedim(0, dim), positions, sizes};
}

std::tuple<Tensor, Tensor, Tensor> UniqueDim(const Tensor& self, int64_t dim, bool, bool inverse,
                                             bool counts) {
  return UniqueSlices(self, dim, "tpu::unique_rows_padded", inverse, counts);
}

std::tuple<Tensor, Tensor, Tensor> UniqueDimConsecutive(const Tensor& self, int64_t dim,
                                                        bool inverse, bool counts) {
  return UniqueSlices(self, dim, "tpu::unique_rows_consecutive_padded", inverse, counts);
}

std::tuple<Tensor, Tensor, Tensor> UniqueConsecutive(const Tensor& self, bool inverse, bool counts,
                                                     std::optional<int64_t> dim) {
  if (dim.has_value() && self.dim() != 1) return UniqueDimConsecutive(self, *dim, inverse, counts);
  return Unique(self, "tpu::unique_consecutive_padded", inverse, counts);
}

Tensor RepeatInterleave(const Tensor& repeats, std::optional<int64_t> output_size) {
  TORCH_CHECK(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
  TORCH_CHECK(repeats.scalar_type() == at::kLong || repeats.scalar_type() == at::kInt,
              "repeats has to be Long or Int tensor");
  if (repeats.numel() == 0) return at::empty({0}, repeats.options());
  TORCH_CHECK(repeats.min().item<int64_t>() >= 0, "repeats can not be negative");
  int64_t size = output_size.has_value() ? *output_size : repeats.sum().item<int64_t>();
  return RunDirect("tpu::repeat_interleave_sized", {{"repeats", repeats}, {"size", size}})[0];
}

Tensor Bincount(const Tensor& self, const std::optional<Tensor>& weights, int64_t minlength) {
  TORCH_CHECK(minlength >= 0, "minlength should be >= 0");
  TORCH_CHECK(self.dim() == 1 && at::isIntegralType(self.scalar_type(), false),
              "bincount only supports 1-d non-negative integral inputs.");
  bool weighted = weights.has_value() && weights->defined();
  TORCH_CHECK(!weighted || weights->sizes() == self.sizes(),
              "weights should be 1-d and have the same length as input");
  if (self.numel() == 0) return at::zeros({minlength}, self.options().dtype(at::kLong));
  TORCH_CHECK(self.min().item<int64_t>() >= 0,
              "bincount only supports 1-d non-negative integral inputs.");
  int64_t size = std::max(self.max().item<int64_t>() + 1, minlength);
  std::vector<DirectArg> args{{"self", self}};
  // torch counts weights of any type but float in double.
  Tensor w = weighted ? (weights->scalar_type() == at::kFloat ? *weights : weights->to(at::kDouble))
                      : Tensor();
  args.push_back({"weights", weighted ? c10::IValue(w) : c10::IValue()});
  args.push_back({"size", size});
  return RunDirect("tpu::bincount_sized", args)[0];
}

bool Equal(const Tensor& self, const Tensor& other) {
  TORCH_CHECK(self.device() == other.device(),
              "Expected all tensors to be on the same device, but found ", self.device(), " and ",
              other.device());
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "Expected object of data type ",
              self.scalar_type(), " but got data type ", other.scalar_type(),
              " for argument 'other'");
  if (self.sizes() != other.sizes()) return false;
  return self.numel() == 0 || at::eq(self, other).all().item<bool>();
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("nonzero", TORCH_FN(Nonzero));
  m.impl("nonzero.out", TORCH_FN(NonzeroOut));
  m.impl("masked_select", TORCH_FN(MaskedSelect));
  m.impl("masked_select.out", TORCH_FN(MaskedSelectOut));
  m.impl("_unique2", TORCH_FN(Unique2));
  m.impl("unique_consecutive", TORCH_FN(UniqueConsecutive));
  m.impl("unique_dim", TORCH_FN(UniqueDim));
  m.impl("unique_dim_consecutive", TORCH_FN(UniqueDimConsecutive));
  m.impl("repeat_interleave.Tensor", TORCH_FN(RepeatInterleave));
  m.impl("bincount", TORCH_FN(Bincount));
  m.impl("equal", TORCH_FN(Equal));
}

}  // namespace
}  // namespace torch_tpu::eager
