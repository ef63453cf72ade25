// SPDX-License-Identifier: Apache-2.0
// Bindings of ops/: the table, for the coverage page and the op suite.
#include <filesystem>

#include "csrc/ops/op.h"
#include "csrc/python/bindings.h"

namespace torch_tpu::python {
namespace {

namespace py = pybind11;

const char* ToleranceName(ops::Tolerance tolerance) {
  switch (tolerance) {
    case ops::Tolerance::kExact: return "exact";
    case ops::Tolerance::kElementwise: return "elementwise";
    case ops::Tolerance::kAccumulate: return "accumulate";
    case ops::Tolerance::kApproximate: return "approximate";
    case ops::Tolerance::kRandom: return "random";
  }
  return "";
}

py::list OpTable() {
  py::list out;
  for (const ops::OpDef* op : ops::AllOps()) {
    py::dict row;
    row["name"] = op->name;
    row["family"] = std::filesystem::path(op->file).stem().string();
    row["tolerance"] = ToleranceName(op->options.tolerance);
    row["limitation"] = op->options.limitation;
    out.append(row);
  }
  return out;
}

}  // namespace

void BindOps(py::module_& m) { m.def("_op_table", &OpTable); }

}  // namespace torch_tpu::python
