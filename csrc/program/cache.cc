// SPDX-License-Identifier: Apache-2.0
#include "csrc/program/cache.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "csrc/base/counters.h"
#include "csrc/base/env.h"
#include "csrc/program/describe.h"
#include "csrc/program/payload.h"
#include "csrc/program/run_log.h"
#include "csrc/program/store_queue.h"
#include "csrc/program/value.h"

namespace torch_tpu::program {
namespace {

// "aten__add.Tensor-0123456789abcdef.mlir"; a window of several calls is named by its length.
void DumpModule(const Program& program, const std::string& text) {
  std::string folder = GetEnv("TORCH_TPU_DUMP_DIR");
  if (folder.empty()) return;
  std::string name = program.calls.size() == 1 ? program.calls[0].def->name
                                               : StrCat("window_", program.calls.size());
  for (char& c : name) {
    if (c == ':') c = '_';
  }
  std::ofstream(StrCat(folder, "/", name, "-", Sha256Hex(text).substr(0, 16), ".mlir")) << text;
}

// Keeps the text of a module that did not compile; gives where.
std::string KeepFailed(const std::string& text) {
  std::error_code error;
  std::string path = (std::filesystem::temp_directory_path(error) /
                      StrCat("torch_tpu_failed_", Sha256Hex(text).substr(0, 16), ".mlir"))
                         .string();
  // Others may write to the folder too: never through a link of theirs.
  int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return StrCat("no file: ", path, ": ", std::strerror(errno));
  bool good = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(fd);
  return good ? path : StrCat(path, " (cut off)");
}

}  // namespace

ProgramCache::ProgramCache(std::string fingerprint, std::unique_ptr<DiskCache> disk)
    : fingerprint_(std::move(fingerprint)), disk_(std::move(disk)) {}

namespace {
std::atomic<ProgramCache*> process_cache{nullptr};
std::atomic<int> refusals{0};
constexpr const char* kWordsLine = "words\n";  // between fingerprint and the program's own words
}  // namespace

ProgramCache& ProgramCache::Get() { return *process_cache.load(std::memory_order_acquire); }
void ProgramCache::Set(ProgramCache* cache) {
  process_cache.store(cache, std::memory_order_release);
}

StatusOr<Ref<CompiledProgram>> ProgramCache::Find(const Key& key, pjrt::Device* device,
                                                  const std::function<StatusOr<Program>()>& record,
                                                  const std::string& line) {
  if (device->index() >= CompiledProgram::kMaxDevices) {
    return Unimplemented(StrCat("device index ", device->index(), " is beyond the limit of ",
                                CompiledProgram::kMaxDevices, " devices in one process"));
  }
  Ref<CompiledProgram> program;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    Ref<CompiledProgram>& place = table_[key];
    if (!place) place = Ref<CompiledProgram>(new CompiledProgram());
    program = place;
  }
  if (program->executable(device->index()) != nullptr) {
    Count(Counter::kMemoryHits);
    return program;
  }
  // One thread makes it; the others wait here and find it made.
  std::lock_guard<std::mutex> lock(program->mutex_);
  if (program->executable(device->index()) == nullptr) {
    TT_RETURN_IF_ERROR(Fill(*program, key, device, record, line));
  } else {
    Count(Counter::kMemoryHits);
  }
  return program;
}

CompiledProgram::~CompiledProgram() {
  for (auto& executable : executables_) delete executable.load(std::memory_order_relaxed);
}

void CompiledProgram::Describe(std::vector<const hlo::Shape*> outputs,
                               std::vector<ops::BoundsCheck> checks) {
  if (described_) return;  // the same for each device; others may be reading it
  outputs_ = std::move(outputs);
  for (const hlo::Shape* shape : outputs_) output_bytes_.push_back(shape->bytes());
  checks_ = std::move(checks);
  described_ = true;
}

std::string ProgramCache::DiskKey(const Key& key) const {
  std::string text = fingerprint_ + kWordsLine;
  text.append(reinterpret_cast<const char*>(key.words.data()), key.words.size() * 8);
  return text;
}

std::unique_ptr<pjrt::Executable> ProgramCache::FromPayload(CompiledProgram& program,
                                                            std::string_view bytes,
                                                            pjrt::Device* device) {
  std::optional<Payload> payload = ParsePayload(bytes);
  if (!payload) return nullptr;
  size_t results = payload->outputs.size() + 2 * payload->checks.size();
  auto loaded = device->client().Load(payload->executable, device, results);
  if (!loaded.ok()) return nullptr;
  program.Describe(std::move(payload->outputs), std::move(payload->checks));
  return std::move(loaded).value();
}

std::unique_ptr<pjrt::Executable> ProgramCache::FromDisk(CompiledProgram& program, DiskCache& disk,
                                                         const std::string& disk_key,
                                                         pjrt::Device* device) {
  std::optional<std::string> payload = disk.Load(disk_key);
  if (!payload) return nullptr;
  std::unique_ptr<pjrt::Executable> executable = FromPayload(program, *payload, device);
  if (!executable) {  // intact, but not for this plugin
    disk.Remove(disk_key);
    return nullptr;
  }
  Count(Counter::kDiskHits);
  program.KeepSerialized(*std::move(payload), device->client());
  return executable;
}

void CompiledProgram::KeepSerialized(std::string bytes, const pjrt::Client& client) {
  if (client.devices().size() < 2) return;
  std::lock_guard<std::mutex> lock(serialized_mutex_);
  serialized_ = std::move(bytes);
}

void CompiledProgram::ForgetSerialized() {
  std::lock_guard<std::mutex> lock(serialized_mutex_);
  serialized_.clear();
}

std::string CompiledProgram::serialized() {
  std::lock_guard<std::mutex> lock(serialized_mutex_);
  return serialized_;
}

Status ProgramCache::Fill(CompiledProgram& program, const Key& key, pjrt::Device* device,
                          const std::function<StatusOr<Program>()>& record,
                          const std::string& line) {
  std::unique_ptr<pjrt::Executable> executable;
  if (program.described_ && device->client().devices().size() > 1) {
    StoreQueue::Get().Drain();  // another device's may be on its way
    std::string bytes = program.serialized();
    if (!bytes.empty()) executable = FromPayload(program, bytes, device);
  }
  std::shared_ptr<DiskCache> disk = this->disk();
  std::string disk_key = DiskKey(key);
  if (!executable) executable = FromDisk(program, *disk, disk_key, device);
  if (executable) {
    program.executables_[device->index()].store(executable.release(), std::memory_order_release);
    return OkStatus();
  }
  if (refusals.load() > 0) return Refuse(record);
  auto lock = std::make_shared<DiskCache::Lock>(disk->Acquire(disk_key));
  // Another process may have stored it between our look and our turn.
  if (lock->held()) executable = FromDisk(program, *disk, disk_key, device);
  std::string description;
  bool compiled = !executable;
  auto start = std::chrono::steady_clock::now();
  if (compiled) {
    TT_ASSIGN_OR_RETURN(executable, Compile(program, device, record, &description));
  }
  const pjrt::Executable* ready = executable.release();
  program.executables_[device->index()].store(ready, std::memory_order_release);
  if (!compiled) return OkStatus();
  auto micros = std::chrono::duration_cast<std::chrono::microseconds>(
                    std::chrono::steady_clock::now() - start)
                    .count();
  bool keep = disk->enabled() || device->client().devices().size() > 1;
  if (!keep) return OkStatus();
  StoreQueue::Get().Add([kept = Ref<CompiledProgram>(&program), ready, disk, lock, micros, line,
                         disk_key = std::move(disk_key), description = std::move(description)] {
    // Not every executable serializes; such a one lives in memory only.
    auto bytes = ready->Serialize();
    if (bytes.ok()) {
      std::string payload = ToPayload(kept->outputs(), kept->checks(), *bytes);
      disk->Store(disk_key, description, payload);
      kept->KeepSerialized(std::move(payload), ready->device()->client());
    }
    if (!disk->enabled() || DiskCache::read_only()) return;
    std::string words = description;
    std::replace(words.begin(), words.end(), '\n', '\t');
    AppendToRunLog(disk->folder(),
                   StrCat(EntryName(disk_key), "\t", micros, "\t", words, "\t", line));
  });
  return OkStatus();
}

StatusOr<std::unique_ptr<pjrt::Executable>> ProgramCache::Compile(
    CompiledProgram& program, pjrt::Device* device,
    const std::function<StatusOr<Program>()>& record, std::string* description) {
  TT_ASSIGN_OR_RETURN(Program recorded, record());
  TT_ASSIGN_OR_RETURN(Emitted emitted, Emit(recorded));
  DumpModule(recorded, emitted.text);
  auto start = std::chrono::steady_clock::now();
  auto compiled = device->client().Compile(emitted.text, device);
  Count(Counter::kCompileMicros, std::chrono::duration_cast<std::chrono::microseconds>(
                                     std::chrono::steady_clock::now() - start)
                                     .count());
  Count(Counter::kCompiles);
  if (!compiled.ok()) {
    return Status(
        compiled.status().code(),
        StrCat("[", DescribeOps(recorded), "] compile failed: ", compiled.status().message(),
               " (inputs ", DescribeInputs(recorded), "; outputs ", DescribeShapes(emitted.outputs),
               "; StableHLO in ", KeepFailed(emitted.text), ")"));
  }
  *description = DescribeLines(recorded, emitted.outputs);
  std::vector<const hlo::Shape*> outputs;
  for (const hlo::Shape& shape : emitted.outputs) outputs.push_back(InternShape(shape));
  program.Describe(std::move(outputs), std::move(emitted.checks));
  return compiled;
}

Status ProgramCache::Refuse(const std::function<StatusOr<Program>()>& record) {
  TT_ASSIGN_OR_RETURN(Program recorded, record());
  std::string folder = disk()->enabled() ? disk()->folder() : "(disk cache off)";
  return FailedPrecondition(StrCat(
      "[", DescribeOps(recorded), "] expected a compiled program in memory or in ", folder,
      " (torch.tpu.cache.refuse_to_compile), found none for inputs ", DescribeInputs(recorded),
      ". Try: run these shapes once outside of refuse_to_compile, or import a warm cache."));
}

void ProgramCache::RefuseToCompile(int delta) { refusals.fetch_add(delta); }
bool ProgramCache::refuses_to_compile() { return refusals.load(std::memory_order_relaxed) > 0; }

std::shared_ptr<DiskCache> ProgramCache::disk() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return disk_;
}

void ProgramCache::SetDisk(std::unique_ptr<DiskCache> disk) {
  std::lock_guard<std::mutex> lock(mutex_);
  disk_ = std::move(disk);
}

int64_t ProgramCache::size() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return std::count_if(table_.begin(), table_.end(), [](const auto& item) {
    const auto& all = item.second->executables_;
    return std::any_of(std::begin(all), std::end(all),
                       [](const auto& e) { return e.load() != nullptr; });
  });
}

void ProgramCache::Clear() {
  StoreQueue::Get().Drain();
  std::vector<std::unique_ptr<const pjrt::Executable>> retired;
  std::lock_guard<std::mutex> lock(mutex_);
  // The programs stay, for signatures point to them; the next use fills them again.
  for (auto& [key, program] : table_) {
    for (auto& place : program->executables_) {
      if (const pjrt::Executable* executable = place.exchange(nullptr))
        retired.emplace_back(executable);
    }
    program->ForgetSerialized();
  }
  retired_ = std::move(retired);
}

}  // namespace torch_tpu::program
