// SPDX-License-Identifier: Apache-2.0
// Compiles StableHLO files for a TPU topology with libtpu, no chip needed. One JSON line per file:
//   {"name": "add", "ok": true, "seconds": 0.02, "memory": {...}, "cost": {...}}
//   {"name": "bad", "ok": false, "error": "INVALID_ARGUMENT: ..."}
// Exit code: 0 all compiled, 1 some did not, 2 nothing could be tried.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "csrc/pjrt/topology.h"

namespace torch_tpu::pjrt {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUsage =
    "usage: tpu_compile --libtpu PATH [--topology NAME] [--effort O0|O1|O2|O3] [--partitions N]\n"
    "                   [--shardy] FILE_OR_FOLDER...\n"
    "Compiles StableHLO text files (folders: their *.mlir files). Default topology: tpu7x:2x2x1.\n";

struct Arguments {
  std::string libtpu, topology = "tpu7x:2x2x1";
  CompileOptions options;
  std::vector<fs::path> files;
};

bool AddFiles(const fs::path& path, std::vector<fs::path>* files) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) {
    files->push_back(path);
    return true;
  }
  if (!fs::is_directory(path, error)) {
    std::fprintf(stderr, "tpu_compile: no file or folder '%s'\n", path.c_str());
    return false;
  }
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    if (entry.path().extension() == ".mlir") found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  files->insert(files->end(), found.begin(), found.end());
  return true;
}

bool Parse(int argc, char** argv, Arguments* arguments) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool takes_value =
        word == "--libtpu" || word == "--topology" || word == "--effort" || word == "--partitions";
    if (takes_value && i + 1 == argc) return false;
    const std::string value = takes_value ? argv[++i] : "";
    if (word == "--libtpu") {
      arguments->libtpu = value;
    } else if (word == "--topology") {
      arguments->topology = value;
    } else if (word == "--effort") {
      if (value.size() != 2 || value[0] != 'O' || value[1] < '0' || value[1] > '3') return false;
      arguments->options.effort = 9 + 10 * (value[1] - '0');  // xla's EffortLevel
    } else if (word == "--partitions") {
      arguments->options.num_partitions = std::atoi(value.c_str());
      arguments->options.use_spmd = arguments->options.num_partitions > 1;
    } else if (word == "--shardy") {
      arguments->options.use_shardy = true;
    } else if (word.compare(0, 2, "--") == 0 || !AddFiles(word, &arguments->files)) {
      return false;
    }
  }
  return !arguments->libtpu.empty() && !arguments->files.empty();
}

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (unsigned char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", c);
      out += escape;
    } else {
      out += static_cast<char>(c);
    }
  }
  return out + '"';
}

std::string Number(double value) {
  if (!std::isfinite(value)) return "null";
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

std::string ToJson(const std::string& name, const StatusOr<AotReport>& report) {
  std::string line = "{\"name\": " + Quoted(name);
  if (!report.ok())
    return line + ", \"ok\": false, \"error\": " + Quoted(report.status().ToString()) + "}";
  const MemoryReport& m = report->memory;
  line += ", \"ok\": true, \"seconds\": " + Number(report->compile_seconds);
  line += StrCat(", \"memory\": {\"generated_code\": ", m.generated_code,
                 ", \"arguments\": ", m.arguments, ", \"outputs\": ", m.outputs,
                 ", \"aliased\": ", m.aliased, ", \"temporaries\": ", m.temporaries,
                 ", \"peak\": ", m.peak, "}");
  std::string cost;
  for (const auto& [key, value] : report->cost) {
    if (key.find('{') != std::string::npos) continue;  // figures of single operands
    cost += (cost.empty() ? "" : ", ") + Quoted(key) + ": " + Number(value);
  }
  return line + ", \"cost\": {" + cost +
         StrCat("}, \"serialized\": ", report->serialized.size(), "}");
}

int Main(int argc, char** argv) {
  Arguments arguments;
  if (!Parse(argc, argv, &arguments)) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  SetAheadOfTimeEnvironment();
  auto plugin = Plugin::Load(arguments.libtpu);
  if (!plugin.ok()) {
    std::fprintf(stderr, "tpu_compile: %s\n", plugin.status().ToString().c_str());
    return 2;
  }
  auto topology = Topology::Create(*plugin, arguments.topology);
  if (!topology.ok()) {
    std::fprintf(stderr, "tpu_compile: %s\n", topology.status().ToString().c_str());
    return 2;
  }
  bool all_ok = true;
  for (const fs::path& path : arguments.files) {
    std::ifstream file(path, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    auto report = (*topology)->Compile(text, arguments.options);
    all_ok = all_ok && report.ok();
    std::printf("%s\n", ToJson(path.stem().string(), report).c_str());
    std::fflush(stdout);  // when libtpu dies on a module, the lines before it are kept
  }
  return all_ok ? 0 : 1;
}

}  // namespace
}  // namespace torch_tpu::pjrt

int main(int argc, char** argv) {
  const int code = torch_tpu::pjrt::Main(argc, argv);
  std::fflush(nullptr);
  _exit(code);  // libtpu's own exit handlers hang or crash without a chip
}
