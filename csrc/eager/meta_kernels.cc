// SPDX-License-Identifier: Apache-2.0
// Meta kernels torch lacks for overloads of the table; a program takes its result shapes from them.
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

namespace torch_tpu::eager {
namespace {

using torch::CppFunction;
using torch::jit::Stack;

// For overloads that only write their arguments.
void ReturnNothing(const c10::OperatorHandle& op, Stack* stack) {
  torch::jit::drop(*stack, op.schema().arguments().size());
}

// One fresh result with the sizes and dtype of argument `position`.
template <int position>
void LikeArgument(const c10::OperatorHandle& op, Stack* stack) {
  const size_t count = op.schema().arguments().size();
  at::Tensor result = at::empty_like(torch::jit::peek(*stack, position, count).toTensor());
  torch::jit::drop(*stack, count);
  stack->emplace_back(std::move(result));
}

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  for (const char* name : {"_fused_adagrad_", "_fused_adagrad_.tensor_lr", "_fused_adam_.tensor_lr",
                           "_fused_adamw_.tensor_lr", "_fused_sgd_", "_fused_sgd_.tensor_lr"}) {
    m.impl(name, CppFunction::makeFromBoxedFunction<&ReturnNothing>());
  }
  m.impl("_logcumsumexp", CppFunction::makeFromBoxedFunction<&LikeArgument<0>>());
  m.impl("glu_jvp", CppFunction::makeFromBoxedFunction<&LikeArgument<0>>());
  m.impl("multi_margin_loss_backward", CppFunction::makeFromBoxedFunction<&LikeArgument<1>>());
  m.impl("multilabel_margin_loss_backward", CppFunction::makeFromBoxedFunction<&LikeArgument<1>>());
}

}  // namespace
}  // namespace torch_tpu::eager
