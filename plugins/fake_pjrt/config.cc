// SPDX-License-Identifier: Apache-2.0
#include "plugins/fake_pjrt/config.h"

#include <cstdlib>
#include <sstream>

namespace fake_pjrt {
namespace {

bool ParseFailure(std::istringstream& words, bool named, std::vector<Failure>* out) {
  Failure failure;
  if (named && !(words >> failure.function)) return false;
  if (!(words >> failure.nth >> failure.code) || failure.code < 1 || failure.code > 16)
    return false;
  std::getline(words >> std::ws, failure.message);
  if (failure.message.empty()) failure.message = "injected failure";
  out->push_back(failure);
  return true;
}

bool Apply(const std::string& key, const std::string& value, Config* config) {
  std::istringstream words(value);
  if (key == "fail") return ParseFailure(words, true, &config->failures);
  if (key == "late") return ParseFailure(words, false, &config->late);
  if (key == "platform") return static_cast<bool>(words >> config->platform);
  if (key == "missing") {
    for (std::string name; std::getline(words, name, ',');) config->missing.insert(name);
    return true;
  }
  if (key == "api_major") return static_cast<bool>(words >> config->api_major);
  if (key == "api_minor") return static_cast<bool>(words >> config->api_minor);
  if (key == "api_struct_size") return static_cast<bool>(words >> config->api_struct_size);
  if (key == "args_growth") return static_cast<bool>(words >> config->args_growth);
  if (key == "devices") return static_cast<bool>(words >> config->devices);
  if (key == "memory_limit") return static_cast<bool>(words >> config->memory_limit);
  if (key == "memory_stats") return static_cast<bool>(words >> config->memory_stats);
  if (key == "delay_ms") return static_cast<bool>(words >> config->delay_ms);
  return false;
}

}  // namespace

State& GlobalState() {
  static auto* state = new State();
  return *state;
}

bool Configure(const std::string& text) {
  Config config;
  std::string entries = text;
  for (char& c : entries) {
    if (c == ';') c = '\n';
  }
  std::istringstream lines(entries);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    size_t equals = line.find('=');
    if (equals == std::string::npos) return false;
    if (!Apply(line.substr(0, equals), line.substr(equals + 1), &config)) return false;
  }
  State& state = GlobalState();
  std::lock_guard<std::mutex> lock(state.mutex);
  state.config = config;
  state.log.clear();
  state.calls.clear();
  state.violations = 0;
  return true;
}

Failure Enter(const std::string& function) {
  State& state = GlobalState();
  std::lock_guard<std::mutex> lock(state.mutex);
  state.log.push_back(function);
  int64_t call = ++state.calls[function];
  for (const Failure& failure : state.config.failures) {
    if (failure.function == function && (failure.nth == 0 || failure.nth == call)) return failure;
  }
  return {};
}

}  // namespace fake_pjrt
