# SPDX-License-Identifier: Apache-2.0
"""Random chains of views and writes give what they give on the CPU, for every alias."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

# Small and few sizes, so that programs recur and the search is not all compiling.
SIZES = st.sampled_from([1, 2, 3, 4])


def _dim(draw, x):
    return draw(st.integers(-x.dim(), x.dim() - 1))


def _narrow(draw, x):
    dim = _dim(draw, x)
    start = draw(st.integers(0, x.size(dim) - 1))
    length = draw(st.integers(1, x.size(dim) - start))
    return lambda t: t.narrow(dim, start, length)


def _strided_slice(draw, x):
    dim, step = _dim(draw, x) % x.dim(), draw(st.sampled_from([2, 3]))
    start = draw(st.integers(0, x.size(dim) - 1))
    index = (slice(None),) * dim + (slice(start, None, step),)
    return lambda t: t[index]


def _select(draw, x):
    dim = _dim(draw, x)
    index = draw(st.integers(-x.size(dim), x.size(dim) - 1))
    return lambda t: t.select(dim, index)


def _permute(draw, x):
    order = draw(st.permutations(range(x.dim())))
    return lambda t: t.permute(order)


def _reshape(draw, x):
    shape = draw(st.sampled_from([(-1,), (x.size(0), -1), (-1, x.size(-1)), (1, -1)]))
    return lambda t: t.reshape(shape)


def _split(draw, x):
    dim, part = _dim(draw, x), draw(st.sampled_from([0, -1]))
    return lambda t: t.split(2, dim)[part]


def _unfold(draw, x):
    dim = _dim(draw, x)
    size = draw(st.integers(1, x.size(dim)))
    return lambda t: t.unfold(dim, size, size)  # steps of `size`: elements do not overlap


def _as_strided(draw, x):
    count = draw(st.integers(1, x.numel()))
    return lambda t: t.as_strided((count,), (1,), t.storage_offset()) if t.is_contiguous() else t


VIEWS = {
    "narrow": _narrow,
    "strided slice": _strided_slice,
    "select": _select,
    "permute": _permute,
    "reshape": _reshape,
    "split": _split,
    "unfold": _unfold,
    "as_strided": _as_strided,
    "unsqueeze": lambda draw, x: (lambda dim: lambda t: t.unsqueeze(dim))(_dim(draw, x)),
    "squeeze": lambda draw, x: lambda t: t.squeeze(),
    "diagonal": lambda draw, x: lambda t: t.diagonal() if t.dim() > 1 else t,
    "flatten": lambda draw, x: lambda t: t.flatten(),
    "detach": lambda draw, x: lambda t: t.detach(),
    "expand": lambda draw, x: lambda t: t.expand(2, *t.shape),
}


def _assign_mask(t, fill):
    t[t > 0] = 7


def _index_put(t, fill):
    t[torch.tensor([0, -1], device=t.device)] = 5


WRITES = {
    "fill_": lambda t, fill: t.fill_(3),
    "zero_": lambda t, fill: t.zero_(),
    "add_": lambda t, fill: t.add_(2, alpha=3),
    "mul_ tensor": lambda t, fill: t.mul_(fill),
    "copy_": lambda t, fill: t.copy_(fill),
    "sub own copy": lambda t, fill: t.sub_(t.clone().flip(0)),
    "neg_": lambda t, fill: t.neg_(),
    "clamp_": lambda t, fill: t.clamp_(-4, 4),
    "x[mask] =": _assign_mask,
    "x[index] =": _index_put,
    "x[0] +=": lambda t, fill: t.__setitem__(0, t[0] + 1),
    "masked_fill_": lambda t, fill: t.masked_fill_(fill > 0, -1),
    "add out=": lambda t, fill: torch.add(t.clone(), fill, out=t),
}
# Torch leaves these undefined, or refuses them, when elements share memory.
OVERLAPS = "more than one element of the written-to tensor"


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=st.data())
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bfloat16])
def test_chain_equals_cpu(dtype, data):
    shape = data.draw(st.lists(SIZES, min_size=1, max_size=3), label="shape")
    count = torch.Size(shape).numel()
    cpu = [(torch.arange(count) % 11 - 5).to(dtype).view(shape)]
    tpu = [cpu[0].to("tpu")]
    for _ in range(data.draw(st.integers(2, 7), label="length")):
        source = data.draw(st.integers(0, len(cpu) - 1), label="of")
        x = cpu[source]
        if x.dim() and data.draw(st.booleans(), label="view"):
            name = data.draw(st.sampled_from(sorted(VIEWS)), label="op")
            view = VIEWS[name](data.draw, x)
            cpu.append(view(x))
            tpu.append(view(tpu[source]))
            assert tpu[-1].shape == cpu[-1].shape
            assert tpu[-1].stride() == cpu[-1].stride()
            assert tpu[-1].storage_offset() == cpu[-1].storage_offset()
            continue
        if x.dim() == 0 or 0 in x.stride():
            continue
        name = data.draw(st.sampled_from(sorted(WRITES)), label="write")
        fill = (torch.arange(x.size(-1)) % 3 - 1).to(dtype)
        WRITES[name](x, fill)
        WRITES[name](tpu[source], fill.to("tpu"))
        for found, expected in zip(tpu, cpu, strict=True):
            assert torch.equal(found.cpu(), expected), name


def test_write_to_expanded_tensor_is_refused_as_on_cpu():
    for device in ("cpu", "tpu"):
        with pytest.raises(RuntimeError, match=OVERLAPS):
            torch.zeros(1, device=device).expand(3).add_(1)


@pytest.mark.parametrize("view", [torch.uint8, torch.int16, torch.int32, torch.bfloat16])
def test_dtype_views_share_bytes(view):
    cpu = torch.arange(8, dtype=torch.float32)
    tpu = cpu.to("tpu")
    assert torch.equal(tpu.view(view).cpu().view(torch.uint8), cpu.view(view).view(torch.uint8))
    for x in (cpu, tpu):
        x.view(view)[3] = 1
    assert torch.equal(tpu.cpu().view(torch.int32), cpu.view(torch.int32))


def test_autograd_through_views_and_writes():
    gradients = []
    for device in ("cpu", "tpu"):
        x = torch.linspace(-1, 1, 12).view(3, 4).to(device).requires_grad_()
        y = x * 2
        y[1:, ::2].mul_(3)
        y.t()[0] += 1
        z = y.clone().view(2, 6)
        z[0].copy_(y.view(2, 6)[1])
        (z.sin().sum() + y.diagonal().prod()).backward()
        gradients.append(x.grad.cpu())
    torch.testing.assert_close(gradients[1], gradients[0])
