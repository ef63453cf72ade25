// SPDX-License-Identifier: Apache-2.0
// Signature -> Entry: a small table per thread in front of a shared one. Entries live for the
// process.
#pragma once

#include <memory>

#include "csrc/base/hash.h"
#include "csrc/eager/table_op.h"

namespace torch_tpu::eager {

// Null on a miss.
const Entry* FindEntry(const Signature& signature, const Hash128& hash);
// Keeps the first of equal entries and gives the one that is kept.
const Entry* AddEntry(std::unique_ptr<Entry> entry, const Hash128& hash);

}  // namespace torch_tpu::eager
