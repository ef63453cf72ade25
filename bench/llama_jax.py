# SPDX-License-Identifier: Apache-2.0
"""The same tiny Llama and AdamW in plain JAX, one jitted step with donated state."""

import functools

import jax
import jax.numpy as jnp
import shapes

HEAD = shapes.HIDDEN // shapes.HEADS


def init(key) -> dict:
    def linear(key, *shape):
        return 0.02 * jax.random.normal(key, shape)

    keys = iter(jax.random.split(key, 2 + 7 * shapes.LAYERS))
    hidden, inner, narrow = shapes.HIDDEN, shapes.INNER, shapes.KEY_HEADS * HEAD
    layers = [
        {
            "q": linear(next(keys), hidden, hidden),
            "k": linear(next(keys), hidden, narrow),
            "v": linear(next(keys), hidden, narrow),
            "o": linear(next(keys), hidden, hidden),
            "gate": linear(next(keys), hidden, inner),
            "up": linear(next(keys), hidden, inner),
            "down": linear(next(keys), inner, hidden),
            "norm1": jnp.ones(hidden),
            "norm2": jnp.ones(hidden),
        }
        for _ in range(shapes.LAYERS)
    ]
    return {
        "embedding": linear(next(keys), shapes.VOCABULARY, hidden),
        "head": linear(next(keys), hidden, shapes.VOCABULARY),
        "norm": jnp.ones(hidden),
        "layers": layers,
    }


def rms_norm(x, weight):
    return x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-6) * weight


def rotate(x):
    """Rotary positions; x: [batch, length, heads, head size]."""
    frequencies = 10000.0 ** (-jnp.arange(0, HEAD, 2) / HEAD)
    angles = jnp.arange(x.shape[1])[:, None] * jnp.concatenate([frequencies, frequencies])
    first, second = jnp.split(x, 2, -1)
    turned = jnp.concatenate([-second, first], -1)
    return x * jnp.cos(angles)[:, None] + turned * jnp.sin(angles)[:, None]


def attention(p, x):
    batch, length, _ = x.shape
    q = rotate((x @ p["q"]).reshape(batch, length, shapes.HEADS, HEAD))
    k = rotate((x @ p["k"]).reshape(batch, length, shapes.KEY_HEADS, HEAD))
    v = (x @ p["v"]).reshape(batch, length, shapes.KEY_HEADS, HEAD)
    y = jax.nn.dot_product_attention(q, k, v, is_causal=True)
    return y.reshape(batch, length, shapes.HIDDEN) @ p["o"]


def loss(parameters, ids):
    x = parameters["embedding"][ids]
    for p in parameters["layers"]:
        x = x + attention(p, rms_norm(x, p["norm1"]))
        y = rms_norm(x, p["norm2"])
        x = x + (jax.nn.silu(y @ p["gate"]) * (y @ p["up"])) @ p["down"]
    logits = rms_norm(x, parameters["norm"]) @ parameters["head"]
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits[:, :-1]), ids[:, 1:, None], -1)
    return -picked.mean()


@functools.partial(jax.jit, donate_argnums=(0, 1, 2))
def step(parameters, first, second, count, ids):
    value, gradients = jax.value_and_grad(loss)(parameters, ids)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradients)

    def update(p, m, v):
        m, v = m / (1 - 0.9**count), v / (1 - 0.999**count)
        return p * (1 - shapes.RATE * 0.01) - shapes.RATE * m / (jnp.sqrt(v) + 1e-8)

    return jax.tree.map(update, parameters, first, second), first, second, value


class Trainer:
    def __init__(self):
        self.parameters = init(jax.random.key(0))
        self.first = jax.tree.map(jnp.zeros_like, self.parameters)
        self.second = jax.tree.map(jnp.zeros_like, self.parameters)
        self.count = 0
        size = (shapes.BATCH, shapes.LENGTH)
        self.ids = jax.random.randint(jax.random.key(1), size, 0, shapes.VOCABULARY)

    def steps(self, count: int) -> list[float]:
        losses = []
        for _ in range(count):
            self.count += 1
            state = self.parameters, self.first, self.second
            *state, value = step(*state, float(self.count), self.ids)
            self.parameters, self.first, self.second = state
            losses.append(value)
        return [float(value) for value in losses]
