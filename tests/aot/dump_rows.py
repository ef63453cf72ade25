# SPDX-License-Identifier: Apache-2.0
"""Runs calls that reach the rows of the op table, one or two samples per op.

With TORCH_TPU_DUMP_DIR and TORCH_TPU_CACHE=0 it leaves one StableHLO module per signature. Run it
as a script, in a process of its own.
"""

import contextlib
import itertools

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

DTYPES = (torch.float32, torch.int64, torch.bool, torch.complex64)


def to_device(value):
    return tree_map(lambda v: v.detach().to("tpu") if isinstance(v, torch.Tensor) else v, value)


def op_samples():
    """One sample per op and kind of dtype, forward and backward, in-place too."""
    for op in op_db:
        for dtype in DTYPES:
            if dtype not in op.supported_dtypes("cpu"):
                continue
            grad = dtype is torch.float32 and op.supports_autograd
            samples = itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=False), 12)
            for sample in list(samples)[:: 6 if dtype is torch.float32 else 12]:
                with contextlib.suppress(Exception):  # the op suite judges; here only modules count
                    args = to_device((sample.input, sample.args, sample.kwargs))
                    args[2].update({k: "tpu" for k in args[2] if k == "device"})
                    if grad:
                        args = tree_map(
                            lambda v: (
                                v.requires_grad_(v.is_floating_point())
                                if isinstance(v, torch.Tensor)
                                else v
                            ),
                            args,
                        )
                    out = op(args[0], *args[1], **args[2])
                    outs = [
                        o
                        for o in tree_leaves(out)
                        if isinstance(o, torch.Tensor) and o.requires_grad
                    ]
                    if outs:
                        sum(o.abs().sum() for o in outs).backward()


def optimizers():
    for form in ({"foreach": False}, {"foreach": True}, {"fused": True}):
        for make in (torch.optim.AdamW, torch.optim.Adam, torch.optim.SGD, torch.optim.Adagrad):
            with contextlib.suppress(Exception):
                parameter = torch.nn.Parameter(torch.randn(8, 8, device="tpu"))
                parameter.grad = torch.randn(8, 8, device="tpu")
                optimizer = make([parameter], lr=0.1, **form)
                scaler = torch.amp.GradScaler("tpu")
                scaler.scale(torch.ones((), device="tpu"))
                scaler.step(optimizer)
                scaler.update()


def randoms():
    x = torch.empty(16, device="tpu")
    for name, args in (
        ("normal_", ()),
        ("uniform_", ()),
        ("bernoulli_", (0.5,)),
        ("exponential_", ()),
        ("geometric_", (0.5,)),
        ("cauchy_", ()),
        ("log_normal_", ()),
        ("random_", (0, 9)),
    ):
        getattr(x, name)(*args)
    torch.randperm(16, device="tpu")
    torch.multinomial(torch.ones(8, device="tpu"), 4)
    torch.nn.functional.dropout(torch.ones(16, device="tpu", requires_grad=True)).sum().backward()


def foreach():
    from torch.testing._internal import common_methods_invocations as db

    lists = [
        db.foreach_unary_op_db,
        db.foreach_binary_op_db,
        db.foreach_pointwise_op_db,
        db.foreach_reduce_op_db,
        db.foreach_other_op_db,
    ]
    for op in itertools.chain(*lists):
        with contextlib.suppress(Exception):
            for sample in itertools.islice(op.sample_inputs("cpu", torch.float32), 0, 24, 4):
                with contextlib.suppress(Exception):
                    args = to_device((sample.input, sample.args, sample.kwargs))
                    (op.inplace_variant or op.method_variant)(
                        args[0],
                        *args[1],
                        **{
                            k: v
                            for k, v in args[2].items()
                            if k in ("alpha", "value", "rounding_mode")
                        },
                    )


if __name__ == "__main__":
    torch.manual_seed(0)
    op_samples()
    optimizers()
    randoms()
    foreach()
