# SPDX-License-Identifier: Apache-2.0
"""Training and generation of whole models on the device against the CPU, with no fallback."""

import pytest
import torch

from tests.models import zoo

STEPS = 20
pytestmark = pytest.mark.usefixtures("no_fallback")

OPTIMIZERS = {
    "adamw": lambda p, **kw: torch.optim.AdamW(p, **{"lr": 1e-3, **kw}),
    "adam": lambda p, **kw: torch.optim.Adam(p, lr=1e-3, weight_decay=0.01, **kw),
    "adam-amsgrad": lambda p, **kw: torch.optim.Adam(p, lr=1e-3, amsgrad=True, **kw),
    "sgd": lambda p, **kw: torch.optim.SGD(p, lr=0.05, **kw),
    "sgd-momentum": lambda p, **kw: torch.optim.SGD(
        p, lr=0.02, momentum=0.9, nesterov=True, weight_decay=0.01, **kw
    ),
}
FORMS = {"for-loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}


def train(name, device, steps, optimizer="adamw", clip=None, schedule=False, autocast=None, **form):
    """Losses [steps], the first step's gradients and the last parameters, all on the CPU."""
    model = zoo.make(name).to(device)
    optimizer = OPTIMIZERS[optimizer](model.parameters(), **form)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps) if schedule else None
    generator = torch.Generator().manual_seed(1)
    losses, gradients = [], {}
    for step in range(steps):
        batch = {k: v.to(device) for k, v in zoo.ZOO[name].batch(generator).items()}
        with torch.autocast(device, dtype=autocast, enabled=autocast is not None):
            loss = zoo.loss(model, batch)
        loss.backward()
        if step == 0:
            gradients = {n: p.grad.cpu() for n, p in model.named_parameters() if p.grad is not None}
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad()
        if scheduler:
            scheduler.step()
        losses.append(loss.detach())
    state = {n: p.detach().cpu() for n, p in model.state_dict().items()}
    return torch.stack(losses).float().cpu(), gradients, state


def assert_close(found, expected, tolerance, what):
    """Largest difference at most `tolerance` of the largest expected value."""
    scale = expected.abs().max().item() if expected.numel() else 0.0
    difference = (found - expected).abs().max().item() if expected.numel() else 0.0
    assert difference <= tolerance * scale + 1e-7, f"{what}: off by {difference:.3g} of {scale:.3g}"


def assert_same_training(found, expected, tolerance=1e-4):
    assert_close(found[0], expected[0], tolerance, "losses")
    assert found[1].keys() == expected[1].keys()
    # Relative to the largest gradient of the model: some are zero but for rounding.
    scale = max(g.abs().max().item() for g in expected[1].values())
    for name, gradient in expected[1].items():
        difference = (found[1][name] - gradient).abs().max().item()
        limit = tolerance * max(gradient.abs().max().item(), 1e-2 * scale)
        assert difference <= limit, f"gradient of {name}: {difference:.3g} above {limit:.3g}"


@pytest.mark.parametrize("name", zoo.ZOO)
def test_training_equals_cpu(name):
    # Batch norm over four images and Adam amplify rounding: at 1e-3, torch CPU itself in float32
    # and float64 lies 1e-4 apart after 20 steps.
    rate = {"lr": 1e-4} if name == "resnet" else {}
    assert_same_training(train(name, "tpu", STEPS, **rate), train(name, "cpu", STEPS, **rate))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_in_both_directions(kind, bias):
    results = []
    for device in ("tpu", "cpu"):
        torch.manual_seed(0)
        layer = getattr(torch.nn, kind)(5, 6, 2, bias=bias, bidirectional=True).to(device)
        x = torch.linspace(-1, 1, 60).view(4, 3, 5).to(device).requires_grad_()
        y, state = layer(x)
        last = state[1] if kind == "LSTM" else state
        (y.sin().sum() + last.square().sum()).backward()
        results.append([t.detach().cpu() for t in (y, last, x.grad)])
        results[-1] += [p.grad.cpu() for p in layer.parameters()]
    for found, expected in zip(*results, strict=True):
        assert_close(found, expected, 1e-4, kind)


@pytest.mark.parametrize("name", zoo.ZOO)
def test_strict_equals_debug_bit_for_bit(name):
    strict = train(name, "tpu", 3)
    with torch.tpu.eager_mode("debug"):
        debug = train(name, "tpu", 3)
    assert torch.equal(strict[0], debug[0])
    for part in (1, 2):
        for key, value in strict[part].items():
            assert torch.equal(value, debug[part][key]), key


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_optimizer(optimizer, form):
    form = FORMS[form]
    found = train("mlp", "tpu", STEPS, optimizer, **form)
    expected = train("mlp", "cpu", STEPS, optimizer, **form)
    assert_same_training(found, expected)
    for name, parameter in expected[2].items():
        assert_close(found[2][name], parameter, 1e-4, name)


@pytest.mark.parametrize("form", FORMS)
def test_llama_with_clipping_and_schedule(form):
    options = dict(clip=0.1, schedule=True, **FORMS[form])
    found = train("llama3", "tpu", STEPS, **options)
    assert_same_training(found, train("llama3", "cpu", STEPS, **options))


@pytest.mark.parametrize("name", ["llama3", "gpt2", "vit", "resnet", "mlp"])
def test_autocast_bfloat16(name):
    found = train(name, "tpu", 5, autocast=torch.bfloat16)
    expected = train(name, "cpu", 5)
    # bfloat16 has 8 bits: compare with float32, within its rounding.
    assert_close(found[0], expected[0], 2e-2, "losses")
    assert all(g.dtype == torch.float32 for g in found[1].values())


def test_scheduler_never_compiles():
    train("mlp", "tpu", 3, schedule=True)
    torch.tpu.reset_metrics()
    train("mlp", "tpu", 6, schedule=True)
    assert torch.tpu.metrics()["compiles"] == 0


@pytest.mark.parametrize("form", FORMS)
def test_grad_scaler_skips_steps_that_overflow(form):
    results = {}
    for device in ("cpu", "tpu"):
        torch.manual_seed(0)
        model = zoo.MLP().to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, **FORMS[form])
        scaler = torch.amp.GradScaler(device, init_scale=2.0**8, growth_interval=3)
        scales, generator = [], torch.Generator().manual_seed(2)
        for step in range(8):
            batch = zoo.ZOO["mlp"].batch(generator)
            x = batch["x"].to(device)
            if step == 4:
                x = x * float("inf")
            loss = torch.nn.functional.cross_entropy(model(x), batch["labels"].to(device))
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            scales.append(scaler.get_scale())
        results[device] = scales, [p.detach().cpu() for p in model.parameters()]
    assert results["tpu"][0] == results["cpu"][0]
    assert results["cpu"][0][4] < results["cpu"][0][3]
    for found, expected in zip(results["tpu"][1], results["cpu"][1], strict=True):
        assert torch.isfinite(found).all()
        assert_close(found, expected, 1e-4, "parameter")


@pytest.mark.parametrize("name", [n for n, entry in zoo.ZOO.items() if entry.generates])
def test_greedy_generation_equals_cpu(name):
    model = zoo.make(name).eval()
    prompt = torch.arange(3, 9).view(1, -1).repeat(2, 1)
    options = dict(max_new_tokens=8, do_sample=False, pad_token_id=0, eos_token_id=None)
    expected = model.generate(prompt, attention_mask=torch.ones_like(prompt), **options)
    prompt = prompt.to("tpu")
    found = model.to("tpu").generate(prompt, attention_mask=torch.ones_like(prompt), **options)
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["llama3", "gpt2"])
def test_sampled_generation_repeats_with_its_seed(name):
    model = zoo.make(name).eval().to("tpu")
    prompt = torch.arange(3, 9).view(1, -1).to("tpu")
    runs = []
    for seed in (5, 5, 6):
        torch.manual_seed(seed)
        made = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=12,
            do_sample=True,
            top_k=20,
            top_p=0.9,
            temperature=1.2,
            pad_token_id=0,
            eos_token_id=None,
        )
        runs.append(made.tolist())
    assert runs[0] == runs[1] != runs[2]
