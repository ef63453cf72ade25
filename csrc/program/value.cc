// SPDX-License-Identifier: Apache-2.0
#include "csrc/program/value.h"

#include <map>
#include <mutex>
#include <shared_mutex>
#include <utility>

namespace torch_tpu::program {

const hlo::Shape* InternShape(const hlo::Shape& shape) {
  static auto* mutex = new std::shared_mutex();
  static auto* table = new std::map<std::pair<hlo::DType, hlo::Dims>, const hlo::Shape*>();
  auto key = std::make_pair(shape.dtype, shape.dims);
  {
    std::shared_lock lock(*mutex);
    auto it = table->find(key);
    if (it != table->end()) return it->second;
  }
  std::unique_lock lock(*mutex);
  auto [it, inserted] = table->try_emplace(std::move(key), nullptr);
  if (inserted) it->second = new hlo::Shape(shape);
  return it->second;
}

Status Value::Await() const {
  TT_ASSIGN_OR_RETURN(pjrt::Event ready, buffer_.Ready());
  return ready.Await();
}

}  // namespace torch_tpu::program
