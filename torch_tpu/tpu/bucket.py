# SPDX-License-Identifier: Apache-2.0
"""Few sizes instead of many: pad a dimension that keeps changing, and cut the result again.

Each new size of a tensor compiles new programs. Padding the last batch or a growing sequence to a
bucket keeps their number at the number of buckets::

    buckets = torch.tpu.bucket.powers_of_two(minimum=16)
    ids, length = torch.tpu.bucket.pad(ids, dim=1, buckets=buckets, value=pad_token)
    logits = torch.tpu.bucket.cut(model(ids.to("tpu"), mask), dim=1, length=length)

Pad on the CPU, before ``.to("tpu")``: there it compiles nothing. Padded elements take part in what
the model computes: mask them where that matters (attention, means, losses).
"""

from collections.abc import Callable, Sequence

import torch

# From a size to the size of its bucket.
Buckets = Callable[[int], int]


def powers_of_two(minimum: int = 1) -> Buckets:
    """The next power of two, at least `minimum`: a size up to n meets log2(n) buckets."""
    _positive("minimum", minimum)
    return lambda size: max(minimum, 1 << max(size - 1, 0).bit_length())


def multiples(of: int) -> Buckets:
    """The next multiple of `of` (at least `of`)."""
    _positive("of", of)
    return lambda size: max(of, -(-size // of) * of)


def sizes(allowed: Sequence[int]) -> Buckets:
    """The smallest of `allowed` that is large enough.

    The bucket function raises ValueError for a size above them all.
    """
    ordered = sorted(allowed)
    if not ordered:
        raise ValueError("bucket.sizes: expected at least one size, got none")

    def bucket(size: int) -> int:
        for candidate in ordered:
            if candidate >= size:
                return candidate
        raise ValueError(
            f"bucket.sizes: size {size} is above the largest bucket {ordered[-1]}. "
            "Try: add a larger bucket, or split the input."
        )

    return bucket


def pad(
    tensor: torch.Tensor, dim: int, buckets: Buckets, value: float = 0
) -> tuple[torch.Tensor, int]:
    """Pads `dim` at its end to its bucket.

    Args:
        tensor: any shape and device; CPU is best (see the module's text).
        dim: the dimension to pad.
        buckets: :func:`powers_of_two`, :func:`multiples`, :func:`sizes`, or any function of a size.
        value: what the new elements hold.

    Returns:
        The padded tensor (the tensor itself when it has its bucket's size) and the size before.
    """
    length = tensor.shape[dim]
    target = buckets(length)
    if target < length:
        raise ValueError(f"bucket.pad: bucket {target} is smaller than the size {length}")
    if target == length:
        return tensor, length
    shape = list(tensor.shape)
    shape[dim] = target - length
    return torch.cat([tensor, tensor.new_full(shape, value)], dim=dim), length


def cut(tensor: torch.Tensor, dim: int, length: int) -> torch.Tensor:
    """The first `length` elements along `dim`: a view, which compiles nothing by itself."""
    return tensor.narrow(dim, 0, length)


def _positive(name: str, value: int) -> None:
    if value < 1:
        raise ValueError(f"bucket: expected {name} of at least 1, got {value}")
