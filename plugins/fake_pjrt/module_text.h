// SPDX-License-Identifier: Apache-2.0
// Reads the signature of @main from StableHLO text, and nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pjrt_c_api.h"

namespace fake_pjrt {

struct Type {
  PJRT_Buffer_Type element = PJRT_Buffer_Type_INVALID;
  std::vector<int64_t> dims;
  int64_t bytes() const;
  bool operator==(const Type& o) const { return element == o.element && dims == o.dims; }
};

struct Signature {
  struct Argument {
    Type type;
    bool donated = false;
    int aliased_output = -1;
  };
  std::vector<Argument> arguments;
  std::vector<Type> results;
};

int64_t ElementBytes(PJRT_Buffer_Type type);  // 0 when unknown

// False, with the reason in `error`, when there is no readable @main.
bool ParseSignature(const std::string& text, Signature* signature, std::string* error);

}  // namespace fake_pjrt
