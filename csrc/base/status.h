// SPDX-License-Identifier: Apache-2.0
// Status and StatusOr: how everything below device/ reports failure. No exceptions cross a folder
// boundary except hlo::Error, which ops::Lower catches.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace torch_tpu {

// Numeric values are those of absl::StatusCode and PJRT_Error_Code.
enum class Code : int {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
};

std::string_view CodeName(Code code);

// A null pointer when ok, so passing success costs a register.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message);

  bool ok() const { return rep_ == nullptr; }
  Code code() const { return rep_ ? rep_->code : Code::kOk; }
  const std::string& message() const;
  // "INVALID_ARGUMENT: message"
  std::string ToString() const;
  // The same code with `prefix` in front of the message.
  Status Annotate(std::string_view prefix) const;

 private:
  struct Rep {
    Code code;
    std::string message;
  };
  std::shared_ptr<const Rep> rep_;
};

inline Status OkStatus() { return Status(); }

// Concatenates anything with operator<< or std::string into one message.
template <typename... Args>
std::string StrCat(const Args&... args);

Status InvalidArgument(std::string message);
Status NotFound(std::string message);
Status FailedPrecondition(std::string message);
Status Unimplemented(std::string message);
Status Internal(std::string message);
Status ResourceExhausted(std::string message);

template <typename T>
class [[nodiscard]] StatusOr {
 public:
  StatusOr(Status status) : status_(std::move(status)) {}  // NOLINT: implicit by design
  StatusOr(T value) : value_(std::move(value)) {}          // NOLINT: implicit by design

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return std::move(*value_); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace torch_tpu

#define TT_CONCAT_INNER(a, b) a##b
#define TT_CONCAT(a, b) TT_CONCAT_INNER(a, b)

#define TT_RETURN_IF_ERROR(expr)            \
  do {                                      \
    ::torch_tpu::Status tt_status = (expr); \
    if (!tt_status.ok()) return tt_status;  \
  } while (false)

#define TT_ASSIGN_OR_RETURN(lhs, expr)                                                \
  auto TT_CONCAT(tt_or_, __LINE__) = (expr);                                          \
  if (!TT_CONCAT(tt_or_, __LINE__).ok()) return TT_CONCAT(tt_or_, __LINE__).status(); \
  lhs = std::move(TT_CONCAT(tt_or_, __LINE__)).value()

#include <sstream>

namespace torch_tpu {
template <typename... Args>
std::string StrCat(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return out.str();
}
}  // namespace torch_tpu
