# SPDX-License-Identifier: Apache-2.0
# The C++ part, for type checkers. Its names are private; torch_tpu/tpu/ documents the public ones.
from typing import Any

def __getattr__(name: str) -> Any: ...
