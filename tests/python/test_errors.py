# SPDX-License-Identifier: Apache-2.0
"""Bad input gives the error the CPU gives, or a clear one; never a crash, never silence."""

import pytest
import torch
from torch.nn import functional as F

# What a user may get wrong. Each raises on the CPU; the device must raise the same type.
MISTAKES = {
    "matmul shapes": lambda d: torch.ones(2, 3, device=d) @ torch.ones(2, 3, device=d),
    "bmm shapes": lambda d: torch.bmm(torch.ones(2, 3, 4, device=d), torch.ones(2, 3, 4, device=d)),
    "broadcast": lambda d: torch.ones(2, 3, device=d) + torch.ones(4, device=d),
    "in-place broadcast": lambda d: torch.ones(3, device=d).add_(torch.ones(2, 3, device=d)),
    "view size": lambda d: torch.ones(6, device=d).view(4, -1),
    "view strides": lambda d: torch.ones(2, 3, device=d).t().view(6),
    "cat shapes": lambda d: torch.cat([torch.ones(2, 3, device=d), torch.ones(2, 4, device=d)]),
    "cat of none": lambda d: torch.cat([]),
    "select range": lambda d: torch.ones(3, device=d).select(0, 3),
    "python index range": lambda d: torch.ones(3, device=d)[5],
    "dim range": lambda d: torch.ones(3, device=d).sum(dim=2),
    "softmax dim": lambda d: torch.ones(3, device=d).softmax(1),
    "in-place cast": lambda d: torch.ones(3, dtype=torch.int64, device=d).add_(0.5),
    "out dtype": lambda d: torch.add(
        torch.ones(3, device=d), 1.5, out=torch.zeros(3, dtype=torch.int64, device=d)
    ),
    "float shift": lambda d: torch.ones(3, device=d) << 1,
    "mean of ints": lambda d: torch.ones(3, dtype=torch.int64, device=d).mean(),
    "norm of ints": lambda d: torch.ones(3, dtype=torch.int64, device=d).norm(),
    "gather dtype": lambda d: torch.ones(3, device=d).gather(0, torch.ones(2, device=d)),
    "embedding dtype": lambda d: F.embedding(torch.ones(2, device=d), torch.ones(3, 4, device=d)),
    "linear shapes": lambda d: F.linear(torch.ones(2, 3, device=d), torch.ones(4, 5, device=d)),
    "conv channels": lambda d: F.conv2d(
        torch.ones(1, 3, 8, 8, device=d), torch.ones(4, 2, 3, 3, device=d)
    ),
    "layer_norm shape": lambda d: F.layer_norm(torch.ones(2, 3, device=d), (4,)),
    "nll target size": lambda d: F.cross_entropy(
        torch.ones(2, 3, device=d), torch.ones(3, dtype=torch.int64, device=d)
    ),
    "item of many": lambda d: torch.ones(3, device=d).item(),
    "bool of many": lambda d: bool(torch.ones(3, device=d)),
    "item of none": lambda d: torch.ones(0, device=d).item(),
    "max of none": lambda d: torch.ones(0, device=d).max(),
    "negative size": lambda d: torch.empty(-1, device=d),
    "inverse of rectangle": lambda d: torch.linalg.inv(torch.ones(2, 3, device=d)),
    "backward twice": lambda d: [
        loss.backward() for loss in [torch.ones(2, device=d, requires_grad=True).exp().sum()] * 2
    ],
    "leaf in place": lambda d: torch.ones(2, device=d, requires_grad=True).add_(1),
    "bernoulli range": lambda d: torch.empty(3, device=d).bernoulli_(1.5),
    "normal deviation": lambda d: torch.empty(3, device=d).normal_(0, -1),
    "dropout range": lambda d: F.dropout(torch.ones(3, device=d), 1.5),
    "arange step": lambda d: torch.arange(0, 5, -1, device=d),
    "einsum sizes": lambda d: torch.einsum(
        "ij,jk->ik", torch.ones(2, 3, device=d), torch.ones(4, 2, device=d)
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_same_exception_type_as_cpu(name):
    with pytest.raises(Exception) as expected:
        MISTAKES[name]("cpu")
    # "Not implemented for Float" on the CPU may be a plain RuntimeError here, its base.
    kind = RuntimeError if expected.type is NotImplementedError else expected.type
    with pytest.raises(kind) as found:
        MISTAKES[name]("tpu")
    assert str(found.value)
    # The device still works.
    assert (torch.ones(2, device="tpu") + 1).tolist() == [2, 2]


INDEX_MISTAKES = {
    "gather": (lambda x, i: x.gather(0, i.view(-1, 1)), 5),
    "index_select": (lambda x, i: x.index_select(0, i), 5),
    "index": (lambda x, i: x[i], 5),
    "index_put": (lambda x, i: x.index_put((i,), torch.zeros((), device=x.device)), 5),
    "embedding": (lambda x, i: F.embedding(i, x), 5),
    "scatter": (lambda x, i: x.scatter(0, i.view(-1, 1), 1.0), 5),
    "scatter_add": (lambda x, i: x.scatter_add(0, i.view(-1, 1), x[:2, :1]), 5),
    "index_add": (lambda x, i: x.index_add(0, i, x[:2]), 5),
}


@pytest.mark.parametrize("name", INDEX_MISTAKES)
@pytest.mark.parametrize("bad", [5, -6, 1_000_000])
def test_debug_mode_names_index_and_bound(name, bad):
    function, bound = INDEX_MISTAKES[name]
    x = torch.arange(15.0, device="tpu").view(5, 3)
    index = torch.tensor([0, bad], device="tpu")
    with torch.tpu.eager_mode("debug"):
        with pytest.raises(IndexError) as error:
            function(x, index)
        assert str(bad) in str(error.value)
        assert str(bound) in str(error.value)
        assert function(x, torch.tensor([0, 4], device="tpu")) is not None


def test_host_access_is_refused_clearly():
    x = torch.ones(3, device="tpu")
    with pytest.raises(TypeError, match="cpu"):
        x.numpy()
    with pytest.raises((TypeError, RuntimeError)):
        memoryview(x)


def test_mixing_devices_names_both():
    with pytest.raises(RuntimeError, match="(?s)cpu.*tpu|tpu.*cpu"):
        torch.ones(3, device="tpu") + torch.ones(3)
    with pytest.raises(RuntimeError):
        torch.ones(3, 3, device="tpu") @ torch.ones(3, 3)
    # 0-dim CPU tensors are numbers and may mix.
    assert (torch.ones(3, device="tpu") * torch.tensor(2.0)).tolist() == [2, 2, 2]


def test_a_device_that_is_not_there():
    with pytest.raises(RuntimeError):
        torch.ones(3, device="tpu:77")
    with pytest.raises((RuntimeError, ValueError)):
        torch.tpu.set_device(77)


def test_unknown_mode():
    with pytest.raises((ValueError, RuntimeError), match="strict"):
        torch.tpu.set_eager_mode("fastest")
    assert torch.tpu.get_eager_mode() in ("strict", "debug")
