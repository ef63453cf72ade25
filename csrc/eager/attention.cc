// SPDX-License-Identifier: Apache-2.0
// Routes scaled_dot_product_attention to the table's one fused op.
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>

namespace at::native {
namespace {

int64_t ChooseFused(const Tensor&, const Tensor&, const Tensor&, const std::optional<Tensor>&,
                    double, bool, std::optional<double>, bool) {
  return static_cast<int64_t>(sdp::SDPBackend::overrideable);
}

}  // namespace

REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &ChooseFused)

}  // namespace at::native
