// SPDX-License-Identifier: Apache-2.0
// Two hashes: Hash128, fast, for tables in memory (always followed by a content compare), and
// SHA-256 (FIPS 180-4), for names on disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace torch_tpu {

struct Hash128 {
  uint64_t lo = 0, hi = 0;
  bool operator==(const Hash128& o) const { return lo == o.lo && hi == o.hi; }
};

// Multiply-fold over 64-bit words: about 1 ns per word.
inline Hash128 HashWords(const uint64_t* words, size_t count) {
  auto fold = [](uint64_t a, uint64_t b) {
    __uint128_t product = static_cast<__uint128_t>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  };
  uint64_t lo = 0x9E3779B97F4A7C15ull ^ count, hi = 0xD6E8FEB86659FD93ull;
  for (size_t i = 0; i < count; ++i) {
    lo = fold(lo ^ words[i], 0xA0761D6478BD642Full);
    hi = fold(hi + words[i], 0xE7037ED1A0B428DBull) ^ lo;
  }
  return {fold(lo, 0x8EBC6AF09C88C6E3ull), fold(hi, 0x589965CC75374CC3ull)};
}

// Lower-case hex, 64 characters.
std::string Sha256Hex(std::string_view bytes);

}  // namespace torch_tpu
