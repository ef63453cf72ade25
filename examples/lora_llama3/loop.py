# SPDX-License-Identifier: Apache-2.0
"""The training loop: plain PyTorch, the same for pretraining and for LoRA, on any device."""

import math
import time

import torch
from data import batches
from output import UserError
from tqdm import tqdm

READ_EVERY = 10  # a host read waits for the device, so losses are read in groups


def train(
    model: torch.nn.Module,
    *,
    tokens: torch.Tensor,
    steps: int,
    batch: int,
    length: int,
    rate: float,
    seed: int,
    title: str,
) -> list[float]:
    """Trains the parameters that want gradients; the loss of each step, in nats per token.

    tokens: int64 [n], from which each step draws `batch` rows of `length`.
    rate: the peak learning rate, after a warm-up of a tenth of the steps; then a cosine to zero.
    """
    device = next(model.parameters()).device
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=rate, weight_decay=0.01)
    warmup = max(1, steps // 10)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda i: min((i + 1) / warmup, 0.5 * (1 + math.cos(math.pi * i / steps))),
    )
    # Gradients of float16 activations underflow without it; other dtypes do not need it.
    half = any(p.dtype == torch.float16 for p in model.parameters())
    scaler = torch.amp.GradScaler(device.type, enabled=half)

    model.train()
    pending, losses = [], []
    data = batches(tokens, batch, length, seed)
    bar = tqdm(range(steps), desc=title, unit="step", dynamic_ncols=True)
    began, counted = time.perf_counter(), 0
    for step in bar:
        ids = next(data).to(device, non_blocking=True)
        loss = model(input_ids=ids, labels=ids).loss
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        scheduler.step()
        pending.append(loss.detach())

        counted += batch * length
        if len(pending) == READ_EVERY or step == steps - 1:
            losses += torch.stack(pending).float().tolist()
            pending.clear()
            if not math.isfinite(losses[-1]):
                raise UserError(
                    f"{title}: the loss is {losses[-1]} at step {step}", "a smaller --rate"
                )
            now = time.perf_counter()
            bar.set_postfix(
                loss=f"{losses[-1]:.3f}", tokens_per_s=f"{counted / (now - began):,.0f}"
            )
            began, counted = now, 0
    return losses
