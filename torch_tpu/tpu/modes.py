# SPDX-License-Identifier: Apache-2.0
"""How eager ops run, and counters of what they did.

``strict`` runs each op as its own program, asynchronously. ``debug`` also waits for it and checks
it (index bounds too), so that an error is raised at the line that caused it. ``defer_and_fuse``
records ops into a bounded window that XLA compiles and fuses as one program; it ends at a host
read, at a size, or where the run of ops recurs. The mode is the process's.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

from torch_tpu import _C


def set_eager_mode(mode: str) -> None:
    """Sets the mode of the process.

    Args:
        mode: "strict", "debug" or "defer_and_fuse".

    Raises:
        ValueError: an unknown mode.
    """
    _C._set_mode(mode)


def get_eager_mode() -> str:
    """The mode of the process."""
    return _C._get_mode()


@contextlib.contextmanager
def eager_mode(mode: str) -> Iterator[None]:
    """Context form of :func:`set_eager_mode`; restores the mode before it. Process-wide."""
    previous = _C._get_mode()
    _C._set_mode(mode)
    try:
        yield
    finally:
        _C._set_mode(previous)


def metrics() -> dict[str, Any]:
    """Counters since the start or :func:`reset_metrics`.

    ``dispatches`` (ops that reached us), ``compiles``, ``compile_micros``, ``memory_hits`` and
    ``disk_hits`` of the program cache, ``executions``, ``host_reads`` (waits for the device),
    ``bytes_to_device``, ``bytes_to_host``; ``fallbacks``: ops run on the CPU for want of a
    lowering, a dict from aten overload to count; ``flushes``: windows of ``defer_and_fuse`` by the
    reason for which they closed.
    """
    return _C._metrics()


def reset_metrics() -> None:
    """Sets all counters to zero."""
    _C._reset_metrics()
