// SPDX-License-Identifier: Apache-2.0
#include "csrc/pjrt/xla_flags.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

namespace torch_tpu::pjrt {
namespace {

struct Search {
  const void* symbol;
  std::vector<std::string_view> constants;  // the library's segments that are only read
};

int CollectConstants(dl_phdr_info* info, size_t, void* user) {
  auto* search = static_cast<Search*>(user);
  auto address = reinterpret_cast<uintptr_t>(search->symbol);
  bool ours = false;
  std::vector<std::string_view> constants;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) & segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
    if (address >= begin && address < begin + segment.p_memsz) ours = true;
    if ((segment.p_flags & PF_R) && !(segment.p_flags & PF_W)) {
      constants.emplace_back(reinterpret_cast<const char*>(begin), segment.p_filesz);
    }
  }
  if (!ours) return 0;
  search->constants = std::move(constants);
  return 1;
}

// A value that does not start with "-" is a file of flags, as in XLA.
StatusOr<std::vector<std::string>> FlagNames(const char* variable) {
  const char* text = std::getenv(variable);
  std::string value = text ? text : "";
  if (!value.empty() && value[0] != '-') {
    std::ifstream file(value);
    if (!file) {
      return NotFound(StrCat("[pjrt] ", variable, ": expected flags or a file of flags, got '",
                             value, "'. Try: flags that start with '--'."));
    }
    value.assign(std::istreambuf_iterator<char>(file), {});
  }
  std::vector<std::string> names;
  std::istringstream words(value);
  for (std::string word; words >> word;) {
    if (word.compare(0, 2, "--") != 0) continue;
    names.push_back(word.substr(2, word.find('=') - 2));
  }
  return names;
}

bool Occurs(const Search& search, const std::string& name) {
  for (std::string_view constants : search.constants) {
    // With the closing zero: "xla_cpu" must not pass for "xla_cpu_max_isa".
    if (::memmem(constants.data(), constants.size(), name.c_str(), name.size() + 1)) return true;
  }
  return false;
}

}  // namespace

Status CheckXlaFlags(const void* symbol, const std::string& path) {
  Search search{symbol, {}};
  for (const char* variable : {"XLA_FLAGS", "LIBTPU_INIT_ARGS"}) {
    TT_ASSIGN_OR_RETURN(std::vector<std::string> names, FlagNames(variable));
    for (const std::string& name : names) {
      if (search.constants.empty()) ::dl_iterate_phdr(CollectConstants, &search);
      // A library that never mentions the variable does not read it.
      if (!Occurs(search, variable) || Occurs(search, name)) continue;
      return InvalidArgument(StrCat("[pjrt] ", variable, " has the flag '--", name, "', which ",
                                    path, " does not know. Try: remove it from ", variable, "."));
    }
  }
  return OkStatus();
}

}  // namespace torch_tpu::pjrt
