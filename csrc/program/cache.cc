// SPDX-License-Identifier: Apache-2.0
#include "csrc/program/cache.h"

#include <chrono>
#include <cstring>
#include <fstream>
#include <optional>
#include <utility>

#include "csrc/base/counters.h"
#include "csrc/base/env.h"
#include "csrc/program/value.h"

namespace torch_tpu::program {
namespace {

// ---- payload: output shapes, bounds checks, serialized executable ------------------------------

class Writer {
 public:
  void Int(int64_t v) { out_.append(reinterpret_cast<const char*>(&v), sizeof v); }
  void Text(std::string_view text) {
    Int(static_cast<int64_t>(text.size()));
    out_.append(text);
  }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

class Reader {
 public:
  explicit Reader(std::string_view in) : in_(in) {}
  int64_t Int() {
    int64_t v = 0;
    if (in_.size() < sizeof v) return good_ = false;
    std::memcpy(&v, in_.data(), sizeof v);
    in_.remove_prefix(sizeof v);
    return v;
  }
  std::string_view Text() {
    uint64_t size = static_cast<uint64_t>(Int());
    if (size > in_.size()) {
      good_ = false;
      return {};
    }
    std::string_view text = in_.substr(0, size);
    in_.remove_prefix(size);
    return text;
  }
  // A count of things that take at least eight bytes each.
  size_t Count() {
    uint64_t n = static_cast<uint64_t>(Int());
    if (n > in_.size() / 8) good_ = false;
    return good_ ? n : 0;
  }
  bool done() const { return good_ && in_.empty(); }

 private:
  std::string_view in_;
  bool good_ = true;
};

hlo::DType DTypeByName(std::string_view name) {
  for (int i = 1; i <= static_cast<int>(hlo::DType::kF8E5M2); ++i) {
    auto dtype = static_cast<hlo::DType>(i);
    if (hlo::Name(dtype) == name) return dtype;
  }
  return hlo::DType::kInvalid;
}

std::string ToPayload(const std::vector<const hlo::Shape*>& outputs,
                      const std::vector<ops::BoundsCheck>& checks, std::string_view executable) {
  Writer w;
  w.Int(static_cast<int64_t>(outputs.size()));
  for (const hlo::Shape* shape : outputs) {
    w.Text(hlo::Name(shape->dtype));
    w.Int(shape->rank());
    for (int64_t dim : shape->dims) w.Int(dim);
  }
  w.Int(static_cast<int64_t>(checks.size()));
  for (const ops::BoundsCheck& check : checks) {
    w.Int(check.bound);
    w.Int(check.wrap);
    w.Text(check.argument);
  }
  w.Text(executable);
  return w.Take();
}

std::string CpuIdentity() {
  std::ifstream info("/proc/cpuinfo");
  std::string line, identity;
  while (std::getline(info, line) && !line.empty()) {
    if (line.rfind("model name", 0) == 0 || line.rfind("flags", 0) == 0 ||
        line.rfind("Features", 0) == 0 || line.rfind("CPU part", 0) == 0) {
      identity += line + "\n";
    }
  }
  return identity;
}

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

}  // namespace

ProgramCache::ProgramCache(std::string fingerprint, std::unique_ptr<DiskCache> disk)
    : fingerprint_(std::move(fingerprint)), disk_(std::move(disk)) {}

void CompiledProgram::SetOutputs(std::vector<const hlo::Shape*> outputs) {
  outputs_ = std::move(outputs);
  output_bytes_.clear();
  for (const hlo::Shape* shape : outputs_) output_bytes_.push_back(shape->bytes());
}

namespace {
std::atomic<ProgramCache*> process_cache{nullptr};
}

ProgramCache& ProgramCache::Get() { return *process_cache.load(std::memory_order_acquire); }
void ProgramCache::Set(ProgramCache* cache) {
  process_cache.store(cache, std::memory_order_release);
}

StatusOr<Ref<CompiledProgram>> ProgramCache::Find(
    const Key& key, pjrt::Device* device, const std::function<StatusOr<Program>()>& record) {
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
    TT_RETURN_IF_ERROR(Fill(*program, key, device, record));
  } else {
    Count(Counter::kMemoryHits);
  }
  return program;
}

std::unique_ptr<pjrt::Executable> ProgramCache::FromPayload(CompiledProgram& program,
                                                            std::string_view payload,
                                                            pjrt::Device* device) {
  Reader r(payload);
  std::vector<const hlo::Shape*> outputs;
  for (size_t n = r.Count(); n > 0; --n) {
    hlo::Shape shape;
    shape.dtype = DTypeByName(r.Text());
    if (shape.dtype == hlo::DType::kInvalid) return nullptr;
    for (size_t rank = r.Count(); rank > 0; --rank) shape.dims.push_back(r.Int());
    outputs.push_back(InternShape(shape));
  }
  std::vector<ops::BoundsCheck> checks;
  for (size_t n = r.Count(); n > 0; --n) {
    ops::BoundsCheck check;
    check.bound = r.Int();
    check.wrap = r.Int() != 0;
    check.argument = std::string(r.Text());
    checks.push_back(std::move(check));
  }
  std::string_view bytes = r.Text();
  if (!r.done()) return nullptr;
  auto loaded = device->client().Load(bytes, device, outputs.size() + 2 * checks.size());
  if (!loaded.ok()) return nullptr;
  program.SetOutputs(std::move(outputs));
  program.checks_ = std::move(checks);
  return std::move(loaded).value();
}

Status ProgramCache::Fill(CompiledProgram& program, const Key& key, pjrt::Device* device,
                          const std::function<StatusOr<Program>()>& record) {
  std::string disk_key = fingerprint_;
  disk_key.append(reinterpret_cast<const char*>(key.words.data()), key.words.size() * 8);
  std::unique_ptr<pjrt::Executable> executable;
  if (!program.serialized_.empty()) executable = FromPayload(program, program.serialized_, device);
  auto from_disk = [&] {
    std::optional<std::string> payload = disk_->Load(disk_key);
    if (payload) executable = FromPayload(program, *payload, device);
    if (!executable) return false;
    Count(Counter::kDiskHits);
    program.serialized_ = *std::move(payload);
    return true;
  };
  if (!executable && !from_disk()) {
    DiskCache::Lock lock = disk_->Acquire(disk_key);
    if (!lock.waited() || !from_disk()) {
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
        const ops::Call& call = recorded.calls.front();
        return compiled.status().Annotate(
            StrCat("[", call.schema ? call.schema->name : call.def->name, "] compile failed: "));
      }
      executable = std::move(compiled).value();
      std::vector<const hlo::Shape*> outputs;
      for (const hlo::Shape& shape : emitted.outputs) outputs.push_back(InternShape(shape));
      program.SetOutputs(std::move(outputs));
      program.checks_ = std::move(emitted.checks);
      // Not every executable serializes; such a one lives in memory only.
      auto bytes = executable->Serialize();
      if (bytes.ok()) {
        program.serialized_ = ToPayload(program.outputs_, program.checks_, *bytes);
        disk_->Store(disk_key, program.serialized_);
      }
    }
  }
  program.executables_[device->index()].store(executable.release(), std::memory_order_release);
  return OkStatus();
}

int64_t ProgramCache::size() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int64_t>(table_.size());
}

void ProgramCache::Clear() {
  std::lock_guard<std::mutex> lock(mutex_);
  table_.clear();
}

StatusOr<std::string> Fingerprint(pjrt::Client& client, std::string_view torch_version) {
  TT_ASSIGN_OR_RETURN(std::string plugin, client.plugin().Fingerprint());
  std::string print =
      StrCat("content ", kContentHash, "\ntorch ", torch_version, "\nplugin ", plugin,
             "\nplatform ", client.platform(), " ", client.platform_version(), "\n");
  if (!client.devices().empty()) print += StrCat("device ", client.devices()[0]->kind(), "\n");
  if (client.platform() == "cpu") print += CpuIdentity();
  for (const char* flags : {"XLA_FLAGS", "LIBTPU_INIT_ARGS", "NPROC"}) {
    print += StrCat(flags, "=", GetEnv(flags), "\n");
  }
  return print;
}

}  // namespace torch_tpu::program
