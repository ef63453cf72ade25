// SPDX-License-Identifier: Apache-2.0
// Autocast for the device: CUDA's lists, not CPU's, through torch's own macros.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

namespace torch_tpu::device {
namespace {

using at::IntArrayRef;
using at::Scalar;
using at::ScalarType;
using at::Tensor;

// The loss is unsafe in half precision: torch refuses it in every autocast region.
Tensor BinaryCrossEntropyRefused(const Tensor&, const Tensor&, const std::optional<Tensor>&,
                                 int64_t) {
  TORCH_CHECK(
      false,
      "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast. "
      "Try: torch.nn.functional.binary_cross_entropy_with_logits or "
      "torch.nn.BCEWithLogitsLoss, which take the input before the sigmoid.");
}

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

#define LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define FLOAT32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define FLOAT32_SET_DTYPE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define FLOAT32_APPEND_DTYPE(...) KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE(__VA_ARGS__)
#define PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  AT_FORALL_LOWER_PRECISION_FP(LOWER_PRECISION)
  AT_FORALL_FP32(FLOAT32)
  // Not in CUDA's list, though documented there: its log_softmax would round to half precision.
  FLOAT32(cross_entropy_loss)
  AT_FORALL_FP32_SET_OPT_DTYPE(FLOAT32_SET_DTYPE)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(FLOAT32_APPEND_DTYPE)
  AT_FORALL_PROMOTE(PROMOTE)
  m.impl("binary_cross_entropy", BinaryCrossEntropyRefused);
}

}  // namespace
}  // namespace torch_tpu::device
