# SPDX-License-Identifier: Apache-2.0
"""Mixed precision: short forms of ``torch.autocast("tpu")`` and ``torch.amp.GradScaler("tpu")``."""

import functools

import torch

GradScaler = functools.partial(torch.amp.GradScaler, "tpu")
"""``torch.amp.GradScaler`` for the device. bfloat16, the usual choice, needs no scaling."""


class autocast(torch.amp.autocast_mode.autocast):
    """``torch.autocast("tpu")`` with bfloat16 as the default dtype."""

    def __init__(
        self,
        enabled: bool = True,
        dtype: torch.dtype = torch.bfloat16,
        cache_enabled: bool = True,
    ) -> None:
        super().__init__("tpu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes autocast may use."""
    return [torch.bfloat16, torch.float16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Always True."""
    return True
