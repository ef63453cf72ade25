# SPDX-License-Identifier: Apache-2.0
"""Which devices there are, which one is current, and waiting for them."""

import warnings
from typing import Any, NamedTuple

import torch

from torch_tpu import _C

Device = torch.device | int | str | None


class DeviceProperties(NamedTuple):
    """What the runtime says about a device."""

    name: str
    """The device kind, such as "TPU v7x" or "cpu"."""
    platform: str
    """"tpu", "cpu" or "cuda": the runtime behind the device."""
    total_memory: int
    """Bytes. On the CPU runtime the machine's memory; 0 when the runtime does not say."""
    id: int
    """The runtime's global id: differs from the index when several processes share a slice."""
    attributes: dict[str, str]
    """Coordinates and the like, as text."""


def _is_in_bad_fork() -> bool:
    """True in a process forked after the plugin was opened, where the device cannot be used."""
    return _C._is_in_bad_fork()


_warned = False


def _lazy_init() -> None:
    """Opens the runtime. torch calls it before it makes the first tensor on the device."""
    global _warned
    if _C._is_initialized():
        return
    if not _warned:
        _warned = True
        for name in _C._unknown_env():
            warnings.warn(
                f"torch_tpu: {name} is not a variable we know.{_nearest(name)}", stacklevel=3
            )
    _C._init()


def _nearest(name: str) -> str:
    import difflib

    known = [entry[0] for entry in _C._env_table()]
    near = difflib.get_close_matches(name, known, n=1)
    return f" Did you mean {near[0]}?" if near else f" Known: {', '.join(known)}."


def init() -> None:
    """Opens the runtime now, which otherwise happens at first use.

    Raises:
        RuntimeError: no runtime was found, or this process was forked from one that has it open.
    """
    _lazy_init()


def is_initialized() -> bool:
    """Whether the runtime is open in this process."""
    return _C._is_initialized()


def is_available() -> bool:
    """Whether there is at least one device. Never raises."""
    return _C._device_count() > 0


def device_count() -> int:
    """The number of devices of this process; 0 when there is no runtime. Never raises."""
    return _C._device_count()


def current_device() -> int:
    """The index of the current device."""
    return _C._current_device()


def _index(device: Device) -> int:
    """The device index of a device, an index, or a text; the current one for None."""
    if device is None:
        return _C._current_device()
    if isinstance(device, int):
        return device if device >= 0 else _C._current_device()
    device = torch.device(device)
    if device.type != "tpu":
        raise ValueError(f"torch.tpu: expected a tpu device, got {str(device)!r}")
    return _C._current_device() if device.index is None else device.index


def set_device(device: Device) -> None:
    """Makes a device current on this thread. Prefer the context :class:`device`.

    Raises:
        RuntimeError: there is no such device.
    """
    _C._exchange_device(_index(device))


class device:
    """Context that makes a device current, on this thread.

    Args:
        device: index, ``torch.device`` or text. None or a negative index changes nothing.
    """

    def __init__(self, device: Any) -> None:
        self.idx = -1 if device is None else _index(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = _C._exchange_device(self.idx)

    def __exit__(self, *error: object) -> None:
        _C._exchange_device(self.prev_idx)


class device_of(device):
    """Context that makes the device of a tensor or storage current; nothing for those elsewhere."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.is_tpu else None)


def synchronize(device: Device = None) -> None:
    """Waits until all work launched on a device is done.

    Raises:
        RuntimeError: a program that was launched before failed.
    """
    _C._synchronize(_index(device))


def get_device_properties(device: Device = None) -> DeviceProperties:
    """What the runtime says about a device."""
    _lazy_init()
    return DeviceProperties(**_C._device_properties(_index(device)))


def get_device_name(device: Device = None) -> str:
    """The device kind, such as "TPU v7x"; "cpu" on the CPU runtime."""
    return get_device_properties(device).name


def get_device_capability(device: Device = None) -> dict[str, Any]:
    """What a device can do, as ``torch.accelerator`` has it: a set ``supported_dtypes``."""
    return torch.accelerator.get_device_capability(_index(device))
