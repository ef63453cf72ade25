# SPDX-License-Identifier: Apache-2.0
"""Memory figures. Bytes are those of live device buffers; nothing is cached beyond them."""

from typing import Any

import torch

from torch_tpu import _C
from torch_tpu.tpu import devices
from torch_tpu.tpu.devices import Device


def empty_cache() -> None:
    """Returns unused pinned host memory; device memory is never held back."""
    torch._C._accelerator_emptyHostCache()


def memory_stats(device: Device = None) -> dict[str, Any]:
    """Figures by torch's keys, such as ``allocated_bytes.all.peak``; empty before first use."""
    return torch.accelerator.memory_stats(devices._index(device))


def memory_stats_as_nested_dict(device: Device = None) -> dict[str, Any]:
    """As :func:`memory_stats`, nested where the keys have dots."""
    nested: dict[str, Any] = {}
    for key, value in memory_stats(device).items():
        *groups, name = key.split(".")
        inner = nested
        for group in groups:
            inner = inner.setdefault(group, {})
        inner[name] = value
    return nested


def memory_allocated(device: Device = None) -> int:
    """Bytes of live device buffers."""
    return torch.accelerator.memory_allocated(devices._index(device))


def max_memory_allocated(device: Device = None) -> int:
    """The peak of :func:`memory_allocated` since the start or :func:`reset_peak_memory_stats`."""
    return torch.accelerator.max_memory_allocated(devices._index(device))


def memory_reserved(device: Device = None) -> int:
    """The same as :func:`memory_allocated`: nothing is reserved beyond what is used."""
    return torch.accelerator.memory_reserved(devices._index(device))


def max_memory_reserved(device: Device = None) -> int:
    """The same as :func:`max_memory_allocated`."""
    return torch.accelerator.max_memory_reserved(devices._index(device))


def reset_peak_memory_stats(device: Device = None) -> None:
    """Starts new peaks at the current figures."""
    torch.accelerator.reset_peak_memory_stats(devices._index(device))


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """Starts new counts of allocations and frees."""
    torch.accelerator.reset_accumulated_memory_stats(devices._index(device))


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """Free and total bytes. On the CPU runtime those of the machine."""
    devices._lazy_init()
    return torch.accelerator.get_memory_info(devices._index(device))


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """The figures as a table, in MiB.

    Args:
        abbreviated: leaves out the counts.
    """
    stats = memory_stats(device)
    mib = 1024 * 1024

    def row(title: str, current: str, peak: str) -> str:
        return f"{title:<20}{current:>16}{peak:>16}"

    allocated = (
        stats.get("allocated_bytes.all.current", 0),
        stats.get("allocated_bytes.all.peak", 0),
    )
    rows = [
        row(f"tpu:{devices._index(device)}", "current", "peak"),
        row("allocated", *(f"{n / mib:.1f} MiB" for n in allocated)),
    ]
    if not abbreviated:
        rows.append(row("live buffers", str(stats.get("allocation.all.current", 0)), ""))
        rows.append(row("out of memory", str(stats.get("num_ooms", 0)), ""))
    return "\n".join(rows)


def host_memory_stats() -> dict[str, Any]:
    """Figures of pinned host memory, by torch's keys, such as ``active_bytes.current``."""
    flat: dict[str, Any] = {}
    for key, value in _C._host_memory_stats().items():
        if isinstance(value, dict):
            flat.update({f"{key}.{name}": number for name, number in value.items()})
        else:
            flat[key] = value
    return flat


def reset_peak_host_memory_stats() -> None:
    """Starts new peaks of pinned host memory at the current figures."""
    _C._reset_peak_host_memory_stats()


def reset_accumulated_host_memory_stats() -> None:
    """Starts new counts of pinned allocations and frees."""
    _C._reset_accumulated_host_memory_stats()
