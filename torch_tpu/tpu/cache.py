# SPDX-License-Identifier: Apache-2.0
"""``torch.tpu.cache``: compiled programs in memory and on disk, so that nothing compiles twice.

All modes share it. The disk part is on by default, under ``TORCH_TPU_CACHE_DIR`` or the user's
cache folder; see ``python -m torch_tpu cache --help`` for the same from the command line.
"""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from torch_tpu import _C


def enable(path: str | os.PathLike[str] | None = None) -> None:
    """Turns the disk cache on, also when ``TORCH_TPU_CACHE=0`` had turned it off.

    Args:
        path: the folder; made when absent, for this user alone. None: where it was, else
            ``TORCH_TPU_CACHE_DIR``, else ``torch_tpu`` in the user's cache folder.

    Raises:
        OSError: the folder cannot be used. What is compiled stays in memory then.
    """
    chosen = os.fspath(path) if path is not None else _C._cache_folder() or _default_folder()
    _C._cache_drain()
    _C._cache_set_folder(os.path.abspath(chosen))
    if not _C._cache_stats()["enabled"]:
        raise OSError(
            f"torch.tpu.cache: expected a folder of yours that others cannot write, got "
            f"{chosen!r}. Try: another path."
        )


def disable() -> None:
    """Turns the disk cache off: programs are kept in memory only."""
    _C._cache_drain()
    _C._cache_set_folder("")


def is_enabled() -> bool:
    """True when programs are read from and written to disk."""
    return _C._cache_stats()["enabled"]


def path() -> str | None:
    """The folder, or None when the disk cache is off."""
    return _C._cache_folder() or None


def max_size() -> int:
    """Size cap of the folder in bytes (``TORCH_TPU_CACHE_MAX_BYTES``, else 4 GiB)."""
    return _C._cache_max_bytes()


def set_max_size(max_bytes: int) -> None:
    """Sets the size cap in bytes and removes what exceeds it, the least recently used first.

    Raises:
        ValueError: a negative number.
    """
    if max_bytes < 0:
        raise ValueError(
            f"torch.tpu.cache.set_max_size: expected at least 0 bytes, got {max_bytes}"
        )
    _C._cache_set_max_bytes(max_bytes)
    _C._cache_prune(max_bytes)


def prune(max_bytes: int | None = None) -> int:
    """Removes the least recently used programs from disk until at most `max_bytes` remain.

    Returns:
        Bytes removed.
    """
    return _C._cache_prune(max_size() if max_bytes is None else max_bytes)


def clear(memory: bool = True, disk: bool = True) -> None:
    """Forgets compiled programs; later calls load or compile them again.

    Call it while no other thread runs ops on the device.
    """
    if memory:
        _C._cache_clear_memory()
    if disk:
        _C._cache_prune(0)


def stats() -> dict[str, Any]:
    """The state of the cache.

    ``programs`` in memory; ``folder``, ``enabled``, ``entries``, ``bytes`` and ``max_bytes`` of the
    disk part; ``read_only`` and ``refuses_to_compile``. What was compiled or found is counted by
    ``torch.tpu.metrics()``: ``compiles``, ``memory_hits``, ``disk_hits``.
    """
    _C._cache_drain()
    return _C._cache_stats()


@contextlib.contextmanager
def read_only() -> Iterator[None]:
    """Inside, programs are loaded from disk; nothing there is written or removed. Process-wide."""
    _C._cache_drain()
    _C._cache_hold_read_only(1)
    try:
        yield
    finally:
        _C._cache_drain()
        _C._cache_hold_read_only(-1)


@contextlib.contextmanager
def refuse_to_compile() -> Iterator[None]:
    """Inside, a program that is neither in memory nor on disk is an error. Process-wide.

    For a loop that must never stall on a compile: the ``RuntimeError`` names the ops and shapes.
    """
    _C._cache_refuse_to_compile(1)
    try:
        yield
    finally:
        _C._cache_refuse_to_compile(-1)


def _default_folder() -> str:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.environ.get("TORCH_TPU_CACHE_DIR") or os.path.join(base, "torch_tpu")


__all__ = [
    "clear",
    "disable",
    "enable",
    "is_enabled",
    "max_size",
    "path",
    "prune",
    "read_only",
    "refuse_to_compile",
    "set_max_size",
    "stats",
]
