# SPDX-License-Identifier: Apache-2.0
"""Copies between host and device: right data, and memory that stays flat."""

import gc

import pytest
import torch


def resident_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096


def test_ten_thousand_transfers_keep_memory_flat():
    x = torch.arange(16_384, dtype=torch.float32)  # 64 kB: a leak would show as 640 MB

    def transfer(times):
        for i in range(times):
            x[0] = i
            device = x.to("tpu")
            if i % 10 == 0:
                assert device.cpu()[0] == i
        del device
        gc.collect()
        torch.tpu.synchronize()

    transfer(500)
    before, allocated = resident_bytes(), torch.tpu.memory_allocated()
    transfer(10_000)
    assert torch.tpu.memory_allocated() == allocated
    assert resident_bytes() - before < 32 << 20


def test_ten_thousand_reads_keep_memory_flat():
    x = torch.ones(16_384, device="tpu")
    for _ in range(500):
        x.cpu()
    before = resident_bytes()
    for _ in range(10_000):
        x.cpu()
    assert resident_bytes() - before < 32 << 20


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float64,
        torch.float32,
        torch.bfloat16,
        torch.float16,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.bool,
        torch.complex64,
        torch.float8_e4m3fn,
        torch.float8_e5m2,
    ],
)
@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 4, 5)])
def test_round_trip(dtype, shape):
    x = torch.randint(0, 2, shape).to(dtype)
    y = x.to("tpu")
    assert (y.device.type, y.dtype, y.shape) == ("tpu", dtype, x.shape)
    assert torch.equal(y.cpu().to(torch.complex64), x.to(torch.complex64))


def test_strided_sources_and_targets():
    x = torch.arange(24.0).view(4, 6)
    assert torch.equal(x.t().to("tpu").cpu(), x.t())
    assert torch.equal(x[::2, 1::2].to("tpu").cpu(), x[::2, 1::2])
    target = torch.zeros(6, 4, device="tpu")
    target.t().copy_(x)
    assert torch.equal(target.cpu(), x.t())
    host = torch.zeros(4, 6)
    host[:, ::2].copy_(target.t()[:, ::2])
    assert torch.equal(host[:, ::2], x[:, ::2])


def test_the_source_may_change_after_a_copy():
    x = torch.zeros(1000)
    for non_blocking in (False, True):
        y = x.to("tpu", non_blocking=non_blocking)
        torch.tpu.synchronize()
        x.fill_(1)
        assert y.sum().item() == 0
        x.zero_()


def test_the_copy_on_the_host_is_the_readers_own():
    x = torch.zeros(1000, device="tpu")
    y = x.cpu()
    y.fill_(5)
    assert x.sum().item() == 0
    x.add_(1)
    assert y.sum().item() == 5000


def test_copy_converts_and_broadcasts():
    target = torch.zeros(2, 3, dtype=torch.float32, device="tpu")
    target.copy_(torch.tensor([1, 2, 3]))
    assert target.tolist() == [[1, 2, 3], [1, 2, 3]]
    assert torch.tensor([1.7], device="tpu").to(torch.int32).item() == 1
    assert torch.tensor([1.5]).to("tpu", torch.bfloat16).dtype == torch.bfloat16
