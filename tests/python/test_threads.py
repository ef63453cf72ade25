# SPDX-License-Identifier: Apache-2.0
"""Several threads issue ops at once: each gets its own results, nothing hangs."""

import concurrent.futures

import pytest
import torch

THREADS = 4
TIMEOUT = 120  # seconds; a deadlock must fail, not hang


def in_threads(function):
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        futures = [pool.submit(function, i) for i in range(THREADS)]
        return [future.result(timeout=TIMEOUT) for future in futures]


def chain(x, rounds):
    for i in range(rounds):
        x = (x @ x.t()).softmax(-1) @ x + i % 3
        x.view(-1)[::2].mul_(0.5)
    return x


def test_threads_with_their_own_tensors():
    starts = [torch.randn(8, 8, generator=torch.Generator().manual_seed(i)) for i in range(THREADS)]
    found = in_threads(lambda i: chain(starts[i].to("tpu"), 50).cpu())
    for i in range(THREADS):
        torch.testing.assert_close(found[i], chain(starts[i].clone(), 50), rtol=1e-4, atol=1e-4)


def test_threads_compile_a_program_once():
    torch.tpu.reset_metrics()
    x = torch.ones(7, 13, device="tpu")
    in_threads(lambda i: (x * 2 + 1).tanh().sum().item())
    metrics = torch.tpu.metrics()
    assert metrics["compiles"] + metrics["disk_hits"] <= 5


def test_backward_in_threads():
    def gradient(i, device):
        x = torch.linspace(0, i + 1, 16).view(4, 4).to(device).requires_grad_()
        for _ in range(10):
            (x @ x).tanh().sum().backward()
        return x.grad.cpu()

    found = in_threads(lambda i: gradient(i, "tpu"))
    for i in range(THREADS):
        torch.testing.assert_close(found[i], gradient(i, "cpu"), rtol=1e-4, atol=1e-5)


def test_readers_of_one_tensor():
    x = torch.arange(1000.0, device="tpu")
    assert in_threads(lambda i: [(x + i).sum().item() for _ in range(50)][-1]) == [
        499500.0 + 1000 * i for i in range(THREADS)
    ]


def test_the_mode_of_a_thread_is_its_own_or_global_but_never_torn():
    def work(i):
        with torch.tpu.eager_mode("debug" if i % 2 else "strict"):
            return [(torch.full((3,), float(i), device="tpu") * 2).sum().item() for _ in range(30)]

    assert in_threads(work) == [[6.0 * i] * 30 for i in range(THREADS)]


def test_an_error_in_one_thread_does_not_reach_another():
    def work(i):
        for _ in range(20):
            if i == 0:
                with pytest.raises(RuntimeError):
                    torch.ones(2, 3, device="tpu") @ torch.ones(2, 3, device="tpu")
            else:
                assert torch.ones(2, 3, device="tpu").sum().item() == 6

    in_threads(work)
