// SPDX-License-Identifier: Apache-2.0
// Every environment variable we read, in one table. docs/environment.md is generated from it; an
// unknown TORCH_TPU_* variable gets one warning that names the nearest known one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace torch_tpu {

struct EnvVar {
  const char* name;
  const char* fallback;     // value when unset
  const char* description;  // one sentence
};

const std::vector<EnvVar>& EnvTable();
// The variable's value, or its fallback. Aborts in debug builds when the name is not in the table.
std::string GetEnv(const char* name);
int64_t GetEnvInt(const char* name);  // fallback when unset or not a number
// Names of TORCH_TPU_* variables in the environment that the table lacks.
std::vector<std::string> UnknownEnv();

}  // namespace torch_tpu
