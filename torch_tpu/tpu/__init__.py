# SPDX-License-Identifier: Apache-2.0
"""``torch.tpu``: devices, streams, memory, random numbers and AMP, as ``torch.cuda`` has them.

Ours on top: :func:`metrics`, :func:`set_eager_mode`, :func:`eager_mode`.
"""

import torch

from torch_tpu import _C
from torch_tpu.tpu import amp, bucket, cache
from torch_tpu.tpu.amp import get_amp_supported_dtype, is_bf16_supported
from torch_tpu.tpu.devices import (
    DeviceProperties,
    _is_in_bad_fork,
    _lazy_init,
    current_device,
    device,
    device_count,
    device_of,
    get_device_capability,
    get_device_name,
    get_device_properties,
    init,
    is_available,
    is_initialized,
    set_device,
    synchronize,
)
from torch_tpu.tpu.explain import explain
from torch_tpu.tpu.memory import (
    empty_cache,
    host_memory_stats,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_host_memory_stats,
    reset_accumulated_memory_stats,
    reset_peak_host_memory_stats,
    reset_peak_memory_stats,
)
from torch_tpu.tpu.modes import (
    eager_mode,
    get_eager_mode,
    metrics,
    reset_metrics,
    set_eager_mode,
)
from torch_tpu.tpu.random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from torch_tpu.tpu.streams import (
    Event,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    set_stream,
    stream,
)


def __getattr__(name: str) -> tuple[torch.Generator, ...] | bool:
    # Counting devices may open the plugin, so not at import.
    if name == "default_generators":
        return tuple(_C._default_generator(i) for i in range(device_count()))
    # torch.utils.checkpoint saves and restores the generators of a device that says so.
    if name == "_initialized":
        return is_initialized()
    raise AttributeError(f"module 'torch.tpu' has no attribute {name!r}")


__all__ = [
    "DeviceProperties",
    "Event",
    "Stream",
    "StreamContext",
    "amp",
    "bucket",
    "cache",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "eager_mode",
    "empty_cache",
    "explain",
    "get_amp_supported_dtype",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_eager_mode",
    "get_rng_state",
    "get_rng_state_all",
    "host_memory_stats",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "metrics",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_metrics",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_eager_mode",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
]
_private = (_is_in_bad_fork, _lazy_init)  # asked for by torch core
