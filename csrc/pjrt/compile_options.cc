// SPDX-License-Identifier: Apache-2.0
// Writes xla.CompileOptionsProto by hand: a dozen fields, and no protobuf library that could clash
// with torch's. Field numbers are those of xla/pjrt/proto/compile_options.proto and xla.proto.
#include <charconv>

#include "csrc/pjrt/client.h"

namespace torch_tpu::pjrt {
namespace {

class ProtoWriter {
 public:
  void Int(int field, int64_t value) {
    Varint(static_cast<uint64_t>(field) << 3);
    Varint(static_cast<uint64_t>(value));
  }
  void Bytes(int field, std::string_view value) {
    Varint(static_cast<uint64_t>(field) << 3 | 2);
    Varint(value.size());
    bytes_.append(value);
  }
  void Packed(int field, const std::vector<int64_t>& values) {
    ProtoWriter packed;
    for (int64_t value : values) packed.Varint(static_cast<uint64_t>(value));
    Bytes(field, packed.bytes_);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

// One ComputationDevice per partition, each with the ids of its replicas.
std::string DeviceAssignment(const CompileOptions& options) {
  ProtoWriter assignment;
  assignment.Int(1, options.num_replicas);
  assignment.Int(2, options.num_partitions);
  for (int partition = 0; partition < options.num_partitions; ++partition) {
    std::vector<int64_t> ids;
    for (int replica = 0; replica < options.num_replicas; ++replica) {
      ids.push_back(options.device_ids[replica * options.num_partitions + partition]);
    }
    ProtoWriter computation;
    computation.Packed(1, ids);
    assignment.Bytes(3, computation.bytes());
  }
  return assignment.bytes();
}

std::string OverrideValue(const std::string& text) {
  ProtoWriter value;
  int64_t number = 0;
  const char* end = text.data() + text.size();
  auto parsed = std::from_chars(text.data(), end, number);
  if (text == "true" || text == "false") {
    value.Int(2, text == "true");
  } else if (!text.empty() && parsed.ec == std::errc() && parsed.ptr == end) {
    value.Int(3, number);
  } else {
    value.Bytes(1, text);
  }
  return value.bytes();
}

}  // namespace

std::string SerializeCompileOptions(const CompileOptions& options) {
  ProtoWriter build;
  // Without an assignment the device must be "none" (-1): zero would mean device 0.
  if (options.device_ids.empty()) build.Int(1, -1);
  build.Int(4, options.num_replicas);
  build.Int(5, options.num_partitions);
  if (options.use_spmd) build.Int(6, 1);
  if (!options.device_ids.empty()) build.Bytes(9, DeviceAssignment(options));
  if (options.use_shardy) build.Int(19, 1);
  if (options.effort != 0) build.Int(24, options.effort);
  ProtoWriter proto;
  proto.Bytes(3, build.bytes());
  for (const auto& [name, value] : options.overrides) {
    ProtoWriter entry;
    entry.Bytes(1, name);
    entry.Bytes(2, OverrideValue(value));
    proto.Bytes(7, entry.bytes());
  }
  return proto.bytes();
}

}  // namespace torch_tpu::pjrt
