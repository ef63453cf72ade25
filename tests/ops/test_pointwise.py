# SPDX-License-Identifier: Apache-2.0
"""Pointwise ops where OpInfo's samples do not look: signed zeros, infinities, NaN, far-out values.

Also lists of tensors, fused optimizer steps and gradient scaling. The oracle is torch CPU.
"""

import itertools
import math

import pytest
import torch
from torch.utils._pytree import tree_leaves, tree_map

import torch_tpu  # noqa: F401

aten = torch.ops.aten
INF, NAN = math.inf, math.nan
TOLERANCE = {
    torch.float32: (1e-5, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float64: (1e-9, 1e-9),
    torch.complex64: (1e-5, 1e-5),
}
FLOATS = [
    0.0,
    -0.0,
    1,
    -1,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    3,
    -3,
    20.5,
    88,
    -88,
    1e-4,
    -1e-4,
    1e4,
    -1e4,
    1e10,
    INF,
    -INF,
    NAN,
    0.9999,
    -0.9999,
    7.999,
    8.001,
]
INTS = [0, 1, -1, 2, -2, 3, 7, -7, 100, -100, 2**30, -(2**31) + 1]

# fmt: off
UNARY = [
    "abs", "neg", "sign", "signbit", "angle", "ceil", "floor", "trunc", "frac", "round",
    "reciprocal", "sqrt", "rsqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p",
    "sigmoid", "logit", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
    "asinh", "acosh", "atanh", "sinc", "isnan", "isinf", "isposinf", "isneginf", "nan_to_num",
    "erf", "erfc", "erfinv", "special_erfcx", "special_log_ndtr", "special_ndtri",
    "special_entr", "digamma", "i0", "special_i0e", "special_i1", "special_i1e", "relu", "silu",
    "mish", "elu", "leaky_relu", "softplus", "hardtanh", "hardsigmoid", "hardswish",
    "hardshrink", "softshrink", "logical_not", "bitwise_not",
]
# fmt: on
# fmt: off
BINARY = [
    "add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor", "maximum", "minimum", "fmax",
    "fmin", "atan2", "hypot", "logaddexp", "logaddexp2", "xlogy.Tensor", "heaviside",
    "copysign.Tensor", "nextafter", "eq.Tensor", "ne.Tensor", "lt.Tensor", "le.Tensor",
    "gt.Tensor", "ge.Tensor", "logical_and", "logical_xor", "pow.Tensor_Tensor",
    "remainder.Tensor", "fmod.Tensor", "floor_divide", "bitwise_and.Tensor",
    "bitwise_xor.Tensor", "gcd", "lcm", "bitwise_left_shift.Tensor",
    "bitwise_right_shift.Tensor",
]
# fmt: on
DIVISIONS = (
    "div",
    "remainder",
    "fmod",
    "floor_divide",
)  # torch refuses integer zero, the device cannot

pytestmark = pytest.mark.usefixtures("no_fallback")


def overload(name):
    base, _, which = name.partition(".")
    return getattr(getattr(aten, base), which or "default")


def to_device(tree):
    return tree_map(lambda v: v.to("tpu") if isinstance(v, torch.Tensor) else v, tree)


def check(got, expected):
    for g, e in zip(tree_leaves(got), tree_leaves(expected), strict=True):
        if not isinstance(e, torch.Tensor):
            continue
        rtol, atol = TOLERANCE.get(e.dtype, (0, 0))
        torch.testing.assert_close(g.cpu(), e, rtol=rtol, atol=atol, equal_nan=True)


def compare(op, *args, **kwargs):
    """Same call on both; in-place ops are compared by what they leave in their arguments."""
    writes = op._schema.is_mutable
    on_device = to_device((args, kwargs))
    on_cpu = tree_map(lambda v: v.clone() if isinstance(v, torch.Tensor) else v, (args, kwargs))
    try:
        expected = op(*on_cpu[0], **on_cpu[1])
    except (RuntimeError, NotImplementedError):
        pytest.skip(f"torch CPU has no {op} for this dtype")
    got = op(*on_device[0], **on_device[1])
    check(on_device if writes else got, on_cpu if writes else expected)


def values(dtype):
    return torch.tensor(INTS if dtype is torch.int32 else FLOATS, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32])
@pytest.mark.parametrize("name", UNARY)
def test_unary_extremes(name, dtype):
    compare(overload(name), values(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32])
@pytest.mark.parametrize("name", BINARY)
def test_binary_extremes(name, dtype):
    x = values(dtype)
    a, b = x[:, None].expand(len(x), len(x)), x[None].expand(len(x), len(x))
    if dtype is torch.int32:
        if name.split(".")[0] in DIVISIONS:
            b = torch.where(b == 0, 1, b)
        if name.startswith("pow"):
            b = b.clamp(0, 3)
    compare(overload(name), a.contiguous(), b.contiguous())


@pytest.mark.parametrize("mode", ["floor", "trunc", None])
def test_division_modes(mode):
    x = values(torch.float32)
    compare(aten.div.Tensor_mode, x[:, None], x[None], rounding_mode=mode)


@pytest.mark.parametrize("exponent", [0, 0.5, -0.5, 1, -1, 2, -2, 2.5, 3])
def test_power_of_a_number(exponent):
    compare(aten.pow.Tensor_Scalar, values(torch.float32), exponent)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_far_out(approximate):
    x = torch.tensor([-1e30, -1e4, -9.5, -6.0, 9.5, 1e4])
    compare(aten.gelu.default, x, approximate=approximate)
    compare(aten.gelu_backward.default, torch.ones_like(x), x, approximate=approximate)


@pytest.mark.parametrize("bounds", [(-1, 2), (None, 1), (0.5, None), (NAN, 1.0), (3, 1)])
def test_clamp(bounds):
    compare(aten.clamp.default, values(torch.float32), *bounds)


@pytest.mark.parametrize("number", [0.1, 2, True, NAN])
@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparison_with_a_number(name, number):
    # bfloat16(0.1) equals 0.1: the number is rounded to the tensor's dtype.
    compare(
        getattr(aten, name).Scalar,
        torch.tensor([0.1, 2.0, 1.0, NAN, INF], dtype=torch.bfloat16),
        number,
    )


def test_learning_rate_does_not_compile():
    x, y = torch.ones(3, device="tpu"), torch.ones(3, device="tpu")
    x.add_(y, alpha=-0.1)
    compiles = torch.tpu.metrics()["compiles"]
    for step in range(5):
        x.add_(y, alpha=-0.1 / (step + 2))
    assert torch.tpu.metrics()["compiles"] == compiles


# ---- lists --------------------------------------------------------------------------------------


def tensors(dtype, positive=False):
    torch.manual_seed(1)
    shapes = ((2, 3), (), (0,), (5,))
    return [
        (torch.randn(s).abs() + 0.5 if positive else torch.randn(s) * 3).to(dtype) for s in shapes
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
@pytest.mark.parametrize(
    "name", ["add", "sub", "mul", "div", "maximum", "minimum", "clamp_min", "clamp_max", "pow"]
)
def test_foreach_binary(name, dtype):
    a, b = tensors(dtype, positive=name == "pow"), tensors(dtype, positive=True)
    if dtype is torch.int64:
        b = [t.clamp(min=1) for t in b]
    op = getattr(aten, f"_foreach_{name}")
    compare(op.Scalar, a, 2)
    compare(op.List, a, b)
    compare(op.ScalarList, a, [2] * len(a))
    if dtype is not torch.int64:
        compare(getattr(aten, f"_foreach_{name}_").ScalarList, a, [0.5, 1, 2.5, 3])
    if name in ("add", "sub"):
        compare(op.List, a, b, alpha=2)
    if name == "pow" and dtype is not torch.int64:
        compare(op.ScalarAndTensor, 0.999, a)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
def test_foreach_pointwise(name, dtype):
    a, b, c = tensors(dtype), tensors(dtype), tensors(dtype, positive=True)
    op = getattr(aten, f"_foreach_{name}")
    compare(op.Scalar, a, b, c, 0.5)
    compare(op.ScalarList, a, b, c, [0.5, 1, 2, 3])
    compare(getattr(aten, f"_foreach_{name}_").Scalar, a, b, c, -0.1)


@pytest.mark.parametrize("order", [0, 0.5, 1, 2, 3, INF, -INF])
def test_foreach_norm(order):
    compare(aten._foreach_norm.Scalar, [t for t in tensors(torch.float32) if t.numel()], order)


def test_foreach_moves():
    a, b = tensors(torch.float32), tensors(torch.bfloat16)
    compare(aten._foreach_lerp_.Scalar, a, tensors(torch.float32, positive=True), 0.3)
    compare(aten._foreach_zero_.default, a)
    compare(aten._foreach_copy_.default, a, b)


# ---- optimizers ---------------------------------------------------------------------------------

SCALING = [(None, None), (4.0, None), (4.0, 0.0), (4.0, 1.0)]  # grad_scale, found_inf


def scaling(pair):
    return {
        "grad_scale": None if pair[0] is None else torch.tensor(pair[0]),
        "found_inf": None if pair[1] is None else torch.tensor(pair[1]),
    }


def parameters(dtype, f=lambda t: t):
    return [f(torch.randn(s)).to(dtype) for s in ((3, 4), (), (5,))]


def steps():
    return [torch.tensor(float(n)) for n in (1, 7, 1000)]


@pytest.mark.parametrize("pair", SCALING)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["_fused_adam_", "_fused_adamw_"])
def test_fused_adam(name, dtype, pair):
    torch.manual_seed(2)
    op = getattr(aten, name)
    for amsgrad, maximize, decay in itertools.product((False, True), (False, True), (0.0, 0.1)):
        args = (
            parameters(dtype),
            parameters(dtype),
            parameters(dtype),
            parameters(dtype, torch.abs),
            parameters(dtype, torch.abs) if amsgrad else [],
            steps(),
        )
        kwargs = dict(
            beta1=0.9, beta2=0.999, weight_decay=decay, eps=1e-8, amsgrad=amsgrad, maximize=maximize
        )
        compare(op.default, *args, lr=1e-2, **kwargs, **scaling(pair))
        compare(op.tensor_lr, *args, lr=torch.tensor(1e-2), **kwargs, **scaling(pair))


@pytest.mark.parametrize("pair", SCALING)
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("momentum,nesterov", [(0.0, False), (0.9, False), (0.9, True)])
def test_fused_sgd(momentum, nesterov, first, pair):
    torch.manual_seed(2)
    kwargs = dict(
        weight_decay=0.1,
        momentum=momentum,
        lr=0.1,
        dampening=0.0 if nesterov else 0.1,
        nesterov=nesterov,
        maximize=False,
        is_first_step=first,
    )
    momenta = parameters(torch.float32) if momentum else []
    compare(
        aten._fused_sgd_.default,
        parameters(torch.float32),
        parameters(torch.float32),
        momenta,
        **kwargs,
        **scaling(pair),
    )


def test_fused_adagrad():
    torch.manual_seed(2)
    f32 = torch.float32
    compare(
        aten._fused_adagrad_.default,
        parameters(f32),
        parameters(f32),
        parameters(f32, torch.abs),
        steps(),
        lr=0.1,
        lr_decay=0.01,
        weight_decay=0.1,
        eps=1e-10,
        maximize=False,
    )


@pytest.mark.parametrize("bad", [0.0, INF, NAN])
def test_unscale(bad):
    grads = parameters(torch.float32)
    grads[0][1, 1] += bad
    compare(
        aten._amp_foreach_non_finite_check_and_unscale_.default,
        grads,
        torch.zeros(1),
        torch.tensor([0.5]),
    )


@pytest.mark.parametrize(
    "tracker,found,scale", list(itertools.product((0, 3), (0.0, 1.0), (65536.0, 3e38)))
)
def test_update_scale(tracker, found, scale):
    compare(
        aten._amp_update_scale_.default,
        torch.tensor([scale]),
        torch.tensor([tracker], dtype=torch.int32),
        torch.tensor([found]),
        2.0,
        0.5,
        4,
    )
