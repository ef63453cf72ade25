# SPDX-License-Identifier: Apache-2.0
"""torch.save and load, safetensors, pickle and deepcopy."""

import copy
import io
import pickle

import pytest
import torch

from tests.process import run_python

# Each imports torch without the device library, as on a machine that lacks it.
WITHOUT_LIBRARY = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}


def round_trip(obj, **options):
    file = io.BytesIO()
    torch.save(obj, file)
    file.seek(0)
    return torch.load(file, **options)


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize(
    "dtype",
    [
        torch.float32,
        torch.float64,
        torch.bfloat16,
        torch.float16,
        torch.int64,
        torch.uint8,
        torch.bool,
        torch.complex64,
        torch.float8_e4m3fn,
        torch.float8_e5m2,
    ],
)
def test_round_trip(dtype, weights_only):
    x = torch.arange(6).reshape(2, 3).to(dtype)
    y = round_trip(x.to("tpu"), weights_only=weights_only)
    assert y.device == torch.device("tpu", 0) and y.dtype == dtype
    assert torch.equal(y.cpu().view(torch.uint8), x.view(torch.uint8))


def test_views_stay_views():
    base = torch.arange(12.0, device="tpu").reshape(3, 4)
    a, b, whole = round_trip([base[1:, ::2], base.t(), base])
    assert a.stride() == base[1:, ::2].stride() and b.shape == (4, 3)
    a.fill_(7)
    assert torch.equal(b.t().cpu(), whole.cpu())
    assert whole[1, 0].item() == 7 and whole[0, 0].item() == 0


def test_tied_parameters_stay_tied():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)).to("tpu")
    model[1].weight = model[0].weight
    loaded = round_trip(model, weights_only=False)
    assert loaded[0].weight is loaded[1].weight and loaded[0].weight.is_tpu
    state = round_trip(model.state_dict(), weights_only=True)
    assert state["0.weight"].data_ptr() == state["1.weight"].data_ptr()


@pytest.mark.parametrize("target", ["cpu", "tpu", "tpu:0", torch.device("tpu", 0)])
@pytest.mark.parametrize("source", ["cpu", "tpu"])
def test_map_location(source, target):
    x = torch.arange(5.0)
    y = round_trip(x.to(source), map_location=target)
    assert y.device.type == torch.device(target).type
    assert torch.equal(y.cpu(), x)
    z = round_trip(x.to(source), map_location=lambda storage, where: storage)
    assert z.device.type == "cpu" and torch.equal(z, x)


def test_map_location_to_a_second_device():
    run_python(
        """
        import io, torch
        for source in ("cpu", "tpu:0", "tpu:1"):
            file = io.BytesIO()
            torch.save(torch.arange(3.0).to(source), file)
            file.seek(0)
            y = torch.load(file, map_location="tpu:1")
            assert y.device == torch.device("tpu:1") and y.tolist() == [0, 1, 2]
            file.seek(0)
            y = torch.load(file, map_location={"tpu:1": "tpu:0"})
            assert y.device == torch.device("cpu" if source == "cpu" else "tpu:0")
        file.seek(0)
        """,
        TORCH_TPU_RUNTIME="cpu",
        TORCH_TPU_CPU_DEVICES="2",
    )


def test_a_device_that_is_missing_is_named(tmp_path):
    path = tmp_path / "second.pt"
    run_python(
        f"import torch; torch.save(torch.ones(2, device='tpu:1'), {str(path)!r})",
        TORCH_TPU_RUNTIME="cpu",
        TORCH_TPU_CPU_DEVICES="2",
    )
    with pytest.raises(RuntimeError, match=r"(?i)tpu device 1 .*map_location"):
        torch.load(path)
    assert torch.load(path, map_location="tpu:0").device.index == 0


def test_loads_where_the_library_is_absent(tmp_path):
    path = tmp_path / "model.pt"
    model = torch.nn.Linear(3, 2).to("tpu")
    torch.save({"state": model.state_dict(), "step": 3}, path)
    expected = model.weight.detach().cpu().tolist()
    run_python(
        f"""
        import sys, torch
        saved = torch.load({str(path)!r}, map_location="cpu", weights_only=True)
        assert "torch_tpu" not in sys.modules
        assert saved["step"] == 3 and saved["state"]["weight"].tolist() == {expected}
        """,
        **WITHOUT_LIBRARY,
    )


def test_a_file_from_elsewhere_loads_here(tmp_path):
    path = tmp_path / "cpu.pt"
    run_python(f"import torch; torch.save(torch.arange(4.0), {str(path)!r})", **WITHOUT_LIBRARY)
    x = torch.load(path, map_location="tpu")
    assert x.is_tpu and x.tolist() == [0, 1, 2, 3]
    assert torch.load(path, map_location="tpu", mmap=True).tolist() == [0, 1, 2, 3]


def test_optimizer_state(tmp_path):
    def train(model, optimizer, steps):
        for _ in range(steps):
            optimizer.zero_grad()
            model(torch.ones(2, 4, device="tpu")).sum().backward()
            optimizer.step()

    def make():
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 4).to("tpu")
        return model, torch.optim.AdamW(model.parameters(), lr=0.1)

    model, optimizer = make()
    train(model, optimizer, 2)
    torch.save([model.state_dict(), optimizer.state_dict()], tmp_path / "a.pt")
    train(model, optimizer, 2)
    again, other = make()
    saved = torch.load(tmp_path / "a.pt", weights_only=True)
    again.load_state_dict(saved[0])
    other.load_state_dict(saved[1])
    train(again, other, 2)
    torch.testing.assert_close(again.weight.cpu(), model.weight.cpu(), rtol=0, atol=0)


def test_safetensors(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    path = tmp_path / "a.safetensors"
    tensors = {
        "a": torch.arange(6.0, device="tpu").reshape(2, 3),
        "b": torch.ones(3, device="tpu", dtype=torch.bfloat16),
    }
    safetensors.save_file(tensors, path)
    # Its loader knows no device of that name, so tensors move afterwards.
    loaded = {k: v.to("tpu") for k, v in safetensors.load_file(path).items()}
    for name, tensor in tensors.items():
        assert torch.equal(loaded[name].cpu(), tensor.cpu())
    model = torch.nn.Linear(3, 2).to("tpu")
    safetensors.save_model(model, str(path))
    other = torch.nn.Linear(3, 2).to("tpu")
    safetensors.load_model(other, str(path))
    assert torch.equal(other.weight.cpu(), model.weight.cpu())


def test_deepcopy():
    x = torch.arange(4.0, device="tpu")
    pair = copy.deepcopy([x, x[1:]])
    pair[0].fill_(5)
    assert pair[1].tolist() == [5, 5, 5] and x.tolist() == [0, 1, 2, 3]
    w = torch.nn.Parameter(torch.ones(2, device="tpu"))
    w.grad = torch.full((2,), 3.0, device="tpu")
    model = torch.nn.ParameterList([w])
    v = copy.deepcopy(model)[0]
    assert isinstance(v, torch.nn.Parameter) and v.is_tpu and v.tolist() == [1, 1]
    v.data.zero_()
    assert w.tolist() == [1, 1]
    assert copy.deepcopy(w.grad).tolist() == [3, 3]
    storage = copy.deepcopy(x.untyped_storage())
    assert storage.is_tpu and storage.data_ptr() != x.untyped_storage().data_ptr()


def test_pickle():
    x = torch.arange(4.0, device="tpu")
    y = pickle.loads(pickle.dumps(x))
    assert y.is_tpu and y.tolist() == x.tolist()
    assert copy.copy(y).data_ptr() == y.data_ptr()


def test_generator_state_is_saved():
    state = round_trip(torch.tpu.get_rng_state())
    torch.tpu.set_rng_state(state)
    assert torch.equal(torch.tpu.get_rng_state(), state)
