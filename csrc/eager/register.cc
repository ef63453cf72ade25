// SPDX-License-Identifier: Apache-2.0
#include "csrc/eager/register.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <map>
#include <memory>
#include <optional>
#include <set>

#include "csrc/eager/table_op.h"

namespace torch_tpu::eager {
namespace {

// Overloads with kernels of their own in this folder (copy.cc, dynamic.cc).
const std::set<std::string>& HandWritten() {
  static const auto* names = new std::set<std::string>{"copy_"};
  return *names;
}

std::vector<std::string>& Unusable() {
  static auto* rows = new std::vector<std::string>();
  return *rows;
}

std::vector<std::string>& Registered() {
  static auto* names = new std::vector<std::string>();
  return *names;
}

std::string FullName(const std::string& base, const std::string& overload) {
  return overload.empty() ? base : base + "." + overload;
}

bool Writes(const c10::FunctionSchema& schema) {
  for (const c10::Argument& argument : schema.arguments()) {
    if (argument.alias_info() && argument.alias_info()->isWrite()) return true;
  }
  return false;
}

// Equal arguments by name and type, out= aside.
bool SameInputs(const c10::FunctionSchema& a, const c10::FunctionSchema& b) {
  std::vector<const c10::Argument*> inputs[2];
  for (int side = 0; side < 2; ++side) {
    for (const c10::Argument& argument : (side == 0 ? a : b).arguments()) {
      if (!argument.is_out()) inputs[side].push_back(&argument);
    }
  }
  if (inputs[0].size() != inputs[1].size()) return false;
  for (size_t i = 0; i < inputs[0].size(); ++i) {
    if (inputs[0][i]->name() != inputs[1][i]->name() ||
        *inputs[0][i]->real_type() != *inputs[1][i]->real_type()) {
      return false;
    }
  }
  return true;
}

class Registrar {
 public:
  Registrar()
      : library_(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__) {
    for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
      if (name.name.rfind("aten::", 0) == 0)
        overloads_[name.name.substr(6)].push_back(name.overload_name);
    }
  }

  void Add(const ops::OpDef* def) {
    if (def->name.rfind("aten::", 0) != 0) return;
    std::string name = def->name.substr(6), overload;
    if (size_t dot = name.find('.'); dot != std::string::npos) {
      overload = name.substr(dot + 1);
      name.resize(dot);
    }
    std::optional<c10::OperatorHandle> op = Find(name, overload);
    if (!op) {
      Unusable().push_back(def->name + ": no such overload");
      return;
    }
    if (TakenApart(*op)) {
      Unusable().push_back(def->name + ": composite, torch takes it apart");
      return;
    }
    Implement(name, overload, def, *op, std::nullopt);
    if (Writes(op->schema())) return;
    // Twins: name_ of the same overload, and each out= overload with the same inputs.
    if (auto twin = Find(name + "_", overload); twin && SameInputs(op->schema(), twin->schema())) {
      Implement(name + "_", overload, def, *twin, op);
    }
    for (const std::string& other : overloads_[name]) {
      std::optional<c10::OperatorHandle> twin = Find(name, other);
      if (twin && IsOut(twin->schema()) && SameInputs(op->schema(), twin->schema())) {
        Implement(name, other, def, *twin, op);
      }
    }
  }

 private:
  static std::optional<c10::OperatorHandle> Find(const std::string& name,
                                                 const std::string& overload) {
    return c10::Dispatcher::singleton().findSchema({"aten::" + name, overload});
  }

  // A kernel of ours would hide the composite from autograd, unless torch has a formula beside it.
  static bool TakenApart(const c10::OperatorHandle& op) {
    return op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
           !op.hasKernelForDispatchKey(c10::DispatchKey::Autograd);
  }

  static bool IsOut(const c10::FunctionSchema& schema) {
    for (const c10::Argument& argument : schema.arguments()) {
      if (argument.is_out()) return true;
    }
    return false;
  }

  void Implement(const std::string& name, const std::string& overload, const ops::OpDef* def,
                 const c10::OperatorHandle& op, std::optional<c10::OperatorHandle> functional) {
    std::string full = FullName(name, overload);
    if (HandWritten().count(full)) return;
    if (TakenApart(op)) return;
    // A row of its own comes before a twin's.
    if (functional && ops::FindOp("aten::" + full) != nullptr) return;
    if (!done_.insert(full).second) return;
    library_.impl(full.c_str(), torch::CppFunction::makeFromBoxedFunctor(
                                    std::make_unique<TableOp>(def, op, std::move(functional))));
    Registered().push_back("aten::" + full);
  }

  torch::Library library_;
  std::map<std::string, std::vector<std::string>> overloads_;
  std::set<std::string> done_;
};

}  // namespace

void RegisterOpTable() {
  // Leaked: registrations live as long as the dispatcher.
  static auto* registrar = new Registrar();
  for (const ops::OpDef* def : ops::AllOps()) registrar->Add(def);
}

const std::vector<std::string>& UnusableRows() { return Unusable(); }
const std::vector<std::string>& RegisteredOverloads() { return Registered(); }

}  // namespace torch_tpu::eager
