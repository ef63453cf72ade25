// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/add.h>
#include <pybind11/stl.h>
#include <torch/csrc/autograd/python_variable.h>

#include <chrono>

#include "csrc/eager/mode.h"
#include "csrc/eager/register.h"
#include "csrc/program/explain.h"
#include "csrc/python/bindings.h"

namespace torch_tpu::python {
namespace {

namespace py = pybind11;

// Seconds per at::add of two tensors, called from C++ `count` times.
double BenchAdd(py::handle a, py::handle b, int64_t count) {
  at::Tensor x = THPVariable_Unpack(a.ptr()), y = THPVariable_Unpack(b.ptr());
  py::gil_scoped_release release;
  auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < count; ++i) at::add(x, y);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() /
         static_cast<double>(count);
}

// The innermost frame outside torch and this package: "file.py:12".
std::string UserLine() {
  if (!Py_IsInitialized()) return "";
  py::gil_scoped_acquire gil;
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  std::string line = frame == nullptr ? "backward" : "";
  while (frame != nullptr) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    std::string file = py::reinterpret_borrow<py::str>(code->co_filename);
    Py_DECREF(code);
    bool library = file.find("/torch/") != std::string::npos ||
                   file.find("/torch_tpu/") != std::string::npos || file.rfind("<", 0) == 0;
    if (!library) {
      line = file.substr(file.rfind('/') + 1) + ":" + std::to_string(PyFrame_GetLineNumber(frame));
      Py_DECREF(frame);
      break;
    }
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  return line;
}

py::list ExplainStop() {
  py::list records;
  for (const program::ExplainRecord& r : program::Explain::Stop()) {
    py::dict record;
    record["reason"] = r.reason;
    record["outcome"] = r.outcome;
    record["ops"] = r.ops;
    record["inputs"] = r.inputs;
    record["outputs"] = r.outputs;
    record["milliseconds"] = r.milliseconds;
    record["op_counts"] = r.op_counts;
    record["first_line"] = r.first_line;
    record["last_line"] = r.last_line;
    records.append(record);
  }
  return records;
}

}  // namespace

void BindEager(py::module_& m) {
  eager::InitMode();
  eager::RegisterOpTable();
  m.def("_set_mode", [](const std::string& name) { eager::SetMode(name); });
  m.def("_get_mode", [] { return std::string(eager::ModeName()); });
  m.def("_registered_overloads", &eager::RegisteredOverloads);
  m.def("_unusable_rows", &eager::UnusableRows);
  m.def("_bench_add", &BenchAdd);
  program::Explain::SetLineHook(&UserLine);
  m.def("_explain_start", &program::Explain::Start);
  m.def("_explain_stop", &ExplainStop);
}

}  // namespace torch_tpu::python
