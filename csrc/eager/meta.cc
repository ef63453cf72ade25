// SPDX-License-Identifier: Apache-2.0
#include "csrc/eager/meta.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/List.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace torch_tpu::eager {
namespace {

using c10::IValue;

// Meta twins of one call's tensors; one twin per tensor, so that aliasing arguments stay aliased.
class Twins {
 public:
  at::Tensor Of(const at::Tensor& tensor) {
    // A 0-dim CPU tensor takes part as it is: promotion treats numbers and wrapped numbers apart.
    if (!tensor.defined() || !tensor.is_privateuseone()) return tensor;
    for (const auto& [original, twin] : twins_) {
      if (original == tensor.unsafeGetTensorImpl()) return twin;
    }
    at::Tensor twin = at::empty_strided(tensor.sizes(), tensor.strides(),
                                        tensor.options().device(c10::DeviceType::Meta));
    twins_.emplace_back(tensor.unsafeGetTensorImpl(), twin);
    return twin;
  }

  IValue Of(const IValue& v) {
    if (v.isTensor()) return Of(v.toTensor());
    if (v.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const IValue& element : v.toListRef()) list.push_back(Of(element.toTensor()));
      return list;
    }
    if (v.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const IValue& element : v.toListRef()) {
        list.push_back(element.isNone() ? std::optional<at::Tensor>()
                                        : std::optional<at::Tensor>(Of(element.toTensor())));
      }
      return list;
    }
    if (v.isGenerator()) return IValue();
    if (v.isDevice()) return c10::Device(c10::DeviceType::Meta);
    return v;
  }

 private:
  std::vector<std::pair<const c10::TensorImpl*, at::Tensor>> twins_;
};

// ---- rules for ops whose meta kernel is missing or narrower than torch on CPU
// -----------------------

bool HasMeta(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::Meta) ||
         op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) ||
         op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional) ||
         op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
}

// _fused_sgd_ and the like: nothing to infer when every return is a written argument.
bool OnlyWrites(const c10::FunctionSchema& schema) {
  for (const c10::Argument& result : schema.returns()) {
    if (result.alias_info() == nullptr || !result.alias_info()->isWrite()) return false;
  }
  return schema.returns().empty();
}

// Gradients that output_mask leaves out are undefined; some meta kernels (batch norm) give them.
void ApplyOutputMask(const c10::FunctionSchema& schema, const IValue* args, size_t count,
                     torch::jit::Stack* results) {
  std::optional<int> position = schema.argumentIndexWithName("output_mask");
  if (!position || static_cast<size_t>(*position) >= count) return;
  const c10::List<bool> mask = args[*position].toBoolList();
  for (size_t i = 0; i < std::min(mask.size(), results->size()); ++i) {
    const bool fresh = schema.returns()[i].alias_info() == nullptr;
    if (fresh && !mask.get(i) && (*results)[i].isTensor()) (*results)[i] = at::Tensor();
  }
}

// _grouped_mm: the meta kernel takes bfloat16 alone, CPU every float dtype.
void GroupedMm(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  c10::ScalarType dtype = (*stack)[0].toTensor().scalar_type();
  for (int i : {0, 1}) (*stack)[i] = (*stack)[i].toTensor().to(at::kBFloat16);
  bool typed = stack->size() > 4 && !(*stack)[4].isNone();
  if (typed) (*stack)[4] = IValue();
  op.callBoxed(*stack);
  (*stack)[0] = (*stack)[0].toTensor().to(dtype);
}

// The meta kernel of the LSTM cell looks into absent biases: it is shown present ones.
void AddLstmBiases(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (op.operator_name().name != "aten::_thnn_fused_lstm_cell") return;
  const IValue& bias = (*stack)[3];
  if (bias.isTensor() && bias.toTensor().defined()) return;
  const at::Tensor& gates = (*stack)[0].toTensor();
  (*stack)[3] = (*stack)[4] = at::empty_strided({gates.size(1)}, {1}, gates.options());
}

}  // namespace

std::vector<IValue> RunMeta(const c10::OperatorHandle& op, const IValue* args, size_t count) {
  Twins twins;
  torch::jit::Stack stack;
  stack.reserve(count);
  for (size_t i = 0; i < count; ++i) stack.push_back(twins.Of(args[i]));
  AddLstmBiases(op, &stack);
  // Below autograd and autocast, and outside whatever mode the caller is in.
  at::AutoDispatchBelowADInplaceOrView guard;
  c10::impl::ExcludeDispatchKeyGuard modes(
      c10::DispatchKeySet(c10::DispatchKey::Python) |
      c10::DispatchKeySet(c10::DispatchKey::PythonTLSSnapshot) | c10::autocast_dispatch_keyset);
  if (!HasMeta(op) && OnlyWrites(op.schema())) return {};
  if (op.operator_name().name == "aten::_grouped_mm") {
    GroupedMm(op, &stack);
  } else {
    op.callBoxed(stack);
  }
  ApplyOutputMask(op.schema(), args, count, &stack);
  return stack;
}

std::vector<at::Tensor> FlattenTensors(const std::vector<IValue>& values) {
  std::vector<at::Tensor> tensors;
  for (const IValue& v : values) {
    if (v.isTensor()) {
      tensors.push_back(v.toTensor());
    } else if (v.isList()) {
      for (const IValue& element : v.toListRef()) {
        if (element.isTensor()) tensors.push_back(element.toTensor());
      }
    }
  }
  return tensors;
}

}  // namespace torch_tpu::eager
