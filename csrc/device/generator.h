// SPDX-License-Identifier: Apache-2.0
// The device's random generator: a Philox seed and offset. Its state is CUDA's: 16 bytes, seed then
// offset, little endian. The numbers are made on the device, a counter per element; the host only
// hands out ranges of the offset, so every mode draws the same numbers.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

#include <cstdint>
#include <optional>

namespace torch_tpu::device {

struct PhiloxRange {
  uint64_t seed;
  uint64_t offset;
};

// As for any torch generator the virtual methods expect the caller to hold mutex_; Next takes it.
class Generator final : public c10::GeneratorImpl {
 public:
  explicit Generator(c10::DeviceIndex device);

  // Thread safe. The seed and the current offset; advances the offset by n rounded up to a multiple
  // of 4, as CUDA's Philox wants it.
  PhiloxRange Next(uint64_t n);
  uint64_t NextOffset(uint64_t n) { return Next(n).offset; }

  void set_current_seed(uint64_t seed) override;  // offset becomes 0
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override { return offset_; }
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

  static c10::DeviceType device_type() { return c10::DeviceType::PrivateUse1; }

 private:
  Generator* clone_impl() const override;

  uint64_t seed_ = c10::default_rng_seed_val;
  uint64_t offset_ = 0;
};

// The default generator of a device (negative: the current one). Does not open the plugin.
const at::Generator& DefaultGenerator(c10::DeviceIndex device);
// Seeds the default generators of all devices, also those made later.
void SeedAllGenerators(uint64_t seed);

// The generator an op was given, or the default one of `device`; an error when it belongs
// elsewhere.
Generator& GeneratorFor(const std::optional<at::Generator>& given, c10::DeviceIndex device);

}  // namespace torch_tpu::device
