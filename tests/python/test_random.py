# SPDX-License-Identifier: Apache-2.0
"""Generators and seeds. The state is CUDA's: 8 bytes of seed, 8 of offset."""

import threading

import pytest
import torch

from tests.process import run_python


def parts(state: torch.Tensor) -> tuple[int, int]:
    return tuple(int(n) for n in state.view(torch.int64))


@pytest.fixture(autouse=True)
def keep_states():
    states = torch.tpu.get_rng_state_all()
    yield
    torch.tpu.set_rng_state_all(states)


def test_manual_seed_repeats_the_numbers():
    def draw():
        torch.manual_seed(0)
        x = torch.randn(100, device="tpu")
        return x.cpu(), torch.nn.functional.dropout(torch.ones(100, device="tpu"), 0.5).cpu()

    first, second = draw(), draw()
    assert torch.equal(first[0], second[0]) and torch.equal(first[1], second[1])
    assert 0 < first[1].count_nonzero() < 100
    assert not torch.equal(torch.randn(100, device="tpu").cpu(), first[0])


def test_state_is_seed_and_offset():
    torch.tpu.manual_seed(12345)
    state = torch.tpu.get_rng_state()
    assert state.dtype == torch.uint8 and state.shape == (16,) and state.device.type == "cpu"
    assert parts(state) == (12345, 0)
    torch.rand(3, device="tpu")
    seed, offset = parts(torch.tpu.get_rng_state())
    assert seed == 12345 and offset > 0 and offset % 4 == 0


def test_state_goes_back():
    torch.rand(3, device="tpu")
    state = torch.tpu.get_rng_state()
    a = torch.rand(50, device="tpu").cpu()
    torch.tpu.set_rng_state(state)
    assert torch.equal(torch.rand(50, device="tpu").cpu(), a)
    with torch.random.fork_rng(device_type="tpu"):
        torch.rand(5, device="tpu")
    torch.tpu.set_rng_state(state, "tpu:0")
    assert torch.equal(torch.rand(50, device="tpu").cpu(), a)


def test_fork_rng_restores():
    before = torch.tpu.get_rng_state()
    with torch.random.fork_rng(device_type="tpu"):
        torch.rand(5, device="tpu")
        assert not torch.equal(torch.tpu.get_rng_state(), before)
    assert torch.equal(torch.tpu.get_rng_state(), before)


@pytest.mark.parametrize("seed", [0, -1, 2**63, 2**64 - 1])
def test_seeds_at_the_limits(seed):
    torch.manual_seed(seed)
    assert torch.tpu.initial_seed() == seed % 2**64
    torch.tpu.manual_seed(seed)
    assert torch.tpu.initial_seed() == seed % 2**64
    assert parts(torch.tpu.get_rng_state())[1] == 0


def test_a_seed_from_entropy():
    torch.tpu.seed()
    first = torch.tpu.initial_seed()
    torch.tpu.seed_all()
    assert torch.tpu.initial_seed() != first


def test_own_generator():
    g = torch.Generator(device="tpu").manual_seed(7)
    assert g.device == torch.device("tpu", 0) and g.initial_seed() == 7
    default = torch.tpu.get_rng_state()
    a = torch.randn(20, device="tpu", generator=g).cpu()
    assert torch.equal(torch.tpu.get_rng_state(), default)
    h = torch.Generator(device="tpu").manual_seed(7)
    assert torch.equal(torch.randn(20, device="tpu", generator=h).cpu(), a)
    h.set_state(g.get_state())
    assert torch.equal(
        torch.rand(9, device="tpu", generator=g).cpu(),
        torch.rand(9, device="tpu", generator=h).cpu(),
    )
    assert sorted(torch.randperm(10, device="tpu", generator=g).tolist()) == list(range(10))


def test_offset_by_hand():
    g = torch.Generator(device="tpu").manual_seed(7)
    torch.rand(9, device="tpu", generator=g)
    offset = g.get_offset()
    a = torch.rand(9, device="tpu", generator=g).cpu()
    g.set_offset(offset)
    assert torch.equal(torch.rand(9, device="tpu", generator=g).cpu(), a)
    with pytest.raises(RuntimeError, match="multiple of 4"):
        g.set_offset(3)


def test_bad_states_are_refused():
    with pytest.raises(ValueError, match="expected a state of 16 bytes, got 5"):
        torch.tpu.set_rng_state(torch.zeros(5, dtype=torch.uint8))
    with pytest.raises(TypeError):
        torch.tpu.set_rng_state(torch.zeros(16))


def test_a_generator_of_the_cpu_is_refused():
    with pytest.raises(RuntimeError, match="generator"):
        torch.randn(3, device="tpu", generator=torch.Generator())


def test_threads_never_share_an_offset():
    torch.tpu.manual_seed(3)
    draws = []

    def draw():
        for _ in range(20):
            draws.append(torch.rand(4, device="tpu"))

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({tuple(d.tolist()) for d in draws}) == 80


def test_seeding_opens_no_plugin():
    run_python(
        """
        import torch
        torch.manual_seed(5)
        torch.tpu.manual_seed_all(6)
        assert torch.tpu.initial_seed() == 6
        assert not torch.tpu.is_initialized()
        """,
        TORCH_TPU_RUNTIME="cpu",
    )


def test_each_device_has_its_own_generator():
    run_python(
        """
        import torch
        a, b = torch.tpu.default_generators
        assert (a.device.index, b.device.index) == (0, 1)
        torch.manual_seed(5)
        x = torch.rand(8, device="tpu:0").cpu()
        assert torch.equal(torch.rand(8, device="tpu:1").cpu(), x)
        with torch.tpu.device(1):
            torch.tpu.manual_seed(9)
        assert (a.initial_seed(), b.initial_seed()) == (5, 9)
        assert len(torch.tpu.get_rng_state_all()) == 2
        """,
        TORCH_TPU_RUNTIME="cpu",
        TORCH_TPU_CPU_DEVICES="2",
    )


def test_numbers_are_uniform_and_normal():
    torch.manual_seed(1)
    u = torch.rand(200_000, device="tpu").cpu()
    assert u.min() >= 0 and u.max() < 1
    assert abs(u.mean() - 0.5) < 0.005 and abs(u.var() - 1 / 12) < 0.002
    n = torch.randn(200_000, device="tpu").cpu()
    assert abs(n.mean()) < 0.01 and abs(n.std() - 1) < 0.01


@pytest.mark.parametrize("reentrant", [False, True])
def test_activation_checkpoint_draws_the_same_dropout_again(reentrant):
    x = torch.linspace(0, 1, 64, device="tpu").requires_grad_()
    drop = torch.nn.Dropout(0.5)

    def block(t):
        return drop(t.tanh()) * t

    torch.manual_seed(3)
    y = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=reentrant)
    y.sum().backward()
    state = torch.tpu.get_rng_state()
    torch.manual_seed(3)
    (expected,) = torch.autograd.grad(block(x).sum(), x)
    torch.testing.assert_close(x.grad.cpu(), expected.cpu())
    assert torch.equal(state, torch.tpu.get_rng_state())
