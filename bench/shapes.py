# SPDX-License-Identifier: Apache-2.0
"""Sizes of the tiny Llama, the same for torch and JAX."""

VOCABULARY = 512
HIDDEN = 128
INNER = 448
LAYERS = 4
HEADS = 4
KEY_HEADS = 2
BATCH = 8
LENGTH = 64
RATE = 1e-3
