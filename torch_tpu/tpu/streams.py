# SPDX-License-Identifier: Apache-2.0
"""Streams and events.

A device runs its programs in the order they were launched, so streams are identities: code written
for several streams runs, in launch order. Events tell when work launched before them is done.
"""

from typing import Any

import torch

from torch_tpu import _C
from torch_tpu.tpu import devices
from torch_tpu.tpu.devices import Device


class Stream(torch.Stream):
    """A stream of a device.

    Args:
        device: where; the current device by default.
        priority: negative is high. There are two pools of 32, handed out in turn.
    """

    def __new__(cls, device: Device = None, priority: int = 0, **kwargs: Any) -> "Stream":
        if "stream_id" in kwargs:
            return super().__new__(cls, **kwargs)
        where = torch.device("tpu", devices._index(device))
        return super().__new__(cls, where, priority=priority)

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The lowest and the highest priority: (0, -1)."""
        return (0, -1)

    def __repr__(self) -> str:
        return f"torch.tpu.Stream(device=tpu:{self.device_index}, id={self.stream_id})"


class _EventType(type):
    def __instancecheck__(cls, obj: object) -> bool:
        return isinstance(obj, torch.Event) and obj.device.type == "tpu"


# Makes plain torch.Event objects: torch takes no subclass of it where two events meet.
class Event(metaclass=_EventType):
    """Marks a point in a device's work.

    Args:
        enable_timing: lets ``elapsed_time`` ask; times are those at which results were ready.
        blocking: accepted for CUDA's sake; waiting always blocks without spinning.
        interprocess: not possible here.
    """

    def __new__(  # type: ignore[misc]
        cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> torch.Event:
        if interprocess:
            raise NotImplementedError("torch.tpu.Event: events cannot be shared between processes")
        return torch.Event("tpu", enable_timing=enable_timing, blocking=blocking)


class StreamContext:
    """Context that makes a stream, and its device, current. None changes nothing."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream
        self._previous_device = -1
        self._previous_stream: torch.Stream | None = None

    def __enter__(self) -> None:
        if self.stream is None:
            return
        self._previous_stream = current_stream(self.stream.device)
        self._previous_device = _C._exchange_device(self.stream.device.index)
        set_stream(self.stream)

    def __exit__(self, *error: object) -> None:
        if self._previous_stream is None:
            return
        set_stream(self._previous_stream)
        _C._exchange_device(self._previous_device)


def stream(stream: torch.Stream | None) -> StreamContext:
    """Context that makes a stream current."""
    return StreamContext(stream)


def set_stream(stream: torch.Stream | None) -> None:
    """Makes a stream current for its device, on this thread. Prefer :func:`stream`."""
    if stream is not None:
        torch._C._accelerator_setStream(stream)


def _make(index: int, stream_id: int) -> Stream:
    kind = torch._C._autograd.DeviceType.PrivateUse1.value
    return Stream(stream_id=stream_id, device_index=index, device_type=kind)


def current_stream(device: Device = None) -> Stream:
    """The current stream of a device, on this thread."""
    index = devices._index(device)
    return _make(index, _C._current_stream(index))


def default_stream(device: Device = None) -> Stream:
    """The default stream of a device."""
    return _make(devices._index(device), 0)
