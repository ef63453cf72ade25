# SPDX-License-Identifier: Apache-2.0
"""What users of other backends reported. The address of each report is in the test's id.

`xla#N` is pytorch/xla, `pt#N` pytorch/pytorch; others by repository name.
"""

import copy
import io
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.process import run_python

REPORTS = {}


def report(*addresses):
    """Registers a scenario under the addresses of its reports."""

    def register(function):
        for address in addresses:
            REPORTS[address] = function
        return function

    return register


def both(function):
    """function(device) on the CPU and on the device, for comparison: (found, expected)."""
    return function("tpu"), function("cpu")


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# ---- numerics ------------------------------------------------------------------------------------


@report("xla#3553")
def float32_matmul_is_float32():
    a, b = randn(1024, 1024), randn(1024, 1024, seed=1)
    found, expected = (a.to("tpu") @ b.to("tpu")).cpu().double(), a.double() @ b.double()
    assert (found - expected).abs().max() <= 1e-5 * expected.abs().max()


@report("xla#8811")
def highest_precision_matmul():
    before = torch.get_float32_matmul_precision()
    a, b = randn(200, 300), randn(300, 100, seed=1)
    try:
        torch.set_float32_matmul_precision("highest")
        found = (a.to("tpu") @ b.to("tpu")).cpu()
    finally:
        torch.set_float32_matmul_precision(before)
    torch.testing.assert_close(found, a @ b, rtol=1e-5, atol=1e-4)


@report("jax-ml/jax#9973")
def no_bfloat16_passes_in_small_matmul():
    a = torch.tensor([[1.0001, 2.0003], [3.0007, 4.0009]])
    torch.testing.assert_close((a.to("tpu") @ a.to("tpu")).cpu(), a @ a, rtol=1e-6, atol=0)


@report("xla#2169", "xla#2525")
def softmax_then_argmax():
    x = randn(64, 50_257)
    x[:, 7] = x[:, 40_000] = 100.0  # a tie: the first wins
    found, expected = both(lambda d: x.to(d).softmax(-1).argmax(-1).cpu())
    assert torch.equal(found, expected) and (found == 7).all()


@report("xla#2330", "xla#2419", "tensorflow#118647")
def nan_wins_in_extremes():
    x = torch.tensor([[1.0, float("nan"), 3.0], [float("nan"), float("nan"), -1.0]])

    def extremes(d):
        y = x.to(d)
        results = [
            y.argmax(1),
            y.argmin(1),
            *y.max(1),
            *y.min(1),
            y.amax(1),
            y.max(),
            y.clamp(0, 2),
            y.clamp(min=2),
            torch.maximum(y, y.flip(1)),
            torch.fmax(y, y.flip(1)),
            y.relu(),
            *y.sort(1),
            *y.topk(2),
            F.max_pool1d(y, 2),
        ]
        return [r.cpu() for r in results]

    for found, expected in zip(*both(extremes), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


# ---- views and in-place --------------------------------------------------------------------------


@report("xla#3330")
def data_of_another_shape():
    layer = nn.Linear(4, 3).to("tpu")
    weight = randn(5, 4)
    layer.weight.data = weight.to("tpu")
    layer.bias.data = torch.zeros(5, device="tpu")
    assert layer.weight.shape == (5, 4)
    x = randn(2, 4, seed=1)
    torch.testing.assert_close(layer(x.to("tpu")).cpu(), x @ weight.t())


@report("xla#514")
def write_to_strided_slice():
    def write(d):
        x = torch.zeros(4, 7, device=d)
        x[:, 0::2] = 2
        x[1::2, 1::3] += 5
        return x.cpu()

    found, expected = both(write)
    assert torch.equal(found, expected)


@report("xla#8640", "xla#8410", "aws-neuron-sdk#1140")
def split_and_chunk_see_later_writes():
    def pieces(d):
        x = torch.arange(24.0, device=d).view(4, 6)
        parts = [*x.split(2, 1), *x.chunk(2), *x.unbind(0), *torch.tensor_split(x, 3, 1)]
        x.mul_(2)
        parts[0].add_(100)
        parts[4][0] = -1
        return [p.cpu() for p in (x, *parts)]

    for found, expected in zip(*both(pieces), strict=True):
        assert torch.equal(found, expected)


@report("torch-spyre#692")
def boolean_assignment():
    def write(d):
        x = torch.arange(12.0, device=d).view(3, 4)
        x[x > 6] = -1
        x[x == 2] = x[x == 2] * 10
        x[torch.tensor([True, False, True], device=d)] += 0.5
        return x.cpu()

    found, expected = both(write)
    assert torch.equal(found, expected)


# ---- dtype and autocast --------------------------------------------------------------------------


@report("xla#6403")
def relu_keeps_bfloat16():
    x = torch.tensor([-1.0, 2.0], dtype=torch.bfloat16, device="tpu", requires_grad=True)
    y = F.relu(x)
    y.sum().backward()
    assert (y.dtype, x.grad.dtype) == (torch.bfloat16, torch.bfloat16)
    assert y.tolist() == [0, 2] and x.grad.tolist() == [0, 1]


@report("xla#3718")
def bfloat16_linear_with_float32_gradient():
    def gradients(d):
        torch.manual_seed(0)
        layer = nn.Linear(8, 4).to(torch.bfloat16).to(d)
        x = randn(3, 8).to(d, torch.bfloat16).requires_grad_()
        y = layer(x)
        y.float().backward(torch.ones(3, 4, device=d))
        return [t.cpu() for t in (y, x.grad, layer.weight.grad, layer.bias.grad)]

    for found, expected in zip(*both(gradients), strict=True):
        assert found.dtype == expected.dtype == torch.bfloat16
        torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)


@report("xla#7992", "xla#8509")
def losses_under_autocast_are_float32():
    x = randn(4, 10).to("tpu", torch.bfloat16)
    target = torch.tensor([1, 2, 3, 4], device="tpu")
    with torch.autocast("tpu", dtype=torch.bfloat16):
        assert F.cross_entropy(x, target).dtype == torch.float32
        assert x.softmax(-1).dtype == torch.float32
        assert x.log_softmax(-1).dtype == torch.float32
        assert F.nll_loss(x, target).dtype == torch.float32
        assert F.layer_norm(x, (10,)).dtype == torch.float32
        assert (x.float() @ x.float().t()).dtype == torch.bfloat16
        assert F.linear(x.float(), x.float()).dtype == torch.bfloat16
    expected = F.cross_entropy(x.cpu().float(), target.cpu())
    with torch.autocast("tpu", dtype=torch.bfloat16):
        torch.testing.assert_close(F.cross_entropy(x, target).cpu(), expected)


@report("pytorch/helion#2818")
def every_dtype_of_torch_works_or_is_refused():
    dtypes = sorted({d for d in vars(torch).values() if isinstance(d, torch.dtype)}, key=str)
    assert len(dtypes) > 20
    refused = []
    for dtype in dtypes:
        try:
            x = torch.empty(2, dtype=dtype, device="tpu")
            assert x.dtype == dtype
        except (RuntimeError, TypeError, NotImplementedError) as error:
            refused.append(dtype)
            assert str(error)
    usual = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.bool]
    assert not set(refused).intersection(usual)


# ---- recompiles ----------------------------------------------------------------------------------


def compiles_of(function):
    torch.tpu.reset_metrics()
    function()
    metrics = torch.tpu.metrics()
    return metrics["compiles"] + metrics["disk_hits"]


@report("xla#6614")
def sampling_compiles_nothing_after_the_second_step():
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.SiLU(), nn.Conv2d(8, 3, 3, padding=1))
    net = net.to("tpu")
    alphas = torch.linspace(0.999, 0.98, 50).tolist()
    x = torch.randn(1, 3, 16, 16, device="tpu")

    @torch.no_grad()
    def steps(some):
        nonlocal x
        for alpha in some:
            noise = net(x)
            x = (x - (1 - alpha) ** 0.5 * noise) / alpha**0.5
            x = x + torch.randn_like(x) * (0.1 * (1 - alpha))

    steps(alphas[:2])
    assert compiles_of(lambda: steps(alphas[2:])) == 0
    assert torch.isfinite(x).all()


@report("xla#2511")
def python_scalars_per_tensor_do_not_compile():
    parameters = [torch.randn(4, 4, device="tpu") for _ in range(6)]
    gradients = [torch.randn(4, 4, device="tpu") for _ in range(6)]

    def step(rate):
        for i, (p, g) in enumerate(zip(parameters, gradients, strict=True)):
            trust = (p.norm() / g.norm().clamp(min=1e-6)).item() * (1 + i)
            p.add_(g, alpha=-rate * trust)

    step(0.1)
    assert compiles_of(lambda: [step(0.1 / i) for i in range(1, 6)]) == 0


@report("xla#3336", "xla#4741")
def a_new_process_compiles_nothing(tmp_path):
    script = """
        import torch
        x = torch.linspace(0, 1, 32, device="tpu").view(4, 8).requires_grad_()
        (x @ x.t()).softmax(-1).sum().backward()
        print(x.grad.sum().item())
        metrics = torch.tpu.metrics()
        print(metrics["compiles"], metrics["disk_hits"])
    """
    variables = {"TORCH_TPU_CACHE_DIR": str(tmp_path)}
    value, first = run_python(script, **variables).splitlines()
    again, second = run_python(script, **variables).splitlines()
    assert int(first.split()[0]) > 0
    assert (again, second.split()[0]) == (value, "0")
    assert int(second.split()[1]) > 0


@report("xla#4432", "xla#2602")
def changing_counts_of_nonzero():
    x = (torch.arange(64) * 7 % 64).float()
    y = x.to("tpu")
    expected = [(x > t).nonzero() for t in range(0, 60, 3)]
    (y > 1).nonzero()
    y.masked_select(y > 1)

    def work():
        for t, indices in zip(range(0, 60, 3), expected, strict=True):
            assert torch.equal((y > t).nonzero().cpu(), indices)
            assert torch.equal(y.masked_select(y > t).cpu(), x.masked_select(x > t))
            assert torch.equal(y[y > t].cpu(), x[x > t])

    # A slice of the padded result may compile per count; the search itself must not.
    assert compiles_of(work) <= 2 * len(expected) + 2


# ---- random numbers ------------------------------------------------------------------------------


@report("xla#2092")
def the_same_seed_gives_the_same_numbers():
    def draw(seed):
        torch.manual_seed(seed)
        x = torch.ones(1000, device="tpu")
        return torch.randn(100, device="tpu").cpu(), F.dropout(x, 0.5).cpu()

    for first, second, other in zip(draw(0), draw(0), draw(1), strict=True):
        assert torch.equal(first, second)
        assert not torch.equal(first, other)
    kept = (draw(0)[1] != 0).float().mean().item()
    assert 0.4 < kept < 0.6


@report("xla#9159")
def generators_of_the_device():
    generator = torch.Generator(device="tpu")
    draws = []
    for _ in range(2):
        generator.manual_seed(3)
        draws.append(torch.randn(5, device="tpu", generator=generator).tolist())
    assert draws[0] == draws[1]
    order = torch.randperm(50, device="tpu", generator=generator)
    assert sorted(order.tolist()) == list(range(50)) != order.tolist()
    sampler = torch.utils.data.RandomSampler(range(8), generator=torch.Generator())
    loader = torch.utils.data.DataLoader(torch.arange(8.0), batch_size=2, sampler=sampler)
    assert sorted(x for batch in loader for x in batch.to("tpu").tolist()) == list(range(8))


# ---- memory --------------------------------------------------------------------------------------


@report("xla#7849")
def memory_falls_with_the_tensor():
    before = torch.tpu.memory_allocated()
    x = torch.zeros(1 << 20, device="tpu")
    held = torch.tpu.memory_allocated()
    del x
    assert held - before >= 4 << 20
    assert torch.tpu.memory_allocated() - before < 1 << 20


@report("xla#3532")
def a_changing_last_batch_does_not_grow():
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to("tpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    allocated = []
    for step in range(200):
        rows = 8 if step % 10 else 1 + step // 10 % 7
        loss = model(torch.ones(rows, 16, device="tpu")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        del loss
        allocated.append(torch.tpu.memory_allocated())
    # A few cached 8-byte scalars may join; a leaked batch would be 512 bytes per step.
    assert max(allocated[20:]) <= max(allocated[:20]) + 1024


# ---- serialization and modules -------------------------------------------------------------------


@report("xla#2858")
def a_saved_file_loads_without_the_library(tmp_path):
    path = tmp_path / "x.pt"
    torch.save({"x": torch.arange(3.0, device="tpu")}, path)
    script = f"""
        import sys, torch
        x = torch.load({str(path)!r}, map_location="cpu")["x"]
        print(x.tolist(), "torch_tpu" in sys.modules)
    """
    assert run_python(script, TORCH_DEVICE_BACKEND_AUTOLOAD="0").strip() == "[0.0, 1.0, 2.0] False"


@report("pt#62273")
def map_location_to_another_device(tmp_path):
    path = tmp_path / "x.pt"
    script = f"""
        import torch
        torch.save(torch.arange(3.0, device="tpu:0"), {str(path)!r})
        x = torch.load({str(path)!r}, map_location="tpu:1")
        print(x.device, (x + 1).tolist())
    """
    assert run_python(script, TORCH_TPU_CPU_DEVICES="2").strip() == "tpu:1 [1.0, 2.0, 3.0]"


@report("xla#7799")
def weights_only_load():
    parameter = nn.Parameter(torch.arange(3.0, device="tpu"))
    saved = io.BytesIO()
    torch.save({"p": parameter, "view": parameter.detach()[1:]}, saved)
    saved.seek(0)
    loaded = torch.load(saved, weights_only=True)
    assert isinstance(loaded["p"], nn.Parameter) and loaded["p"].device.type == "tpu"
    with torch.no_grad():
        loaded["p"].zero_()
    assert loaded["view"].tolist() == [0, 0]


# ---- registration and the rest -------------------------------------------------------------------


@report("pt#134293", "pt#144845")
def the_device_in_any_order_of_imports():
    for first in ("import torch, torch_tpu", "import torch_tpu, torch", "import torch"):
        text = run_python(f"""
            {first}
            d = torch.device("tpu")
            x = torch.zeros(2, device=d)
            module = torch.get_device_module("tpu")
            print(d.type, x.device, torch.tpu.is_available(), module is torch.tpu)
        """)
        assert text.strip() == "tpu tpu:0 True True"


@report("pt#95207")
def every_spelling_of_to():
    x, layer = torch.ones(2), nn.Linear(2, 2)
    device = torch.device("tpu")
    for y in (
        x.to("tpu"),
        x.to(device),
        x.to("tpu:0"),
        x.tpu(),
        x.to(torch.ones(1, device=device)),
    ):
        assert y.device == torch.device("tpu:0") and y.tolist() == [1, 1]
    for y in (x.to("tpu", torch.bfloat16), x.to(device=device, dtype=torch.bfloat16)):
        assert (y.device.type, y.dtype) == ("tpu", torch.bfloat16)
    assert x.to("tpu").is_tpu and not x.is_tpu
    for move in (lambda m: m.to("tpu"), lambda m: m.tpu(), lambda m: m.to(device, torch.float16)):
        assert move(copy.deepcopy(layer)).weight.device.type == "tpu"


@report("xla#2715", "xla#3831")
def one_warning_names_the_op_that_fell_back():
    torch.tpu.reset_metrics()
    text = run_python("""
        import torch, warnings
        x = torch.linspace(0, 1, 4, device="tpu")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(3):
                y = torch.special.airy_ai(x)
        texts = [str(w.message) for w in caught]
        print(len([t for t in texts if "airy_ai" in t]), torch.tpu.metrics()["fallbacks"])
        assert torch.allclose(y.cpu(), torch.special.airy_ai(x.cpu()))
    """)
    count, fallbacks = text.strip().split(" ", 1)
    assert count == "1"
    assert "airy_ai" in fallbacks and ": 3" in fallbacks


@report("microsoft/DirectML#425")
def host_access_is_refused():
    x = torch.ones(3, device="tpu")
    with pytest.raises(TypeError, match="cpu"):
        x.numpy()
    # The address is made up: it identifies the storage, and is never host memory.
    assert x.data_ptr() != 0 and x[1:].data_ptr() == x.data_ptr() + 4
    assert x.data_ptr() != torch.ones(3, device="tpu").data_ptr()


@pytest.mark.parametrize("address", REPORTS)
def test_report(address, request):
    function = REPORTS[address]
    needs = function.__code__.co_varnames[: function.__code__.co_argcount]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        function(**{name: request.getfixturevalue(name) for name in needs})
