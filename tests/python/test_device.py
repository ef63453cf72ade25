# SPDX-License-Identifier: Apache-2.0
"""Devices: torch.tpu, torch.accelerator, several devices, mixing, storage resize, record_stream."""

import warnings

import pytest
import torch

from tests.process import run_python


def test_names_and_counts():
    assert torch.tpu.is_available()
    assert torch.tpu.device_count() >= 1
    assert torch.tpu.current_device() == 0
    assert torch.accelerator.current_accelerator() == torch.device("tpu")
    assert torch.accelerator.device_count() == torch.tpu.device_count()
    assert torch.empty(2, device="tpu").device == torch.device("tpu", 0)
    assert torch.get_device_module("tpu") is torch.tpu


def test_properties():
    properties = torch.tpu.get_device_properties()
    assert properties.platform in {"cpu", "tpu", "cuda"}
    assert properties.name == torch.tpu.get_device_name("tpu:0")
    assert properties.total_memory > 2**28
    supported = torch.tpu.get_device_capability()["supported_dtypes"]
    assert {torch.float32, torch.bfloat16, torch.int64, torch.float8_e5m2} <= supported
    assert torch.complex128 not in supported


def test_generated_methods():
    x = torch.arange(3.0)
    assert not x.is_tpu
    y = x.tpu()
    assert y.is_tpu and y.device.index == 0
    assert torch.equal(y.cpu(), x)
    assert torch.nn.Linear(2, 2).tpu().weight.is_tpu
    packed = torch.nn.utils.rnn.pack_sequence([x]).tpu()
    assert packed.is_tpu
    assert x.untyped_storage().tpu().is_tpu


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.empty(1, device="tpu:7"),
        lambda: torch.tpu.set_device(7),
        lambda: torch.tpu.synchronize(7),
        lambda: torch.tpu.memory_allocated(7),
        lambda: torch.tpu.get_device_properties(7),
        lambda: torch.Generator("tpu:7"),
        lambda: torch.tpu.Stream(7),
    ],
)
def test_a_device_that_does_not_exist_is_refused(call):
    torch.tpu.init()
    with pytest.raises(RuntimeError, match=r"expected a device index below \d+, got tpu:7"):
        call()
    assert torch.tpu.current_device() == 0


def test_a_device_of_another_kind_is_refused():
    with pytest.raises(ValueError, match="expected a tpu device, got 'cpu'"):
        torch.tpu.synchronize("cpu")


def test_unknown_variables_warn_once_and_name_the_nearest():
    out = run_python(
        """
        import warnings, torch
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            torch.ones(1, device="tpu")
            torch.ones(1, device="tpu")
        print([str(w.message) for w in seen if "TORCH_TPU" in str(w.message)])
        """,
        TORCH_TPU_RUNTIMES="cpu",
    )
    assert out.count("TORCH_TPU_RUNTIMES is not a variable we know") == 1
    assert "Did you mean TORCH_TPU_RUNTIME?" in out


def test_two_devices():
    run_python(
        """
        import torch
        assert torch.tpu.device_count() == 2
        a = torch.arange(6.0).reshape(2, 3)
        x, y = a.to("tpu:0"), a.to("tpu:1")
        assert (x.device.index, y.device.index) == (0, 1)
        assert torch.equal((y + 1).cpu(), a + 1) and (y + 1).device.index == 1
        # Copies between devices keep the source as it was, views included.
        z = x.t().to("tpu:1")
        assert z.device.index == 1 and torch.equal(z.cpu(), a.t())
        y.copy_(x * 2)
        assert torch.equal(y.cpu(), a * 2) and torch.equal(x.cpu(), a)
        # The current device is where tensors without an index go.
        with torch.tpu.device(1):
            assert torch.tpu.current_device() == 1
            assert torch.ones(1, device="tpu").device.index == 1
            with torch.tpu.device_of(x):
                assert torch.tpu.current_device() == 0
            with torch.tpu.device_of(a), torch.tpu.device(None):
                assert torch.tpu.current_device() == 1
        assert torch.tpu.current_device() == 0
        torch.accelerator.set_device_index(1)
        assert torch.tpu.current_device() == 1
        torch.tpu.set_device("tpu:0")
        assert torch.accelerator.current_device_index() == 0
        for mix in (lambda: x + y, lambda: x @ y.t(), lambda: torch.cat([x, y])):
            try:
                mix()
            except RuntimeError as e:
                assert "same device" in str(e) or "tpu:0 and tpu:1" in str(e), e
            else:
                raise AssertionError("devices were mixed without an error")
        # Backward through a copy between devices.
        w = torch.ones(3, device="tpu:0", requires_grad=True)
        (w.to("tpu:1") * 3).sum().backward()
        assert w.grad.device.index == 0 and torch.equal(w.grad.cpu(), torch.full((3,), 3.0))
        torch.tpu.synchronize(0), torch.tpu.synchronize(1)
        """,
        TORCH_TPU_RUNTIME="cpu",
        TORCH_TPU_CPU_DEVICES="2",
    )


def test_current_device_is_per_thread():
    run_python(
        """
        import threading, torch
        torch.tpu.set_device(1)
        seen = []
        thread = threading.Thread(target=lambda: seen.append(torch.tpu.current_device()))
        thread.start(), thread.join()
        assert seen == [0] and torch.tpu.current_device() == 1
        """,
        TORCH_TPU_RUNTIME="cpu",
        TORCH_TPU_CPU_DEVICES="2",
    )


def test_mixing_with_the_cpu_is_refused_as_in_torch():
    x = torch.ones(3, device="tpu")
    with pytest.raises(RuntimeError, match="same device"):
        x + torch.ones(3)
    assert torch.equal((x + torch.tensor(2.0)).cpu(), torch.full((3,), 3.0))


def test_storage_resize_frees_and_brings_back():
    x = torch.ones(1000, 100, device="tpu")
    torch.tpu.synchronize()
    before = torch.tpu.memory_allocated()
    storage = x.untyped_storage()
    size = storage.size()
    storage.resize_(0)
    assert storage.size() == 0
    assert torch.tpu.memory_allocated() <= before - size
    storage.resize_(size)
    x.fill_(2)
    assert torch.equal(x.cpu(), torch.full((1000, 100), 2.0))


def test_storage_growth_keeps_the_content():
    x = torch.arange(4.0, device="tpu")
    x.resize_(8)
    assert x.shape == (8,)
    assert torch.equal(x[:4].cpu(), torch.arange(4.0))


def test_set_and_data():
    x, y = torch.zeros(2, device="tpu"), torch.arange(6.0, device="tpu")
    x.set_(y.untyped_storage(), 1, (2, 2), (2, 1))
    y[1] = 9
    assert torch.equal(x.cpu(), torch.tensor([[9.0, 2.0], [3.0, 4.0]]))
    z = torch.zeros(3, device="tpu")
    z.data = torch.ones(2, 2, device="tpu")
    assert z.shape == (2, 2) and torch.equal(z.cpu(), torch.ones(2, 2))


def test_data_pointers_do_not_overlap():
    tensors = [torch.empty(n, device="tpu") for n in (1, 1000, 3, 100000)]
    ranges = sorted((t.data_ptr(), t.data_ptr() + t.nbytes) for t in tensors)
    for (_, end), (start, _) in zip(ranges, ranges[1:], strict=False):
        assert end <= start
    x = tensors[1]
    assert x[10:].data_ptr() == x.data_ptr() + 40


def test_dlpack_is_refused_or_right():
    x = torch.arange(4.0, device="tpu")
    try:
        y = torch.from_dlpack(x)
    except (RuntimeError, BufferError, NotImplementedError, ValueError):
        return
    assert torch.equal(y.cpu(), x.cpu())


def test_numpy_is_refused():
    with pytest.raises(TypeError, match="cpu"):
        torch.ones(2, device="tpu").numpy()


def test_modes():
    before = torch.tpu.get_eager_mode()
    with torch.tpu.eager_mode("debug"):
        assert torch.tpu.get_eager_mode() == "debug"
        with torch.tpu.eager_mode("strict"):
            assert torch.tpu.get_eager_mode() == "strict"
        assert torch.tpu.get_eager_mode() == "debug"
    assert torch.tpu.get_eager_mode() == before
    with pytest.raises((RuntimeError, ValueError), match="fast"):
        torch.tpu.set_eager_mode("fast")
    assert torch.tpu.get_eager_mode() == before


def test_metrics_count():
    torch.tpu.reset_metrics()
    assert torch.tpu.metrics()["dispatches"] == 0
    x = torch.ones(7, 3).to("tpu")
    y = x + x
    (y * 2).cpu()
    metrics = torch.tpu.metrics()
    assert metrics["dispatches"] >= 2 and metrics["executions"] >= 2
    assert metrics["bytes_to_device"] >= 84 and metrics["bytes_to_host"] >= 84
    assert metrics["host_reads"] >= 1
    assert metrics["fallbacks"] == {}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(dtype):
    w = torch.randn(4, 4, device="tpu")
    with torch.autocast("tpu", dtype=dtype):
        y = w @ w
        assert y.dtype == dtype
        assert torch.softmax(y, -1).dtype == torch.float32
        assert torch.nn.functional.mse_loss(y, y).dtype == torch.float32
        assert y.norm().dtype == torch.float32
        assert torch.addcmul(w, y, y).dtype == torch.float32
        with torch.autocast("tpu", enabled=False):
            assert (w @ w).dtype == torch.float32
        p = torch.sigmoid(y.float())
        with pytest.raises(RuntimeError, match="unsafe to autocast"):
            torch.nn.functional.binary_cross_entropy(p, p)
    with torch.tpu.amp.autocast():
        assert (w @ w).dtype == torch.bfloat16


def test_autocast_refuses_other_dtypes():
    with pytest.warns(UserWarning, match="only supports dtypes of torch.bfloat16, torch.float16"):
        torch.autocast("tpu", dtype=torch.float64)


def test_grad_scaler_is_for_the_device():
    scaler = torch.tpu.amp.GradScaler(init_scale=8.0)
    w = torch.ones(2, device="tpu", requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=1.0)
    scaler.scale(w.sum()).backward()
    assert torch.equal(w.grad.cpu(), torch.full((2,), 8.0))
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(w.detach().cpu(), torch.zeros(2))


def test_lazy_modules_may_be_moved_first():
    model = torch.nn.LazyLinear(3).to("tpu")
    assert model(torch.ones(2, 5, device="tpu")).shape == (2, 3)
    assert model.weight.is_tpu
    assert torch.nn.LazyLinear(3).tpu()(torch.ones(2, 5, device="tpu")).is_tpu


def test_no_warning_in_plain_use():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = torch.randn(3, 3, device="tpu", requires_grad=True)
        (x @ x).relu().sum().backward()
        x.grad.cpu()
