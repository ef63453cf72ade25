# SPDX-License-Identifier: Apache-2.0
"""Random numbers: Philox, with a seed and an offset per device. None of this opens the runtime.

A state is 16 bytes, 8 of seed and 8 of offset, as CUDA's; the numbers drawn are our own.
"""

from collections.abc import Iterable

import torch

from torch_tpu import _C
from torch_tpu.tpu import devices
from torch_tpu.tpu.devices import Device


def _generator(device: Device) -> torch.Generator:
    return _C._default_generator(devices._index(device))


def get_rng_state(device: Device = "tpu") -> torch.Tensor:
    """The state of a device's default generator, a uint8 CPU tensor of 16 elements."""
    return _generator(device).get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    """The states of all devices' default generators."""
    return [get_rng_state(i) for i in range(devices.device_count())]


def set_rng_state(new_state: torch.Tensor, device: Device = "tpu") -> None:
    """Sets the state of a device's default generator.

    Args:
        new_state: what :func:`get_rng_state` gave; the first 8 bytes alone set the seed.
    """
    _generator(device).set_state(new_state)


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Sets the states of the devices' default generators, in order."""
    for i, state in enumerate(new_states):
        set_rng_state(state, i)


def manual_seed(seed: int) -> None:
    """Seeds the current device's default generator."""
    _generator(None).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds the default generators of all devices."""
    # Generator.manual_seed takes negative numbers, so this does.
    _C._seed_all(int(seed) % 2**64)


def seed() -> None:
    """Seeds the current device's default generator from the system's entropy."""
    _generator(None).seed()


def seed_all() -> None:
    """Seeds the default generators of all devices from the system's entropy, all alike."""
    manual_seed_all(torch.Generator().seed())


def initial_seed() -> int:
    """The current device's seed."""
    return _generator(None).initial_seed()
