// SPDX-License-Identifier: Apache-2.0
// Ref<T>: an intrusive reference. T derives from RefCounted<T>. One pointer, thread-safe counts.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace torch_tpu {

template <typename T>
class RefCounted {
 public:
  void AddRef() const { refs_.fetch_add(1, std::memory_order_relaxed); }
  void Release() const {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete static_cast<const T*>(this);
  }
  // True when the caller's reference is the only one.
  bool unique() const { return use_count() == 1; }
  uint32_t use_count() const { return refs_.load(std::memory_order_acquire); }

 protected:
  RefCounted() = default;
  ~RefCounted() = default;

 private:
  mutable std::atomic<uint32_t> refs_{0};
};

template <typename T>
class Ref {
 public:
  Ref() = default;
  Ref(T* p) : p_(p) {  // NOLINT: implicit by design
    if (p_) p_->AddRef();
  }
  Ref(const Ref& o) : Ref(o.p_) {}
  Ref(Ref&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  Ref& operator=(Ref o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~Ref() {
    if (p_) p_->Release();
  }
  T* get() const { return p_; }
  T* operator->() const { return p_; }
  T& operator*() const { return *p_; }
  explicit operator bool() const { return p_ != nullptr; }

 private:
  T* p_ = nullptr;
};

}  // namespace torch_tpu
