// SPDX-License-Identifier: Apache-2.0
// One function per folder that Python sees; module.cc calls them. Names start with an underscore:
// the public names are those of torch_tpu/.
#pragma once

#include <pybind11/pybind11.h>

namespace torch_tpu::python {

void BindDevice(pybind11::module_& m);
void BindProgram(pybind11::module_& m);
void BindOps(pybind11::module_& m);
// Also registers the op table with the dispatcher.
void BindEager(pybind11::module_& m);

}  // namespace torch_tpu::python
