# SPDX-License-Identifier: Apache-2.0
"""Random fills and samplers against the distributions they promise.

Continuous ones by Kolmogorov-Smirnov distance to the exact distribution function, discrete ones by
frequencies; seeds are fixed, so a failure is never chance.
"""

import math

import pytest
import torch

import torch_tpu  # noqa: F401

N = 20000
KS_LIMIT = 1.95 / math.sqrt(N)  # one in a thousand
pytestmark = pytest.mark.usefixtures("no_fallback")


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(11)


def distance(samples: torch.Tensor, cdf) -> float:
    x = samples.detach().cpu().double().flatten().sort().values
    steps = torch.arange(1, x.numel() + 1, dtype=torch.float64) / x.numel()
    expected = cdf(x)
    return max(
        (steps - expected).abs().max(), (steps - 1 / x.numel() - expected).abs().max()
    ).item()


def normal_cdf(x, mean=0.0, std=1.0):
    return torch.special.ndtr((x - mean) / std)


CONTINUOUS = {
    "uniform": (lambda t: t.uniform_(-2, 3), lambda x: (x + 2) / 5),
    "rand": (lambda t: torch.rand_like(t), lambda x: x),
    "normal": (lambda t: t.normal_(2, 0.5), lambda x: normal_cdf(x, 2, 0.5)),
    "randn": (lambda t: torch.randn_like(t), normal_cdf),
    "log_normal": (lambda t: t.log_normal_(0.3, 0.7), lambda x: normal_cdf(x.log(), 0.3, 0.7)),
    "exponential": (lambda t: t.exponential_(2.5), lambda x: 1 - torch.exp(-2.5 * x)),
    "cauchy": (lambda t: t.cauchy_(1, 2), lambda x: torch.atan((x - 1) / 2) / math.pi + 0.5),
    "normal_tensors": (
        lambda t: torch.normal(torch.zeros_like(t), torch.full_like(t, 3)),
        lambda x: normal_cdf(x, 0, 3),
    ),
}


@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_continuous(name, dtype):
    draw, cdf = CONTINUOUS[name]
    samples = draw(torch.empty(N, device="tpu", dtype=dtype))
    assert samples.dtype == dtype and samples.isfinite().all()
    assert distance(samples, cdf) < KS_LIMIT


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_rand_stays_below_one(dtype):
    u = torch.rand(300000, device="tpu", dtype=dtype)
    assert u.min() >= 0 and u.max() < 1
    assert abs(u.double().mean() - 0.5) < 0.01


def test_complex_normal_has_unit_variance():
    z = torch.randn(N, device="tpu", dtype=torch.complex64).cpu()
    for part in (z.real, z.imag):
        assert distance(part, lambda x: normal_cdf(x, 0, math.sqrt(0.5))) < KS_LIMIT
    assert abs((z.real * z.imag).mean()) < 0.02


def test_geometric():
    x = torch.empty(N, device="tpu").geometric_(0.3).cpu()
    assert x.min() == 1 and torch.equal(x, x.round())
    for k in (1, 2, 3, 5):
        assert abs((x == k).float().mean() - 0.3 * 0.7 ** (k - 1)) < 0.02


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_bernoulli(dtype):
    x = torch.empty(N, device="tpu", dtype=dtype).bernoulli_(0.3).cpu()
    assert set(x.double().unique().tolist()) == {0, 1}
    assert abs(x.double().mean() - 0.3) < 0.015


def test_bernoulli_of_tensors():
    p = torch.tensor([0.0, 0.25, 1.0], device="tpu").repeat_interleave(N)
    for x in (torch.bernoulli(p), torch.empty_like(p).bernoulli_(p)):
        means = x.view(3, N).mean(1).cpu()
        assert means[0] == 0 and means[2] == 1 and abs(means[1] - 0.25) < 0.015


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64, torch.float32])
def test_randint_is_even(dtype):
    x = torch.randint(3, 10, (N,), device="tpu", dtype=dtype).cpu()
    counts = torch.bincount(x.long(), minlength=10)
    assert counts[:3].sum() == 0 and ((counts[3:] / N - 1 / 7).abs() < 0.012).all()


def test_randint_of_wide_ranges():
    low, high = -(2**62), 2**62
    x = torch.randint(low, high, (N,), device="tpu").cpu()
    assert distance(x, lambda v: (v - low) / float(high - low)) < KS_LIMIT
    assert len(x.unique()) == N


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.bool])
def test_random_fills_the_whole_type(dtype):
    x = torch.empty(300000, device="tpu", dtype=dtype).random_().cpu()
    top = 1 if dtype is torch.bool else torch.iinfo(dtype).max
    assert (
        x.min() == 0
        and x.max() >= top * 0.99
        and x.double().mean() / top == pytest.approx(0.5, abs=0.01)
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_random_from_to(dtype):
    x = torch.empty(N, device="tpu", dtype=dtype).random_(-5, 6).cpu()
    assert set(x.long().tolist()) == set(range(-5, 6))
    assert torch.empty(100, device="tpu", dtype=dtype).random_(4).max() <= 3


def test_randperm():
    rows = torch.stack([torch.randperm(5, device="tpu") for _ in range(400)]).cpu()
    assert torch.equal(rows.sort(1).values, torch.arange(5).expand(400, 5))
    frequency = torch.nn.functional.one_hot(rows).double().mean(0)
    assert ((frequency - 0.2).abs() < 0.09).all()
    assert torch.equal(torch.randperm(10001, device="tpu").sort().values.cpu(), torch.arange(10001))
    assert torch.randperm(0, device="tpu").shape == (0,)


@pytest.mark.parametrize("p", [0.1, 0.5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout(p, dtype):
    x = torch.ones(N, device="tpu", dtype=dtype, requires_grad=True)
    y = torch.nn.functional.dropout(x, p)
    y.sum().backward()
    kept = y.detach() != 0
    assert abs(kept.float().mean() - (1 - p)) < 0.015
    assert torch.allclose(y[kept].float(), torch.tensor(1 / (1 - p), device="tpu"), rtol=1e-2)
    assert torch.equal(x.grad, y.detach())
    assert torch.equal(torch.nn.functional.dropout(x, p, training=False), x)


WEIGHTS = [0.0, 1.0, 3.0, 0.0, 4.0, 0.0]


def frequencies(x):
    return torch.bincount(x.flatten().cpu(), minlength=len(WEIGHTS)).double() / x.numel()


def test_multinomial_with_replacement():
    w = torch.tensor(WEIGHTS, device="tpu")
    expected = torch.tensor(WEIGHTS, dtype=torch.float64) / sum(WEIGHTS)
    x = torch.multinomial(w, N, replacement=True)
    assert x.shape == (N,) and ((frequencies(x) - expected).abs() < 0.012).all()
    x = torch.multinomial(w.expand(2000, -1), 1)
    assert x.shape == (2000, 1) and ((frequencies(x) - expected).abs() < 0.035).all()


def test_multinomial_without_replacement():
    w = torch.tensor(WEIGHTS, device="tpu").expand(4000, -1)
    x = torch.multinomial(w, 3).cpu()
    assert torch.equal(x.sort(1).values, torch.tensor([1, 2, 4]).expand(4000, 3))
    assert ((frequencies(x[:, 0]) - torch.tensor(WEIGHTS) / sum(WEIGHTS)).abs() < 0.025).all()
    # Second after class 4: 1 or 3 out of 4.
    second = x[x[:, 0] == 4][:, 1]
    assert abs((second == 2).float().mean() - 0.75) < 0.03


def test_rrelu_draws_a_slope_per_negative():
    x = torch.cat([torch.full((N,), -1.0), torch.ones(10)]).to("tpu")
    y = torch.nn.functional.rrelu(x, 0.1, 0.3, training=True).cpu()
    assert torch.equal(y[N:], torch.ones(10))
    assert distance(-y[:N], lambda v: (v - 0.1) / 0.2) < KS_LIMIT
    assert torch.allclose(torch.nn.functional.rrelu(x, 0.1, 0.3).cpu()[:N], torch.tensor(-0.2))
