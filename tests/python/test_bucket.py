# SPDX-License-Identifier: Apache-2.0
"""torch.tpu.bucket, and the warning that leads to it."""

import subprocess
import sys

import pytest
import torch

bucket = torch.tpu.bucket


@pytest.mark.parametrize(
    "buckets,pairs",
    [
        (bucket.powers_of_two(), {1: 1, 2: 2, 3: 4, 5: 8, 8: 8, 9: 16}),
        (bucket.powers_of_two(minimum=16), {1: 16, 17: 32}),
        (bucket.multiples(10), {0: 10, 1: 10, 10: 10, 11: 20}),
        (bucket.sizes([64, 16]), {1: 16, 16: 16, 17: 64}),
    ],
)
def test_bucket_of_a_size(buckets, pairs):
    assert {size: buckets(size) for size in pairs} == pairs


def test_errors_say_what_came():
    with pytest.raises(ValueError, match="size 65 is above the largest bucket 64"):
        bucket.sizes([64])(65)
    with pytest.raises(ValueError, match="at least 1, got 0"):
        bucket.multiples(0)
    with pytest.raises(ValueError, match="smaller than the size"):
        bucket.pad(torch.ones(3), 0, lambda size: 2)


@pytest.mark.parametrize("device", ["cpu", "tpu"])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_pad_and_cut_round_trip(device, dim):
    x = torch.arange(15).reshape(3, 5).to(device)
    padded, length = bucket.pad(x, dim, bucket.powers_of_two(), value=-1)
    assert padded.shape[dim] in (4, 8) and length == x.shape[dim]
    assert torch.equal(bucket.cut(padded, dim, length), x)
    assert (bucket.cut(padded.flip(dim), dim, padded.shape[dim] - length) == -1).all()


def test_growing_sequence_compiles_per_bucket_not_per_size():
    def step(size):
        x, length = bucket.pad(torch.ones(size, 6), 0, bucket.powers_of_two(minimum=8))
        return bucket.cut(torch.softmax(x.to("tpu"), 1), 0, length).cpu()

    for size in (1, 9, 17):
        step(size)
    torch.tpu.reset_metrics()
    for size in range(1, 33):
        assert step(size).shape == (size, 6)
    assert torch.tpu.metrics()["compiles"] == 0


def warnings_of(code):
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    return run.stderr.count("torch.tpu.bucket")


def test_changing_sizes_are_reported_once():
    grow = "import torch\nfor n in range(1, 40): torch.ones(n, device='tpu').sum().item()"
    assert warnings_of(grow) == 1


def test_many_shapes_in_one_step_are_not_reported():
    model = (
        "import torch\n"
        "ps = [torch.ones(n, device='tpu') for n in range(1, 40)]\n"
        "for _ in range(12): sum((p * 2).sum() for p in ps).item()"
    )
    assert warnings_of(model) == 0
