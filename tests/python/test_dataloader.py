# SPDX-License-Identifier: Apache-2.0
"""DataLoader: workers, pinned batches, generators on the device, and forking after first use."""

import pytest
import torch
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

from tests.process import run_python


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, i):
        return torch.full((3,), float(i * i)), i


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("pin", [True, False])
def test_batches_reach_the_device(workers, pin):
    torch.ones(1, device="tpu")  # the device is in use before workers fork
    loader = DataLoader(
        Squares(), batch_size=8, num_workers=workers, pin_memory=pin, timeout=60 * (workers > 0)
    )
    seen = []
    for x, i in loader:
        assert x.is_pinned() == pin
        y = x.to("tpu", non_blocking=True)
        assert torch.equal(y.cpu(), (i * i).float().unsqueeze(1).expand(8, 3))
        seen += i.tolist()
    assert seen == list(range(40))


def test_workers_that_persist():
    loader = DataLoader(
        Squares(),
        batch_size=10,
        num_workers=2,
        pin_memory=True,
        persistent_workers=True,
        timeout=60,
    )
    for _ in range(3):
        total = sum(x.to("tpu").sum() for x, _ in loader)
        assert total.item() == 3 * sum(i * i for i in range(40))


def test_generator_on_the_device_shuffles():
    def order():
        g = torch.Generator(device="tpu").manual_seed(1)
        with torch.device("tpu"):  # as with CUDA, the permutation is made where the generator is
            return list(RandomSampler(range(20), generator=g))

    assert sorted(order()) == list(range(20)) and order() != list(range(20))
    assert order() == order()


def test_tensors_of_the_device_in_a_dataset():
    data = TensorDataset(torch.arange(12.0, device="tpu").reshape(6, 2))
    batches = [x for (x,) in DataLoader(data, batch_size=3)]
    assert all(x.is_tpu for x in batches)
    assert torch.equal(torch.cat(batches).cpu(), torch.arange(12.0).reshape(6, 2))


def test_a_forked_worker_that_touches_the_device_gets_a_clear_error():
    run_python(
        """
        import torch
        from torch.utils.data import DataLoader
        torch.ones(1, device="tpu").cpu()

        class Wrong(torch.utils.data.Dataset):
            def __len__(self): return 4
            def __getitem__(self, i): return torch.ones(2, device="tpu").cpu()

        try:
            for _ in DataLoader(Wrong(), num_workers=1, timeout=60, multiprocessing_context="fork"):
                pass
        except RuntimeError as e:
            assert "forked after tpu was initialized" in str(e) and "spawn" in str(e), e
        else:
            raise AssertionError("no error")
        assert torch.ones(2, device="tpu").sum().item() == 2
        """
    )


def test_a_forked_child():
    run_python(
        """
        import os, torch
        assert not torch.tpu._is_in_bad_fork()
        x = torch.ones(3, device="tpu")
        x.cpu()
        child = os.fork()
        if child == 0:
            ok = torch.tpu._is_in_bad_fork()
            torch.manual_seed(3)  # must not touch the device
            torch.randn(3)
            try:
                torch.ones(1, device="tpu")
                ok = False
            except RuntimeError as e:
                ok = ok and "forked after tpu was initialized" in str(e)
            try:
                x + 1
                ok = False
            except RuntimeError as e:
                ok = ok and "forked after tpu was initialized" in str(e)
            del x  # releasing what was inherited must not hang
            os._exit(0 if ok else 3)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert not torch.tpu._is_in_bad_fork()
        assert (x + 1).sum().item() == 6
        """,
        timeout=60,
    )


def test_fork_before_first_use_is_fine():
    run_python(
        """
        import os, torch
        torch.manual_seed(0)
        child = os.fork()
        ok = (torch.ones(3, device="tpu") + 1).sum().item() == 6
        if child == 0:
            os._exit(0 if ok else 3)
        assert ok and os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        """,
        timeout=60,
    )
