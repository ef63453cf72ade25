// SPDX-License-Identifier: Apache-2.0
// Routes scaled_dot_product_attention to the table's one fused op.
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>

namespace at::native {
namespace {

// The fused row takes [batch, heads, length, dim] with one batch size; torch's composite broadcasts
// the rest.
int64_t Choose(const Tensor& query, const Tensor& key, const Tensor& value,
               const std::optional<Tensor>&, double, bool, std::optional<double>, bool) {
  bool plain = query.dim() == 4 && key.dim() == 4 && value.dim() == 4 &&
               query.size(0) == key.size(0) && query.size(0) == value.size(0);
  return static_cast<int64_t>(plain ? sdp::SDPBackend::overrideable : sdp::SDPBackend::math);
}

}  // namespace

REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &Choose)

}  // namespace at::native
