// SPDX-License-Identifier: Apache-2.0
#include "csrc/base/status.h"

namespace torch_tpu {

std::string_view CodeName(Code code) {
  switch (code) {
    case Code::kOk: return "OK";
    case Code::kCancelled: return "CANCELLED";
    case Code::kUnknown: return "UNKNOWN";
    case Code::kInvalidArgument: return "INVALID_ARGUMENT";
    case Code::kDeadlineExceeded: return "DEADLINE_EXCEEDED";
    case Code::kNotFound: return "NOT_FOUND";
    case Code::kAlreadyExists: return "ALREADY_EXISTS";
    case Code::kPermissionDenied: return "PERMISSION_DENIED";
    case Code::kResourceExhausted: return "RESOURCE_EXHAUSTED";
    case Code::kFailedPrecondition: return "FAILED_PRECONDITION";
    case Code::kAborted: return "ABORTED";
    case Code::kOutOfRange: return "OUT_OF_RANGE";
    case Code::kUnimplemented: return "UNIMPLEMENTED";
    case Code::kInternal: return "INTERNAL";
    case Code::kUnavailable: return "UNAVAILABLE";
    case Code::kDataLoss: return "DATA_LOSS";
  }
  return "UNKNOWN";
}

Status::Status(Code code, std::string message) {
  if (code != Code::kOk) rep_ = std::make_shared<const Rep>(Rep{code, std::move(message)});
}

const std::string& Status::message() const {
  static const std::string kEmpty;
  return rep_ ? rep_->message : kEmpty;
}

std::string Status::ToString() const {
  return ok() ? "OK" : StrCat(CodeName(rep_->code), ": ", rep_->message);
}

Status Status::Annotate(std::string_view prefix) const {
  return ok() ? *this : Status(rep_->code, StrCat(prefix, rep_->message));
}

Status InvalidArgument(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }
Status NotFound(std::string message) { return {Code::kNotFound, std::move(message)}; }
Status FailedPrecondition(std::string message) {
  return {Code::kFailedPrecondition, std::move(message)};
}
Status Unimplemented(std::string message) { return {Code::kUnimplemented, std::move(message)}; }
Status Internal(std::string message) { return {Code::kInternal, std::move(message)}; }
Status ResourceExhausted(std::string message) {
  return {Code::kResourceExhausted, std::move(message)};
}

}  // namespace torch_tpu
