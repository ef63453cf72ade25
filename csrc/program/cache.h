// SPDX-License-Identifier: Apache-2.0
// The one cache of compiled programs: memory, then disk, then the compiler. Thread safe; a program
// is compiled once however many threads or processes ask. Callers must not hold the GIL on a miss.
// What was compiled goes to the disk in the background (program/store_queue.h), the lock of its key
// with it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "csrc/base/hash.h"
#include "csrc/base/ref.h"
#include "csrc/base/status.h"
#include "csrc/pjrt/client.h"
#include "csrc/program/disk_cache.h"
#include "csrc/program/program.h"

namespace torch_tpu::program {

// The content of a key: everything lowering and compiling can see that differs between programs of
// one process. What is the same for the whole process (versions, plugin, flags) is the fingerprint.
struct Key {
  std::vector<uint64_t> words;
  Hash128 hash;
};

// One compiled program; owns an executable per device, made on first use there.
class CompiledProgram : public RefCounted<CompiledProgram> {
 public:
  ~CompiledProgram();
  const std::vector<const hlo::Shape*>& outputs() const { return outputs_; }
  int64_t output_bytes(int index) const { return output_bytes_[index]; }
  const std::vector<ops::BoundsCheck>& checks() const { return checks_; }
  // Live outputs plus two per bounds check.
  size_t num_results() const { return outputs_.size() + 2 * checks_.size(); }
  // Null until ProgramCache::Find made one for the device.
  const pjrt::Executable* executable(int device) const {
    return executables_[device].load(std::memory_order_acquire);
  }

  static constexpr int kMaxDevices = 64;

 private:
  friend class ProgramCache;
  // Once; later calls change nothing.
  void Describe(std::vector<const hlo::Shape*> outputs, std::vector<ops::BoundsCheck> checks);
  // The payload for other devices; nothing is kept when there is only one.
  void KeepSerialized(std::string bytes, const pjrt::Client& client);
  void ForgetSerialized();
  std::string serialized();

  std::vector<const hlo::Shape*> outputs_;
  std::vector<int64_t> output_bytes_;
  std::vector<ops::BoundsCheck> checks_;
  std::atomic<const pjrt::Executable*> executables_[kMaxDevices] = {};
  bool described_ = false;
  std::mutex mutex_;  // held while compiling or loading
  std::mutex serialized_mutex_;
  std::string serialized_;
};

class ProgramCache {
 public:
  // `fingerprint`: see Fingerprint below; part of each disk key.
  ProgramCache(std::string fingerprint, std::unique_ptr<DiskCache> disk);

  // The process's cache; set once, before any program is asked for.
  static ProgramCache& Get();
  static void Set(ProgramCache* cache);

  // Ready to run on `device`. `record` is called on a miss only, on this thread. A failed compile
  // names ops, shapes and a file with the StableHLO; nothing of it is kept.
  // `line` is the user's, for the log of what was compiled; "" when unknown.
  StatusOr<Ref<CompiledProgram>> Find(const Key& key, pjrt::Device* device,
                                      const std::function<StatusOr<Program>()>& record,
                                      const std::string& line = "");

  std::shared_ptr<DiskCache> disk() const;
  void SetDisk(std::unique_ptr<DiskCache> disk);
  int64_t size() const;  // programs in memory
  // Forgets the executables in memory: the next use loads or compiles again. No other thread may be
  // running ops. They are freed by the next Clear.
  void Clear();

  // Adds to the number of holders who want a miss to be an error, in the whole process.
  static void RefuseToCompile(int delta);
  static bool refuses_to_compile();

 private:
  struct KeyHash {
    size_t operator()(const Key& k) const { return k.hash.lo; }
  };
  struct KeyEqual {
    bool operator()(const Key& a, const Key& b) const {
      return a.hash == b.hash && a.words == b.words;
    }
  };
  Status Fill(CompiledProgram& program, const Key& key, pjrt::Device* device,
              const std::function<StatusOr<Program>()>& record, const std::string& line);
  std::string DiskKey(const Key& key) const;
  // Null when there is nothing usable.
  std::unique_ptr<pjrt::Executable> FromPayload(CompiledProgram& program, std::string_view bytes,
                                                pjrt::Device* device);
  std::unique_ptr<pjrt::Executable> FromDisk(CompiledProgram& program, DiskCache& disk,
                                             const std::string& disk_key, pjrt::Device* device);
  StatusOr<std::unique_ptr<pjrt::Executable>> Compile(
      CompiledProgram& program, pjrt::Device* device,
      const std::function<StatusOr<Program>()>& record, std::string* description);
  Status Refuse(const std::function<StatusOr<Program>()>& record);

  std::string fingerprint_;
  std::shared_ptr<DiskCache> disk_;
  std::vector<std::unique_ptr<const pjrt::Executable>> retired_;
  mutable std::mutex mutex_;
  std::unordered_map<Key, Ref<CompiledProgram>, KeyHash, KeyEqual> table_;
};

// Everything outside a program that its executable depends on: builder and op table content, torch
// version, plugin content and attributes, platform, device kind, CPU model and flags, flag
// variables.
StatusOr<std::string> Fingerprint(pjrt::Client& client, std::string_view torch_version);

// Hash of the sources of hlo/, ops/ and program/, made by the build.
extern const char kContentHash[];

}  // namespace torch_tpu::program
