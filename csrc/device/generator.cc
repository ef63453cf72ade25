// SPDX-License-Identifier: Apache-2.0
#include "csrc/device/generator.h"

#include <ATen/Utils.h>
#include <c10/util/Exception.h>

#include <cstring>
#include <mutex>

#include "csrc/device/guard.h"
#include "csrc/device/timeline.h"

namespace torch_tpu::device {
namespace {

constexpr size_t kSeedBytes = sizeof(uint64_t);
constexpr size_t kStateBytes = 2 * sizeof(uint64_t);

struct Defaults {
  std::mutex mutex;
  at::Generator generators[Timeline::kMaxDevices];
  uint64_t seed = c10::default_rng_seed_val;
};

Defaults& GetDefaults() {
  static auto* defaults = new Defaults();
  return *defaults;
}

}  // namespace

Generator::Generator(c10::DeviceIndex device)
    : c10::GeneratorImpl(c10::Device(c10::DeviceType::PrivateUse1, device),
                         c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

PhiloxRange Generator::Next(uint64_t n) {
  std::lock_guard<std::mutex> lock(mutex_);
  PhiloxRange range{seed_, offset_};
  offset_ += (n + 3) / 4 * 4;
  return range;
}

void Generator::set_current_seed(uint64_t seed) {
  seed_ = seed;
  offset_ = 0;
}

void Generator::set_offset(uint64_t offset) {
  TORCH_CHECK(offset % 4 == 0, "tpu generator: expected an offset that is a multiple of 4, got ",
              offset);
  offset_ = offset;
}

uint64_t Generator::seed() {
  set_current_seed(c10::detail::getNonDeterministicRandom(/*is_cuda=*/true));
  return seed_;
}

c10::intrusive_ptr<c10::TensorImpl> Generator::get_state() const {
  at::Tensor state =
      at::detail::empty_cpu({static_cast<int64_t>(kStateBytes)}, at::kByte, {}, {}, {}, {});
  auto* bytes = state.mutable_data_ptr<uint8_t>();
  std::memcpy(bytes, &seed_, kSeedBytes);
  std::memcpy(bytes + kSeedBytes, &offset_, kSeedBytes);
  return state.getIntrusivePtr();
}

void Generator::set_state(const c10::TensorImpl& state) {
  at::detail::check_rng_state(state);
  const auto size = static_cast<size_t>(state.numel());
  // CUDA also takes a seed alone.
  TORCH_CHECK_VALUE(size == kStateBytes || size == kSeedBytes,
                    "tpu generator: expected a state of ", kStateBytes, " bytes, got ", size);
  const auto* bytes = state.data_dtype_initialized<uint8_t>();
  uint64_t seed = 0, offset = 0;
  std::memcpy(&seed, bytes, kSeedBytes);
  if (size == kStateBytes) std::memcpy(&offset, bytes + kSeedBytes, kSeedBytes);
  set_current_seed(seed);
  set_offset(offset);
}

Generator* Generator::clone_impl() const {
  auto* copy = new Generator(device().index());
  copy->seed_ = seed_;
  copy->offset_ = offset_;
  return copy;
}

const at::Generator& DefaultGenerator(c10::DeviceIndex device) {
  device = CheckedDevice(device);
  Defaults& defaults = GetDefaults();
  std::lock_guard<std::mutex> lock(defaults.mutex);
  at::Generator& generator = defaults.generators[device];
  if (!generator.defined()) {
    generator = at::make_generator<Generator>(device);
    generator.set_current_seed(defaults.seed);
  }
  return generator;
}

void SeedAllGenerators(uint64_t seed) {
  Defaults& defaults = GetDefaults();
  std::lock_guard<std::mutex> lock(defaults.mutex);
  defaults.seed = seed;
  for (at::Generator& generator : defaults.generators) {
    if (!generator.defined()) continue;
    std::lock_guard<std::mutex> generator_lock(generator.mutex());
    generator.set_current_seed(seed);
  }
}

Generator& GeneratorFor(const std::optional<at::Generator>& given, c10::DeviceIndex device) {
  if (!given.has_value() || !given->defined()) {
    return static_cast<Generator&>(*DefaultGenerator(device).unsafeGetGeneratorImpl());
  }
  TORCH_CHECK(given->device().type() == c10::DeviceType::PrivateUse1,
              "Expected a 'tpu' device type for generator but found '", given->device().type(),
              "'");
  return static_cast<Generator&>(*given->unsafeGetGeneratorImpl());
}

}  // namespace torch_tpu::device
