# SPDX-License-Identifier: Apache-2.0
"""Ten small ops and five views, written once for torch and once for JAX, and how to time them."""

import time
from collections.abc import Callable

BATCH_SECONDS = 2e-3  # one measurement: enough calls to fill this


def torch_cases(device: str) -> tuple[dict[str, Callable], dict[str, Callable], Callable]:
    """(ops, views, wait) for a torch device; every op takes no argument."""
    import torch
    from torch.nn import functional as F

    torch.manual_seed(0)
    a, b = torch.randn(4, 4).to(device), torch.randn(4, 4).to(device)
    x, w = torch.randn(8, 32).to(device), torch.ones(32).to(device)
    ops = {
        "a + b": lambda: a + b,
        "a * 2": lambda: a * 2,
        "relu(a)": lambda: torch.relu(a),
        "a @ b": lambda: a @ b,
        "a.sum()": lambda: a.sum(),
        "a.t() + b": lambda: a.t() + b,
        "softmax(x)": lambda: torch.softmax(x, -1),
        "cat([a, b])": lambda: torch.cat([a, b]),
        "layer_norm(x)": lambda: F.layer_norm(x, (32,), w, w),
        "where(a > b, a, b)": lambda: torch.where(a > b, a, b),
    }
    views = {
        "a.view(16)": lambda: a.view(16),
        "a.t()": lambda: a.t(),
        "a[1:3]": lambda: a[1:3],
        "a[:, 1]": lambda: a[:, 1],
        "a.expand(2, 4, 4)": lambda: a.expand(2, 4, 4),
    }
    wait = torch.tpu.synchronize if device == "tpu" else lambda: None
    return ops, views, wait


def jax_cases(jit: bool) -> tuple[dict[str, Callable], Callable]:
    """(ops, wait) for JAX on its CPU, eager or each op in a jit of its own."""
    import jax
    import jax.numpy as jnp

    keys = jax.random.split(jax.random.key(0), 3)
    a, b = jax.random.normal(keys[0], (4, 4)), jax.random.normal(keys[1], (4, 4))
    x, w = jax.random.normal(keys[2], (8, 32)), jnp.ones(32)

    def layer_norm(x, w, b):
        mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) / jnp.sqrt(var + 1e-5) * w + b

    functions = {
        "a + b": (lambda a, b: a + b, (a, b)),
        "a * 2": (lambda a: a * 2, (a,)),
        "relu(a)": (lambda a: jax.nn.relu(a), (a,)),
        "a @ b": (lambda a, b: a @ b, (a, b)),
        "a.sum()": (lambda a: a.sum(), (a,)),
        "a.t() + b": (lambda a, b: a.T + b, (a, b)),
        "softmax(x)": (lambda x: jax.nn.softmax(x, -1), (x,)),
        "cat([a, b])": (lambda a, b: jnp.concatenate([a, b]), (a, b)),
        "layer_norm(x)": (layer_norm, (x, w, w)),
        "where(a > b, a, b)": (lambda a, b: jnp.where(a > b, a, b), (a, b)),
    }
    ops = {}
    for name, (function, arguments) in functions.items():
        if jit:
            function = jax.jit(function)
        ops[name] = lambda f=function, args=arguments: f(*args)
    return ops, lambda: jax.block_until_ready(a + b)


def measure(function: Callable, wait: Callable, calls: int = 0) -> tuple[float, int]:
    """(microseconds per call, calls): the work is waited for, so none is left to the next one.

    calls: as an earlier measure of the same function gave; 0 finds it, after a warm-up.
    """
    if not calls:
        for _ in range(10):
            function()
        wait()
        began = time.perf_counter()
        for _ in range(20):
            function()
        calls = max(10, int(BATCH_SECONDS / ((time.perf_counter() - began) / 20)))
    began = time.perf_counter()
    for _ in range(calls):
        function()
    wait()
    return (time.perf_counter() - began) / calls * 1e6, calls
