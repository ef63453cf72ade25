// SPDX-License-Identifier: Apache-2.0
#include "csrc/eager/entry_table.h"

#include <cstring>
#include <shared_mutex>
#include <unordered_map>

namespace torch_tpu::eager {
namespace {

struct HashOf {
  size_t operator()(const Hash128& h) const { return h.lo; }
};

struct Shared {
  std::shared_mutex mutex;
  std::unordered_multimap<Hash128, std::unique_ptr<Entry>, HashOf> entries;
};

Shared& Table() {
  static auto* table = new Shared();
  return *table;
}

struct Line {
  Hash128 hash;
  const Entry* entry = nullptr;
};
constexpr size_t kLines = 2048;

Line& LineOf(const Hash128& hash) {
  static thread_local auto lines = std::make_unique<Line[]>(kLines);
  return lines[hash.lo % kLines];
}

template <typename Words>
bool Same(const Entry& entry, const Words& words) {
  const std::vector<uint64_t>& own = entry.recorded.words;
  return own.size() == words.size() &&
         std::memcmp(own.data(), words.data(), words.size() * sizeof(uint64_t)) == 0;
}

}  // namespace

const Entry* FindEntry(const Signature& signature, const Hash128& hash) {
  Line& line = LineOf(hash);
  if (line.entry != nullptr && line.hash == hash && Same(*line.entry, signature.words)) {
    return line.entry;
  }
  Shared& table = Table();
  std::shared_lock lock(table.mutex);
  auto [begin, end] = table.entries.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    if (!Same(*it->second, signature.words)) continue;
    line = {hash, it->second.get()};
    return line.entry;
  }
  return nullptr;
}

const Entry* AddEntry(std::unique_ptr<Entry> entry, const Hash128& hash) {
  Shared& table = Table();
  std::unique_lock lock(table.mutex);
  auto [begin, end] = table.entries.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    if (Same(*it->second, entry->recorded.words)) return it->second.get();
  }
  const Entry* kept = entry.get();
  table.entries.emplace(hash, std::move(entry));
  return kept;
}

}  // namespace torch_tpu::eager
