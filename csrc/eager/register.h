// SPDX-License-Identifier: Apache-2.0
// Registers every row of the op table, with its in-place and out= twins, for the PrivateUse1 key.
#pragma once

#include <string>
#include <vector>

namespace torch_tpu::eager {

// Once, when the module loads.
void RegisterOpTable();

// Rows that name no aten overload, or one that torch takes apart by itself: always empty in a sound
// build; a test looks.
const std::vector<std::string>& UnusableRows();
// Every overload that has a kernel from the table: "aten::add_.Tensor".
const std::vector<std::string>& RegisteredOverloads();

}  // namespace torch_tpu::eager
