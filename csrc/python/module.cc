// SPDX-License-Identifier: Apache-2.0
#include <c10/util/Exception.h>
#include <torch/csrc/Exceptions.h>

#include "csrc/device/hooks.h"
#include "csrc/python/bindings.h"

PYBIND11_MODULE(_C, m) {
  // torch.OutOfMemoryError, IndexError and so on, without the C++ stack in the text.
  pybind11::register_local_exception_translator([](std::exception_ptr error) {
    try {
      std::rethrow_exception(error);
    } catch (const c10::Error&) {
      torch::translate_exception_to_python(error);
    }
  });
  torch_tpu::device::RegisterHooks();
  torch_tpu::python::BindDevice(m);
  torch_tpu::python::BindProgram(m);
  torch_tpu::python::BindOps(m);
  torch_tpu::python::BindEager(m);
}
