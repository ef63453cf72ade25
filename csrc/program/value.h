// SPDX-License-Identifier: Apache-2.0
// An immutable array on one device. Slots and programs share it; it never changes after it is made.
#pragma once

#include "csrc/base/ref.h"
#include "csrc/base/status.h"
#include "csrc/hlo/type.h"
#include "csrc/pjrt/client.h"

namespace torch_tpu::program {

// One address per distinct shape, for the life of the process: compare shapes by pointer first.
const hlo::Shape* InternShape(const hlo::Shape& shape);

class Value : public RefCounted<Value> {
 public:
  Value(const hlo::Shape* shape, pjrt::Buffer buffer)
      : shape_(shape), buffer_(std::move(buffer)) {}

  const hlo::Shape& shape() const { return *shape_; }
  const hlo::Shape* interned_shape() const { return shape_; }
  const pjrt::Buffer& buffer() const { return buffer_; }
  pjrt::Device* device() const { return buffer_.device(); }

  // Blocks until computed; the error of the program that failed to make it. Must not hold the GIL.
  Status Await() const;

 private:
  const hlo::Shape* shape_;
  pjrt::Buffer buffer_;
};

}  // namespace torch_tpu::program
