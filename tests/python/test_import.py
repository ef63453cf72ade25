# SPDX-License-Identifier: Apache-2.0
"""What `import torch` does with the device: registers it, silently, cheaply, without the plugin."""

import os
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest

from tests.process import run_python

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


def run(code: str, path: list[pathlib.Path], **variables: str) -> subprocess.CompletedProcess:
    folders = os.pathsep.join([*map(str, path), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": folders, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        cwd=path[0] if path else None,  # with -c the working folder comes first in sys.path
    )


# Imports the package found on the path, whatever an editable install would redirect to.
FROM_PATH = """
import sys
sys.meta_path = [f for f in sys.meta_path if "Redirecting" not in type(f).__name__]
import torch_tpu
"""


@pytest.fixture
def entry_point(tmp_path):
    """A folder for PYTHONPATH that announces the entry point as an installed torch_tpu does."""
    project = (REPOSITORY / "pyproject.toml").read_text()
    line = re.search(r'\[project.entry-points."torch.backends"\]\n(torch_tpu) = "(.*)"', project)
    info = tmp_path / "torch_tpu-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch_tpu\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(f"[torch.backends]\n{line[1]} = {line[2]}\n")
    return [tmp_path, REPOSITORY]


def test_import_torch_is_enough(entry_point):
    done = run(
        """
        import torch
        assert torch.tpu.is_available() and torch.tpu.device_count() == 1
        assert torch.device("tpu:0").type == "tpu"
        import torch_tpu, torch.tpu as t
        assert t is torch.tpu
        assert torch.profiler.ProfilerActivity.TPU
        files = {l.split("/")[-1] for l in open("/proc/self/maps")}
        assert not [f for f in files if "pjrt" in f or "libtpu" in f], files
        assert not torch.tpu.is_initialized()
        """,
        entry_point,
        TORCH_TPU_RUNTIME="cpu",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_either_import_may_come_first(entry_point):
    for first in ("import torch_tpu", "import torch_tpu.tpu", "from torch_tpu import _register"):
        done = run(f"{first}\nimport torch\nassert torch.tpu", entry_point)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_first_use_opens_the_plugin_silently(entry_point):
    done = run(
        """
        import torch
        x = torch.ones(2, device="tpu")
        assert (x + 1).tolist() == [2, 2]
        assert any("pjrt" in l.split("/")[-1] for l in open("/proc/self/maps"))
        """,
        entry_point,
        TORCH_TPU_RUNTIME="cpu",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_autoload_can_be_turned_off(entry_point):
    code = (
        "import sys, torch; assert 'torch_tpu' not in sys.modules; assert not hasattr(torch, 'tpu')"
    )
    assert run(code, entry_point, TORCH_DEVICE_BACKEND_AUTOLOAD="0").returncode == 0


def test_import_adds_at_most_50_ms():
    # CPU time of the import alone; the first run leaves the byte code.
    code = """
        import time, torch
        start = time.process_time()
        import torch_tpu
        print(time.process_time() - start)
    """
    variables = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "PYTHONDONTWRITEBYTECODE": ""}
    seconds = [float(run(code, [REPOSITORY], **variables).stdout) for _ in range(4)]
    assert min(seconds) <= 0.050, seconds


@pytest.mark.parametrize("first", ["import torch", "import torch_tpu"])
def test_the_owner_of_the_slot_is_named(entry_point, first):
    code = f"""
        import os
        os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
        import torch, types
        torch.utils.rename_privateuse1_backend("npu")
        torch._register_device_module("npu", types.ModuleType("torch_npu.npu"))
        torch.npu.__file__ = "/somewhere/torch_npu/npu.py"
        {"torch._import_device_backends()" if first == "import torch" else first}
    """
    done = run(code, entry_point)
    assert done.returncode == 1
    assert (
        "registered it as 'npu' (module torch_npu.npu, /somewhere/torch_npu/npu.py)" in done.stderr
    )
    assert "Try: uninstall that library" in done.stderr


def test_a_foreign_library_under_our_name_is_named(tmp_path):
    # Another distribution's files over ours, as when pip installed both.
    mixed = tmp_path / "torch_tpu"
    mixed.mkdir()
    for name in ("__init__.py", "_register.py"):
        (mixed / name).write_text((REPOSITORY / "torch_tpu" / name).read_text())
    (mixed / "_C.py").write_text("def something_else(): pass\n")
    info = tmp_path / "other_tpu-9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-tpu\nVersion: 9.9\n")
    (info / "RECORD").write_text("torch_tpu/__init__.py,,\ntorch_tpu/_C.py,,\n")
    done = run(FROM_PATH, [tmp_path], TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert done.returncode == 1
    assert "is not the library of this package" in done.stderr
    assert "other-tpu 9.9" in done.stderr


def test_a_missing_library_says_so(tmp_path):
    broken = tmp_path / "torch_tpu"
    broken.mkdir()
    for name in ("__init__.py", "_register.py"):
        (broken / name).write_text((REPOSITORY / "torch_tpu" / name).read_text())
    done = run(FROM_PATH, [tmp_path], TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert done.returncode == 1
    assert "the C++ library did not load" in done.stderr and "Try: install" in done.stderr


@pytest.mark.parametrize(
    "runtime, text",
    [("/nowhere/plugin.so", "/nowhere/plugin.so"), ("gpu", "gpu")],
)
def test_a_runtime_that_cannot_be_opened(runtime, text):
    out = run_python(
        """
        import torch
        assert torch.tpu.device_count() == 0 and not torch.tpu.is_available()
        for attempt in range(2):
            try:
                torch.ones(1, device="tpu")
            except RuntimeError as e:
                print(e)
        torch.manual_seed(0)  # torch itself goes on working
        print(torch.ones(2).sum())
        """,
        TORCH_TPU_RUNTIME=runtime,
    )
    assert out.count(text) >= 2 and "Try:" in out and "tensor(2.)" in out


def test_exit_with_work_in_flight():
    done = run(
        """
        import torch
        x = torch.ones(600, 600, device="tpu")
        for _ in range(30):
            x = x @ x
        """,
        [],
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_doctor(entry_point):
    run_doctor = [sys.executable, "-m", "torch_tpu", "doctor"]
    path = os.pathsep.join([*map(str, entry_point), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "TORCH_TPU_RUNTIME": "cpu"}

    def doctor(**variables):
        return subprocess.run(
            run_doctor,
            env={**environment, **variables},
            capture_output=True,
            text=True,
            timeout=120,
        )

    good = doctor()
    assert good.returncode == 0, good.stdout + good.stderr
    assert "4x4 matmul in" in good.stdout and "All is well." in good.stdout
    bad = doctor(TORCH_TPU_RUNTIME="/nowhere.so")
    assert bad.returncode == 1 and "PROBLEM: the runtime did not open" in bad.stdout
    assert "/nowhere.so" in bad.stdout
    odd = doctor(TORCH_TPU_SPEED="9")
    assert odd.returncode == 1 and "PROBLEM: TORCH_TPU_SPEED" in odd.stdout
    unwritable = doctor(TORCH_TPU_CACHE_DIR="/proc/nowhere")
    assert unwritable.returncode == 1 and "PROBLEM: the compile cache" in unwritable.stdout
