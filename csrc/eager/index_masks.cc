// SPDX-License-Identifier: Apache-2.0
#include "csrc/eager/index_masks.h"

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>

#include <vector>

namespace torch_tpu::eager {
namespace {

using at::Tensor;

bool IsMask(const Tensor& index) {
  return index.scalar_type() == at::kBool || index.scalar_type() == at::kByte;
}

Tensor OnDevice(const Tensor& index, const Tensor& self) {
  return index.device() == self.device() ? index : index.to(self.device());
}

void CheckMask(const Tensor& mask, const Tensor& self, int64_t first, const char* op) {
  for (int64_t d = 0; d < mask.dim(); ++d) {
    TORCH_CHECK_INDEX(first + d < self.dim() && mask.size(d) == self.size(first + d), "[", op,
                      "] The shape of the mask ", mask.sizes(), " at index ", d,
                      " does not match the shape of the indexed tensor ", self.sizes(),
                      " at index ", first + d);
  }
}

}  // namespace

c10::IValue PrepareIndices(const Tensor& self, const c10::IValue& list, const char* op) {
  bool ready = true;
  for (const c10::IValue& v : list.toListRef()) {
    if (v.isNone() || !v.toTensor().defined()) continue;
    const Tensor& index = v.toTensor();
    ready &= !IsMask(index) && index.device() == self.device();
  }
  if (ready) return list;
  c10::List<std::optional<Tensor>> prepared;
  int64_t dim = 0;
  for (const c10::IValue& v : list.toListRef()) {
    if (v.isNone() || !v.toTensor().defined()) {
      prepared.push_back(std::nullopt);
      ++dim;
      continue;
    }
    Tensor index = OnDevice(v.toTensor(), self);
    if (!IsMask(index)) {
      prepared.push_back(index);
      ++dim;
      continue;
    }
    CheckMask(index, self, dim, op);
    Tensor coordinates = index.nonzero();
    for (int64_t d = 0; d < index.dim(); ++d) prepared.push_back(coordinates.select(1, d));
    dim += index.dim();
  }
  return prepared;
}

bool PutUnderMask(const Tensor& self, const c10::IValue& list, const Tensor& value,
                  bool accumulate) {
  if (accumulate || value.numel() != 1) return false;
  Tensor mask;
  int64_t first = 0, dim = 0;
  for (const c10::IValue& v : list.toListRef()) {
    if (v.isNone() || !v.toTensor().defined()) {
      ++dim;
      continue;
    }
    if (mask.defined() || !IsMask(v.toTensor())) return false;
    mask = OnDevice(v.toTensor(), self);
    first = dim;
    dim += mask.dim();
  }
  if (!mask.defined()) return false;
  CheckMask(mask, self, first, "aten::index_put");
  if (mask.scalar_type() == at::kByte) mask = mask.to(at::kBool);
  std::vector<int64_t> shape(self.dim(), 1);
  for (int64_t d = 0; d < mask.dim(); ++d) shape[first + d] = mask.size(d);
  self.masked_fill_(mask.reshape(shape), value.reshape({}).to(self.device(), self.scalar_type()));
  return true;
}

}  // namespace torch_tpu::eager
