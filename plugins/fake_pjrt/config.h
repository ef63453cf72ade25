// SPDX-License-Identifier: Apache-2.0
// What the fake plugin was told to do, and what was done to it. README.md lists the keys.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace fake_pjrt {

struct Failure {
  std::string function;
  int64_t nth = 0;  // 0: every call
  int code = 0;
  std::string message;
};

struct Config {
  int api_major = 0, api_minor = 81;
  int64_t api_struct_size = -1;  // -1: the header's
  std::set<std::string> missing;
  int64_t args_growth = 0;
  std::string platform = "cpu";
  int devices = 1;
  int64_t memory_limit = -1;
  bool memory_stats = false;
  int delay_ms = 0;
  std::vector<Failure> failures;
  std::vector<Failure> late;  // function is empty
};

// Process-wide and leaked. Hold the mutex for all but the atomics.
struct State {
  std::mutex mutex;
  Config config;
  std::vector<std::string> log;
  std::map<std::string, int64_t> calls;
  std::atomic<int64_t> live{0}, violations{0};
};
State& GlobalState();

// False when a key or value is not understood; the state is then unchanged.
bool Configure(const std::string& text);

// Counts and logs a call; the failure to inject, if any (code 0: none).
Failure Enter(const std::string& function);

}  // namespace fake_pjrt
