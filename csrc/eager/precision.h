// SPDX-License-Identifier: Apache-2.0
// torch.get_float32_matmul_precision() for programs: "highest" by default, true float32.
#pragma once

namespace torch_tpu::eager {

// A small number for the key.
int MatmulPrecision();
// The same as XLA's precision_config.
const char* DotPrecision();

}  // namespace torch_tpu::eager
