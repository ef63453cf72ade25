# SPDX-License-Identifier: Apache-2.0
"""Attention, grouped products, convolutions, pools and resizes beyond what OpInfo samples."""

import math

import pytest
import torch
import torch.nn.functional as F

import torch_tpu  # noqa: F401

pytestmark = pytest.mark.usefixtures("no_fallback")


def both(f, *tensors, grad=None):
    """f and its gradients on CPU and on the device, as one list each."""
    results = []
    for device in ("cpu", "tpu"):
        inputs = [t.detach().to(device) for t in tensors]
        for t in inputs:
            t.requires_grad_(t.is_floating_point())
        out = f(*inputs)
        if grad is None:
            torch.manual_seed(1)
            grad = torch.randn(out.shape, dtype=torch.float64)
        wanted = [t for t in inputs if t.requires_grad]
        grads = torch.autograd.grad(out, wanted, grad.to(device, out.dtype), allow_unused=True)
        results.append([out.detach()] + [g for g in grads if g is not None])
    return results


def assert_same(f, *tensors, rtol=1e-4, atol=1e-5):
    expected, got = both(f, *tensors)
    assert len(expected) == len(got)
    for e, g in zip(expected, got, strict=True):
        torch.testing.assert_close(g.cpu(), e, rtol=rtol, atol=atol)


def qkv(batch=2, heads=4, kv_heads=4, rows=9, columns=9, depth=8, dtype=torch.float32):
    torch.manual_seed(0)
    q = torch.randn(batch, rows, heads, depth, dtype=dtype).transpose(1, 2)
    k = torch.randn(batch, kv_heads, columns, depth, dtype=dtype)
    v = torch.randn(batch, kv_heads, columns, depth, dtype=dtype)
    return q, k, v


@pytest.mark.parametrize("kv_heads", [4, 2])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("rows,columns", [(9, 9), (5, 12), (1, 7)])
def test_attention(kv_heads, causal, rows, columns):
    q, k, v = qkv(kv_heads=kv_heads, rows=rows, columns=columns)
    assert_same(
        lambda q, k, v: F.scaled_dot_product_attention(
            q, k, v, is_causal=causal, enable_gqa=kv_heads != 4
        ),
        q,
        k,
        v,
    )


def test_attention_in_blocks():
    """More query rows than one block, and a causal mask that cuts columns per block."""
    q, k, v = qkv(batch=1, heads=2, kv_heads=1, rows=1100, columns=1100, depth=4)
    assert_same(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True),
        q,
        k,
        v,
    )


@pytest.mark.parametrize("shape", [(2, 1, 9, 9), (9, 9), (4, 1, 9), (1, 1, 9, 1), (9,)])
def test_attention_bias_gradient(shape):
    q, k, v = qkv()
    bias = torch.randn(shape)
    assert_same(
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m), q, k, v, bias
    )


def test_attention_rows_that_see_nothing_are_zero():
    q, k, v = qkv()
    mask = torch.ones(9, 9, dtype=torch.bool)
    mask[3] = False
    expected, got = both(
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m), q, k, v, mask
    )
    assert torch.all(got[0][:, :, 3] == 0)
    for e, g in zip(expected, got, strict=True):
        assert torch.isfinite(g).all()
        torch.testing.assert_close(g.cpu(), e, rtol=1e-4, atol=1e-5)


def test_attention_keeps_the_query_layout():
    q, k, v = (t.to("tpu") for t in qkv())
    assert F.scaled_dot_product_attention(q, k, v).stride() == q.stride()


def test_attention_half_precision():
    q, k, v = qkv(rows=32, columns=32, depth=16, dtype=torch.bfloat16)
    exact = F.scaled_dot_product_attention(q.float(), k.float(), v.float())
    got = F.scaled_dot_product_attention(q.to("tpu"), k.to("tpu"), v.to("tpu"))
    assert got.dtype is torch.bfloat16
    torch.testing.assert_close(got.cpu().float(), exact, rtol=1e-2, atol=1e-2)


def test_attention_dropout():
    """The share of dropped weights, their scale, and a backward that drops the same ones."""
    q, k, _ = (t.double().to("tpu") for t in qkv(rows=64, columns=64))
    eye = torch.eye(64, dtype=torch.float64, device="tpu").expand(2, 4, 64, 64).contiguous()

    def attend(q, k, v):
        torch.manual_seed(7)
        return F.scaled_dot_product_attention(q, k, v, dropout_p=0.25)

    weights, full = attend(q, k, eye), F.scaled_dot_product_attention(q, k, eye)
    kept = weights != 0
    share = 1 - kept.double().mean().item()
    assert abs(share - 0.25) < 5 * math.sqrt(0.25 * 0.75 / weights.numel())
    torch.testing.assert_close(weights[kept], full[kept] / 0.75)
    inputs = [t.detach().requires_grad_() for t in (q, k, eye)]
    out = attend(*inputs)
    grad = torch.randn_like(out)
    gradients = torch.autograd.grad(out, inputs, grad)
    for i, gradient in enumerate(gradients):
        step = torch.randn_like(inputs[i]) * 1e-5
        ahead = [t.detach() + (step if j == i else 0) for j, t in enumerate(inputs)]
        behind = [t.detach() - (step if j == i else 0) for j, t in enumerate(inputs)]
        measured = ((attend(*ahead) - attend(*behind)) * grad).sum() / 2
        torch.testing.assert_close((gradient * step).sum(), measured, rtol=1e-6, atol=1e-12)


COUNTS = [[3, 0, 5, 4], [12, 0, 0, 0], [0, 0, 0, 12], [1, 1, 1, 9], [2, 2, 2, 2]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("counts", COUNTS, ids=str)
def test_grouped_mm(counts, dtype):
    torch.manual_seed(0)
    ends = torch.tensor(counts).cumsum(0).int()
    used = ends[-1].item()
    a = torch.randn(12, 16).to(dtype).to("tpu").requires_grad_()
    w = torch.randn(4, 24, 16).to(dtype).to("tpu").requires_grad_()
    out = F.grouped_mm(a, w.transpose(1, 2), offs=ends.to("tpu"))
    grad = torch.randn(12, 24).to(dtype)
    grad[used:] = 0
    grad_a, grad_w = torch.autograd.grad(out, [a, w], grad.to("tpu"))
    exact_a, exact_w = (t.detach().cpu().double().requires_grad_() for t in (a, w))
    starts = [0] + ends.tolist()
    parts = [exact_a[starts[i] : starts[i + 1]] @ exact_w[i].T for i in range(4)]
    exact = torch.cat(parts)
    exact.backward(grad[:used].double())
    tolerance = {"rtol": 1e-2, "atol": 2e-2} if dtype is torch.bfloat16 else {}
    torch.testing.assert_close(out[:used].cpu(), exact.detach().to(dtype), **tolerance)
    torch.testing.assert_close(grad_a[:used].cpu(), exact_a.grad[:used].to(dtype), **tolerance)
    torch.testing.assert_close(grad_w.cpu(), exact_w.grad.to(dtype), **tolerance)


@pytest.mark.parametrize(
    "spatial,groups,stride,padding,dilation",
    [
        (1, 2, 2, 3, 2),
        (3, 1, 2, 1, 1),
        (3, 6, 1, 0, 1),
        (2, 1, 1, 1, 1),
        (2, 1, 3, 1, 1),
        (2, 2, 2, 3, 2),
        (2, 6, 2, 0, 1),
        (2, 6, 1, 2, 2),
    ],
)
def test_convolution(spatial, groups, stride, padding, dilation):
    torch.manual_seed(0)
    conv = (F.conv1d, F.conv2d, F.conv3d)[spatial - 1]
    x = torch.randn(2, 6, *(9, 8, 7)[:spatial])
    w, b = torch.randn(12, 6 // groups, *(3, 2, 3)[:spatial]), torch.randn(12)
    assert_same(
        lambda x, w, b: conv(x, w, b, stride, padding, dilation, groups),
        x,
        w,
        b,
        rtol=1e-4,
        atol=1e-4,
    )


@pytest.mark.parametrize(
    "groups,stride,padding,output_padding,dilation",
    [(1, 1, 0, 0, 1), (2, 2, 1, 1, 1), (6, 3, 4, 2, 3), (1, 2, 0, 2, 3)],
)
def test_transposed_convolution(groups, stride, padding, output_padding, dilation):
    torch.manual_seed(0)
    x, w, b = torch.randn(2, 6, 5, 4), torch.randn(6, 4, 3, 2), torch.randn(4 * groups)
    assert_same(
        lambda x, w, b: F.conv_transpose2d(
            x, w, b, stride, padding, output_padding, groups, dilation
        ),
        x,
        w,
        b,
        rtol=1e-4,
        atol=1e-4,
    )


def test_pool_indices_of_ties_nan_and_lowest():
    x = torch.zeros(1, 3, 6, 6)
    x[0, 1] = float("-inf")
    x[0, 2, ::2, 1::2] = float("nan")
    for kernel, stride, padding in [(2, 2, 0), (3, 1, 1), (3, 2, 1)]:
        expected = F.max_pool2d(x, kernel, stride, padding, return_indices=True)
        got = F.max_pool2d(x.to("tpu"), kernel, stride, padding, return_indices=True)
        torch.testing.assert_close(got[0].cpu(), expected[0], equal_nan=True)
        assert torch.equal(got[1].cpu(), expected[1])


def test_wide_pool():
    """More kernel positions than the backward spreads one by one."""
    torch.manual_seed(0)
    assert_same(lambda x: F.max_pool2d(x, 9, 1, 4), torch.randn(2, 3, 14, 14))


@pytest.mark.parametrize("size", [(3, 3), (5, 7), (1, 12), (20, 24)])
def test_adaptive_pools(size):
    torch.manual_seed(0)
    x = torch.randn(2, 3, 10, 12)
    assert_same(lambda x: F.adaptive_avg_pool2d(x, size), x)
    assert_same(lambda x: F.adaptive_max_pool2d(x, size), x)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic", "area"])
@pytest.mark.parametrize("scale", [2, 0.6])
def test_resize_keeps_infinities_local(mode, scale):
    torch.manual_seed(0)
    x = torch.randn(1, 2, 10, 10)
    assert_same(lambda x: F.interpolate(x, scale_factor=scale, mode=mode), x, atol=1e-4)
    x[0, 0, 0, 0] = float("inf")
    got = F.interpolate(x.to("tpu"), scale_factor=scale, mode=mode).cpu()
    assert torch.equal(got.isfinite(), F.interpolate(x, scale_factor=scale, mode=mode).isfinite())
