# SPDX-License-Identifier: Apache-2.0
"""Memory figures of the device and of pinned host memory."""

import gc

import pytest
import torch

MIB = 2**20


@pytest.fixture(autouse=True)
def settle():
    # The numbers ops were given stay on the device, in a bounded cache: 8 bytes each.
    make(1).add(1)
    gc.collect()
    torch.tpu.synchronize()


def make(mib: int) -> torch.Tensor:
    return torch.ones(mib * MIB // 4, device="tpu") * 2


def test_allocated_follows_tensors():
    before = torch.tpu.memory_allocated()
    x = make(8)
    torch.tpu.synchronize()
    assert torch.tpu.memory_allocated() - before == 8 * MIB
    y = x[: MIB // 4]  # a view costs nothing
    del x
    assert torch.tpu.memory_allocated() - before == 8 * MIB
    del y
    assert torch.tpu.memory_allocated() == before


@pytest.mark.parametrize("bytes_", [64, 4096, 4 * MIB])
def test_release_needs_no_synchronize(bytes_):
    before = torch.tpu.memory_allocated()
    x = torch.ones(bytes_ // 4, device="tpu") + 1
    del x
    assert torch.tpu.memory_allocated() == before


def test_peak():
    torch.tpu.reset_peak_memory_stats()
    base = torch.tpu.max_memory_allocated()
    assert base == torch.tpu.memory_allocated()
    x = make(16)
    del x
    peak = torch.tpu.max_memory_allocated()
    assert peak - base >= 16 * MIB
    torch.tpu.reset_peak_memory_stats()
    assert torch.tpu.max_memory_allocated() == torch.tpu.memory_allocated() < peak


def test_stats_have_the_keys_tools_read():
    x = make(1)
    stats = torch.tpu.memory_stats()
    for key in ("active_bytes", "allocated_bytes", "reserved_bytes"):
        assert stats[f"{key}.all.current"] >= x.nbytes
        assert stats[f"{key}.all.peak"] >= stats[f"{key}.all.current"]
    assert {"num_alloc_retries", "num_ooms"} <= stats.keys()
    nested = torch.tpu.memory_stats_as_nested_dict()
    assert nested["allocated_bytes"]["all"]["current"] == stats["allocated_bytes.all.current"]
    assert torch.accelerator.memory_allocated() == torch.tpu.memory_allocated()
    assert torch.tpu.memory_reserved() == torch.tpu.memory_allocated()
    assert "MiB" in torch.tpu.memory_summary()


def test_free_and_total():
    free, total = torch.tpu.mem_get_info()
    assert 0 < free <= total == torch.tpu.get_device_properties().total_memory


def test_no_growth_in_a_loop():
    x = torch.ones(1000, device="tpu")
    torch.tpu.synchronize()
    before = torch.tpu.memory_allocated()
    for _ in range(200):
        x = x * 1.0
        x.add_(1)
    assert torch.tpu.memory_allocated() == before


def test_pinned_memory():
    x = torch.arange(1000).pin_memory()
    assert x.is_pinned() and x[10:].is_pinned() and x.device.type == "cpu"
    assert not torch.arange(1000).is_pinned()
    assert x.data_ptr() % 4096 == 0
    y = x.to("tpu", non_blocking=True)
    torch.tpu.synchronize()
    x.zero_()
    assert torch.equal(y.cpu(), torch.arange(1000))
    z = torch.empty(8, pin_memory=True)
    assert z.is_pinned()


def test_pinned_copy_is_right_when_the_source_dies():
    expected = torch.arange(3 * MIB // 8)
    results = []
    for _ in range(20):
        results.append(expected.pin_memory().to("tpu", non_blocking=True))
    for y in results:
        assert torch.equal(y.cpu(), expected)


def test_pinned_blocks_are_reused_and_given_back():
    torch.tpu.empty_cache()
    before = torch.tpu.host_memory_stats()
    x = torch.empty(100_000, pin_memory=True)
    address = x.data_ptr()
    during = torch.tpu.host_memory_stats()
    assert during["active_bytes.current"] - before["active_bytes.current"] == 2**19
    del x
    x = torch.empty(90_000, pin_memory=True)
    assert x.data_ptr() == address
    assert torch.tpu.host_memory_stats()["num_host_alloc"] == during["num_host_alloc"]
    del x
    torch.tpu.empty_cache()
    after = torch.tpu.host_memory_stats()
    assert after["allocated_bytes.current"] == before["allocated_bytes.current"]


def test_empty_pinned_tensors():
    assert torch.empty(0, pin_memory=True).numel() == 0


def test_copy_to_pinned_host_memory():
    x = torch.arange(1000.0, device="tpu")
    host = torch.empty(1000, pin_memory=True)
    host.copy_(x, non_blocking=True)
    torch.tpu.synchronize()
    assert torch.equal(host, torch.arange(1000.0))
    assert torch.equal(x.to("cpu", non_blocking=True), host)
