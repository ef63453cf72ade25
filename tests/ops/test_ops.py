# SPDX-License-Identifier: Apache-2.0
"""Every op of torch's OpInfo database on the device against torch CPU: results, gradients and
in-place forms.

The oracle is the same call on CPU tensors. ``--op-samples N`` caps the samples per op and dtype
(each new shape is a compile); 0 means all. Ops outside the table run through the CPU fallback,
which must be right too.
"""

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

import torch_tpu  # noqa: F401

DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64)
TOLERANCE = {  # rtol, atol
    torch.float64: (1e-7, 1e-7),
    torch.float32: (2e-4, 2e-5),
    torch.bfloat16: (2e-2, 2e-2),
    torch.float16: (2e-3, 2e-3),
    torch.complex64: (2e-4, 2e-5),
    torch.complex128: (1e-7, 1e-7),
}

# Indices of equal elements come in no promised order: the values they name are compared instead.
TIES = {"sort", "topk", "kthvalue", "mode", "median", "nanmedian"}

# The result is not a function of the input alone, or is not promised.
UNSPECIFIED = {
    "empty": "uninitialized",
    "empty_like": "uninitialized",
    "empty_permuted": "uninitialized",
    "empty_strided": "uninitialized",
    "new_empty": "uninitialized",
    "new_empty_strided": "uninitialized",
    "rand_like": "random",
    "randn": "random",
    "randn_like": "random",
    "randint": "random",
    "randint_like": "random",
    "normal": "random",
    "bernoulli": "random",
    "cauchy": "random",
    "exponential": "random",
    "geometric": "random",
    "log_normal": "random",
    "uniform": "random",
    "multinomial": "random",
    "nn.functional.dropout": "random",
    "nn.functional.dropout2d": "random",
    "nn.functional.dropout3d": "random",
    "nn.functional.alpha_dropout": "random",
    "nn.functional.feature_alpha_dropout": "random",
    "nn.functional.rrelu": "random",
    "nn.functional.multi_head_attention_forward": "random: dropout inside",
    "nn.functional.fractional_max_pool2d": "random",
    "nn.functional.fractional_max_pool3d": "random",
    "svd_lowrank": "random",
    "pca_lowrank": "random",
    "torch.ops.aten._efficient_attention_forward": "CUDA",
    "torch.ops.aten._flash_attention_forward": "CUDA",
    "to_sparse": "sparse",
    "sparse.mm": "sparse",
    "sparse.sampled_addmm": "sparse",
    "jiterator_unary": "CUDA",
    "jiterator_binary": "CUDA",
    "jiterator_4inputs_with_extra_args": "CUDA",
    "jiterator_binary_return_by_ref": "CUDA",
    "jiterator_2inputs_2outputs": "CUDA",
    "linalg.eig": "vectors up to phase",
    "linalg.eigh": "vectors up to sign",
    "linalg.svd": "vectors up to sign",
    "svd": "vectors up to sign",
    "argsort": "ties in no promised order",
    "to": "goes to a device the sample names",
    "tensor_split": "wants its indices on the CPU",
    "as_strided.partial_views": "reads the storage behind a view, which a copy does not have",
    "chalf": "the device has no complex32",
}


def cases():
    for op in op_db:
        name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
        if (
            op.name in UNSPECIFIED
            or name in UNSPECIFIED
            or op.name.startswith("sparse.")
            or "masked" in op.name.split(".")
        ):
            continue
        for dtype in DTYPES:
            if dtype in op.supported_dtypes("cpu"):
                yield pytest.param(op, dtype, id=f"{name}-{str(dtype).split('.')[1]}")


def to_device(value):
    return tree_map(lambda v: v.detach().to("tpu") if isinstance(v, torch.Tensor) else v, value)


def device_kwargs(kwargs):
    return {k: torch.device("tpu") if k == "device" else v for k, v in kwargs.items()}


def compare(got, expected, dtype, scale=1):
    got, expected = tree_leaves(got), tree_leaves(expected)
    assert len(got) == len(expected)
    for g, e in zip(got, expected, strict=True):
        if not isinstance(e, torch.Tensor):
            assert g == e or (g != g and e != e), f"{g} against {e}"
            continue
        assert g.device.type == "tpu", f"result on {g.device}"
        # bfloat16 inputs make bfloat16-sized errors in results of any dtype.
        rtol, atol = max(TOLERANCE.get(e.dtype, (0, 0)), TOLERANCE.get(dtype, (0, 0)))
        if not (e.is_floating_point() or e.is_complex()):
            rtol = atol = 0
        torch.testing.assert_close(g.cpu(), e, rtol=rtol * scale, atol=atol * scale, equal_nan=True)


def widened(value):
    """bfloat16 tensors as float32, for an oracle that does not round in between."""
    return tree_map(
        lambda v: v.float() if isinstance(v, torch.Tensor) and v.dtype is torch.bfloat16 else v,
        value,
    )


def check(op, call, sample, got, dtype):
    """Against CPU; bfloat16 may instead agree with the same call in float32, which rounds once."""
    expected = call(sample.input, *sample.args, **sample.kwargs)
    if op.name in TIES and isinstance(expected, tuple):
        got, expected = tuple(got)[:1], tuple(expected)[:1]
    if dtype is not torch.bfloat16:
        return compare(got, expected, dtype)
    try:
        compare(got, expected, dtype)
    except AssertionError:
        wide = widened((sample.input, sample.args, sample.kwargs))
        exact = tree_map(
            lambda w, e: w.to(e.dtype) if isinstance(e, torch.Tensor) else w,
            call(wide[0], *wide[1], **wide[2]),
            expected,
        )
        if op.name in TIES and isinstance(exact, tuple):
            exact = tuple(exact)[:1]
        compare(got, exact, dtype)


def samples_of(op, dtype, requires_grad=False):
    torch.manual_seed(0)
    return list(op.sample_inputs("cpu", dtype, requires_grad=requires_grad))


def capped(samples, limit):
    """`limit` samples spread over the list (the first few are often alike)."""
    if limit == 0 or len(samples) <= limit:
        return samples
    return [samples[i * len(samples) // limit] for i in range(limit)]


@pytest.mark.parametrize("op,dtype", cases())
def test_forward(op, dtype, op_samples):
    for sample in capped(samples_of(op, dtype), op_samples):
        got = op(
            to_device(sample.input),
            *to_device(sample.args),
            **device_kwargs(to_device(sample.kwargs)),
        )
        check(op, op, sample, got, dtype)


@pytest.mark.parametrize("op,dtype", [c for c in cases() if c.values[0].get_inplace() is not None])
def test_inplace(op, dtype, op_samples):
    inplace = op.get_inplace()
    for sample in capped(samples_of(op, dtype), max(1, op_samples // 2)):
        if sample.broadcasts_input:
            continue
        try:
            inplace(sample.input.clone(), *sample.args, **sample.kwargs)
        except RuntimeError:
            # What torch refuses on CPU must not pass on the device.
            with pytest.raises(RuntimeError):
                inplace(
                    to_device(sample.input), *to_device(sample.args), **to_device(sample.kwargs)
                )
            continue
        tpu = to_device(sample.input).clone()
        got = inplace(tpu, *to_device(sample.args), **to_device(sample.kwargs))
        assert got is tpu
        check(op, lambda x, *a, **k: inplace(x.clone(), *a, **k), sample, got, dtype)


def float_leaves(value):
    return [
        v
        for v in tree_leaves(value)
        if isinstance(v, torch.Tensor) and (v.is_floating_point() or v.is_complex())
    ]


@pytest.mark.parametrize(
    "op",
    [
        pytest.param(c.values[0], id=c.id.split("-float32")[0])
        for c in cases()
        if c.values[1] is torch.float32 and c.values[0].supports_autograd
    ],
)
def test_gradients(op, op_samples):
    for sample in capped(samples_of(op, torch.float32, True), max(1, op_samples // 2)):
        grads = []
        for device in ("cpu", "tpu"):
            args = tree_map(
                lambda v, device=device: (
                    v.detach().to(device).requires_grad_(v.requires_grad)
                    if isinstance(v, torch.Tensor)
                    else v
                ),
                (sample.input, sample.args, sample.kwargs),
            )
            out = op(args[0], *args[1], **(device_kwargs(args[2]) if device == "tpu" else args[2]))
            if sample.output_process_fn_grad is not None:
                out = sample.output_process_fn_grad(out)
            outs = [o for o in float_leaves(out) if o.requires_grad]
            if not outs:
                break
            loss = sum((o.abs() if o.is_complex() else o).sum() for o in outs)
            inputs = [v for v in float_leaves(args) if v.requires_grad]
            grads.append(torch.autograd.grad(loss, inputs, allow_unused=True))
        if len(grads) == 2:
            compare(grads[1], grads[0], torch.float32, scale=5)
