# SPDX-License-Identifier: Apache-2.0
"""The compile cache: nothing compiles twice, and no accident with the folder breaks a program."""

import json
import os
import pathlib
import random
import resource
import signal
import subprocess
import sys
import tarfile
import time

import pytest

from tests.process import run_python

SCRIPT = """
import json, torch
x = torch.arange(12.0).reshape(3, 4).to("tpu")
y = (x @ x.t() + x.sum()).softmax(-1) * 2
print("result", y.sum().item())
torch.tpu.cache.stats()
m = torch.tpu.metrics()
print(json.dumps({k: m[k] for k in ("compiles", "disk_hits")}))
"""


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


def run(folder: pathlib.Path, code: str = SCRIPT, **variables: str) -> dict[str, int]:
    out = run_python(code, TORCH_TPU_CACHE_DIR=str(folder), TORCH_TPU_CACHE="1", **variables)
    if code == SCRIPT:
        assert "result 6.0" in out
    return json.loads(out.splitlines()[-1])


def start(folder: pathlib.Path, code: str = SCRIPT, **options) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "TORCH_TPU_CACHE_DIR": str(folder), "TORCH_TPU_CACHE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def finish(process: subprocess.Popen) -> tuple[dict[str, int], str]:
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert "result 6.0" in out
    return json.loads(out.splitlines()[-1]), err


def programs(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(folder.glob("*.prog"))


def command(folder: pathlib.Path, *arguments: str, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "torch_tpu", "cache", *arguments],
        env={**os.environ, "TORCH_TPU_CACHE_DIR": str(folder), "TORCH_TPU_CACHE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("mode", ["strict", "debug", "defer_and_fuse"])
def test_the_second_process_compiles_nothing(folder, mode):
    first = run(folder, TORCH_TPU_MODE=mode)
    second = run(folder, TORCH_TPU_MODE=mode)
    assert first["compiles"] > 0 and first["disk_hits"] == 0
    assert second == {"compiles": 0, "disk_hits": first["compiles"]}
    assert len(programs(folder)) == first["compiles"]
    assert not list(folder.glob("*.tmp")) and not list(folder.glob("*.lock"))


def test_eight_processes_compile_each_program_once(folder):
    started = [start(folder) for _ in range(8)]
    counts = [finish(process)[0] for process in started]
    assert sum(c["compiles"] for c in counts) == len(programs(folder))
    assert all(c["compiles"] + c["disk_hits"] == len(programs(folder)) for c in counts)
    assert not list(folder.glob("*.lock"))


def test_kill_at_any_moment_leaves_a_usable_cache(folder):
    generator = random.Random(0)
    for _ in range(5):
        process = start(folder)
        until = time.monotonic() + 60
        wanted = len(programs(folder)) + 1
        while time.monotonic() < until and len(programs(folder)) < wanted:
            if process.poll() is not None:
                break
            time.sleep(0.001)
        time.sleep(generator.random() * 0.03)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    counts, err = finish(start(folder))
    assert err == ""
    assert counts["compiles"] + counts["disk_hits"] == len(programs(folder))
    assert "entries are intact" in command(folder, "verify")
    assert run(folder)["compiles"] == 0


def damage_by_truncation(content: bytes) -> bytes:
    return content[: len(content) // 2]


def damage_by_a_bit(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def damage_by_emptying(content: bytes) -> bytes:
    return b""


@pytest.mark.parametrize(
    "damage", [damage_by_truncation, damage_by_a_bit, damage_by_emptying], ids=lambda f: f.__name__
)
def test_damaged_entries_are_misses_and_replaced(folder, damage):
    run(folder)
    victims = programs(folder)[:2]
    for path in victims:
        path.write_bytes(damage(path.read_bytes()))
    assert f"{len(programs(folder)) - 2} of" in command(folder, "verify", code=1)
    assert run(folder)["compiles"] == 2
    command(folder, "verify")
    assert run(folder)["compiles"] == 0


def test_an_executable_that_the_plugin_refuses_is_a_miss_and_replaced(folder):
    # An intact entry around an executable that is none: as another plugin's under our key would be.
    import hashlib
    import struct

    run(folder)
    path = programs(folder)[0]
    content = path.read_bytes()
    magic, rest = content[:18], content[18 + 8 + 64 :]
    body, parts = b"", []
    while rest:
        (size,) = struct.unpack("<Q", rest[:8])
        parts.append(rest[8 : 8 + size])
        rest = rest[8 + size :]
    payload = parts[2]
    (rank,) = struct.unpack("<q", payload[8 + 8 + len(_text(payload, 8)) :][:8])
    head = payload[: 8 + 8 + len(_text(payload, 8)) + 8 + rank * 8 + 8]
    parts[2] = head + struct.pack("<q", 7) + b"nothing"
    for part in parts:
        body += struct.pack("<Q", len(part)) + part
    digest = hashlib.sha256(body).hexdigest().encode()
    path.write_bytes(magic + struct.pack("<Q", 64) + digest + body)
    command(folder, "verify")
    assert run(folder)["compiles"] == 1
    assert path.stat().st_size == len(content)
    assert run(folder)["compiles"] == 0


def _text(payload: bytes, at: int) -> bytes:
    size = int.from_bytes(payload[at : at + 8], "little")
    return payload[at + 8 : at + 8 + size]


def test_other_flags_are_other_programs_in_the_same_folder(folder):
    first = run(folder)
    other = run(folder, XLA_FLAGS="--xla_cpu_max_isa=AVX2")
    assert other["compiles"] == first["compiles"] and other["disk_hits"] == 0
    assert len(programs(folder)) == 2 * first["compiles"]
    assert run(folder)["compiles"] == 0
    assert run(folder, XLA_FLAGS="--xla_cpu_max_isa=AVX2")["compiles"] == 0


def test_another_plugin_has_its_own_programs(folder):
    first = run(folder)
    code = SCRIPT.replace('print("result", y.sum().item())', "y.cpu()")
    other = run(folder, code, TORCH_TPU_RUNTIME=_fake_plugin())
    assert other["disk_hits"] == 0 and other["compiles"] > 0
    assert run(folder) == {"compiles": 0, "disk_hits": first["compiles"]}


def test_a_file_in_place_of_the_folder_warns_once(folder):
    folder.write_text("in the way")
    counts, err = finish(start(folder))
    assert counts["compiles"] > 0
    assert err.count("torch_tpu:") == 1 and "is not a folder" in err and "Try:" in err
    assert folder.read_text() == "in the way"


def test_a_full_disk_warns_once(folder):
    # A limit on file sizes fails a write half-way, as a full disk does.
    folder.mkdir(mode=0o700)
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))  # noqa: E731
    counts, err = finish(start(folder, preexec_fn=limit))
    assert counts["compiles"] > 0
    assert err.count("torch_tpu:") == 1 and "kept in memory only" in err
    assert programs(folder) == [] and not list(folder.glob("*.tmp"))
    assert run(folder)["compiles"] == counts["compiles"]


def test_the_folder_vanishing_in_the_middle(folder):
    counts = run(
        folder,
        """
        import json, os, shutil, torch
        x = torch.ones(3, device="tpu") + 1
        torch.tpu.cache.stats()
        shutil.rmtree(os.environ["TORCH_TPU_CACHE_DIR"])
        assert (x * 3).tolist() == [6, 6, 6]
        print(json.dumps(torch.tpu.cache.stats()))
        """,
    )
    assert counts["entries"] >= 1


def test_the_cap_holds_and_the_last_used_stay(folder):
    run(folder)
    total = sum(p.stat().st_size for p in programs(folder))
    for age, path in enumerate(reversed(programs(folder))):
        os.utime(path, (time.time() - 1000 - age, time.time() - 1000 - age))
    oldest = programs(folder)[0]
    out = command(folder, "prune", "--max-bytes", str(total - 1))
    assert "removed" in out and not oldest.exists()
    assert len(programs(folder)) >= 1
    run(folder, TORCH_TPU_CACHE_MAX_BYTES=str(total // 2))
    assert sum(p.stat().st_size for p in programs(folder)) <= total
    assert "0.0 MiB" in command(folder, "stats") or programs(folder)


def test_entries_and_folder_are_private(folder):
    run(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {p.stat().st_mode & 0o777 for p in programs(folder)} == {0o600}


def test_refuse_to_compile(folder):
    run_python(
        """
        import pytest, torch
        x = torch.ones(3, 5, device="tpu")
        y = x + 1
        with torch.tpu.cache.refuse_to_compile():
            assert torch.tpu.cache.stats()["refuses_to_compile"]
            assert (x + 2).tolist() == [[3.0] * 5] * 3
            with pytest.raises(RuntimeError) as error:
                (x * x).cpu()
        text = str(error.value)
        assert "aten::mul.Tensor" in text and "f32[3,5]" in text and "Try:" in text, text
        assert (x * x).sum().item() == 15  # the refusal leaves nothing behind
        """,
        TORCH_TPU_CACHE_DIR=str(folder),
        TORCH_TPU_CACHE="1",
    )


def test_refuse_to_compile_with_a_warm_disk(folder):
    run(folder)
    warm = SCRIPT.replace(
        "x = torch", "hold = torch.tpu.cache.refuse_to_compile()\nhold.__enter__()\nx = torch"
    )
    assert run(folder, warm)["compiles"] == 0


def test_read_only_writes_nothing(folder):
    run(folder)
    before = {p: p.stat().st_mtime_ns for p in folder.rglob("*")}
    code = SCRIPT.replace(
        "x = torch", "hold = torch.tpu.cache.read_only()\nhold.__enter__()\nx = torch"
    )
    code += "\nassert (x - 7).sum().item() == 66 - 84\nprint(json.dumps(torch.tpu.metrics()))"
    counts = run(folder, code)
    assert counts["disk_hits"] > 0 and counts["compiles"] >= 1
    assert {p: p.stat().st_mtime_ns for p in folder.rglob("*")} == before


def test_the_module(folder):
    run_python(
        """
        import os, pytest, torch
        from torch.tpu import cache
        folder = os.environ["TORCH_TPU_CACHE_DIR"]
        assert cache.is_enabled() and cache.path() == folder and cache.max_size() == 4 << 30
        x = torch.ones(4, device="tpu")
        compiles = lambda: torch.tpu.metrics()["compiles"]
        (x + 1).cpu()
        made = compiles()
        cache.clear(disk=False)
        assert cache.stats()["programs"] == 0 and cache.stats()["entries"] == made
        assert (x + 1).tolist() == [2] * 4 and compiles() == made
        assert torch.tpu.metrics()["disk_hits"] >= 1
        cache.clear()
        assert cache.stats()["entries"] == 0
        assert (x + 1).tolist() == [2] * 4 and compiles() == made + 1
        cache.disable()
        assert cache.path() is None and not cache.is_enabled()
        assert (x * 3).tolist() == [3] * 4
        other = folder + "-other"
        cache.enable(other)
        assert (x * x * 5).tolist() == [5] * 4 and cache.stats()["folder"] == other
        assert cache.stats()["entries"] >= 1
        cache.set_max_size(1000)
        assert cache.stats()["entries"] == 0 and cache.max_size() == 1000
        with pytest.raises(ValueError, match="at least 0"):
            cache.set_max_size(-1)
        with pytest.raises(OSError, match="Try: another path"):
            cache.enable("/proc/nowhere")
        assert (x / 3).sum().item() > 1
        """,
        TORCH_TPU_CACHE_DIR=str(folder),
        TORCH_TPU_CACHE="1",
    )


def test_clear_in_defer_and_fuse():
    run_python(
        """
        import torch
        x = torch.ones(4, device="tpu")
        for _ in range(3):
            with torch.tpu.eager_mode("defer_and_fuse"):
                assert ((x + 1) * x).tolist() == [2] * 4
            torch.tpu.cache.clear(disk=False)
        """
    )


def test_list_stats_and_explain(folder):
    assert "no run has compiled" in command(folder, "explain")
    first = run(folder)
    listed = command(folder, "list")
    assert len(listed.splitlines()) == first["compiles"]
    assert "aten::mm" in listed and "f32[3,4]" in listed and "-> f32[3,3]" in listed
    assert f"entries  {first['compiles']}" in command(folder, "stats")
    explained = command(folder, "explain")
    assert f"compiled {first['compiles']} programs" in explained
    assert "no program of these ops before" in explained
    run(folder, SCRIPT.replace("12.0", "16.0").replace("(3, 4)", "(4, 4)").replace('"result"', "0"))
    explained = command(folder, "explain")
    assert "other input shapes or dtypes: was f32[3,4]" in explained
    run(folder, XLA_FLAGS="--xla_cpu_max_isa=AVX2")
    assert "other XLA_FLAGS" in command(folder, "explain")


def test_export_and_import(folder, tmp_path):
    first = run(folder)
    tar, there = tmp_path / "warm.tar", tmp_path / "there"
    assert f"wrote {first['compiles']} programs" in command(folder, "export", str(tar))
    with tarfile.open(tar, "a") as archive:
        outside = tmp_path / "outside"
        outside.write_text("no")
        archive.add(outside, arcname="../outside.prog")
    out = command(there, "import", str(tar))
    assert f"imported {first['compiles']} programs" in out and "skipped '../outside.prog'" in out
    assert not (there.parent / "outside.prog").exists()
    assert {p.stat().st_mode & 0o777 for p in programs(there)} == {0o600}
    assert run(there) == {"compiles": 0, "disk_hits": first["compiles"]}


def test_a_failed_compile_names_ops_shapes_and_the_text():
    out = run_python(
        """
        import pathlib, re, torch
        x = torch.ones(3, 5).to("tpu")
        try:
            (x + 1).cpu()
        except RuntimeError as error:
            text = str(error)
            assert "aten::add.Tensor" in text and "compile failed: " in text, text
            assert "out of order" in text in text and "[3,5]" in text, text
            path = re.search(r"StableHLO in (\\S+\\.mlir)", text)[1]
            assert "stablehlo" in pathlib.Path(path).read_text()
            pathlib.Path(path).unlink()
            print("failed well")
        """,
        TORCH_TPU_CACHE="0",
        TORCH_TPU_RUNTIME=_fake_plugin(),
        FAKE_PJRT="fail=PJRT_Client_Compile 0 13 the compiler is out of order",
    )
    assert out.strip() == "failed well"


def _fake_plugin() -> str:
    built = pathlib.Path(__file__).resolve().parents[2] / "build" / "fake_pjrt.so"
    if not built.exists():
        pytest.skip("the fake plugin is not built (TORCH_TPU_BUILD_TESTS)")
    return str(built)


KEY_FIELDS = {
    "dtype": "a + 1 | a.half() + 1",
    "shape": "a + 1 | a2 + 1",
    "rank": "a + 1 | a[None].contiguous() + 1",
    "view (transposed)": "a.exp() | a.t().exp()",
    "view (offset)": "a[0].exp() | a[1].exp()",
    "op": "a.sin() | a.cos()",
    "in place": "a.abs() | a.clone().abs_()",
    "scalar kind": "i + 1 | i + 1.5",
    "tensor or scalar": "a + 1 | a + a",
    "constant (dim)": "a.sum(0) | a.sum(1)",
    "constant (bool)": "a.sum(0) | a.sum(0, keepdim=True)",
    "constant (string)": "F.gelu(a) | F.gelu(a, approximate='tanh')",
    "constant (list)": "torch.roll(a, [1], [0]) | torch.roll(a, [2], [0])",
    "constant (dtype)": "a.to(torch.int32) | a.to(torch.int16)",
    "absent argument": "F.linear(a, a) | F.linear(a, a, a[0].clone())",
    "default dtype": "i.sqrt() | default(torch.float64, lambda: i.sqrt())",
    "matmul precision": "a @ a | precision('medium', lambda: a @ a)",
    "debug mode": "a.gather(0, i) | debug(lambda: a.gather(0, i))",
    "conjugate": "torch.exp(c) | torch.exp(c.conj())",
    "negative": "torch.exp(c.imag) | torch.exp(c.conj().imag)",
    "zeros never written": "a.tan() | torch.empty(4, 4, device='tpu').tan()",
    "0-dim host tensor": "a + 1 | a + torch.tensor(1.0, dtype=torch.float64)",
}


@pytest.fixture(scope="module")
def key_report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys") / "cache"
    code = """
        import json, torch
        import torch.nn.functional as F
        a, a2 = torch.rand(4, 4).to("tpu"), torch.rand(4, 8).to("tpu")
        i = torch.zeros(4, 4, dtype=torch.int64).to("tpu")
        c = torch.rand(4, 4, dtype=torch.complex64).to("tpu")
        def default(dtype, f):
            before = torch.get_default_dtype()
            torch.set_default_dtype(dtype)
            try: return f()
            finally: torch.set_default_dtype(before)
        def precision(name, f):
            before = torch.get_float32_matmul_precision()
            torch.set_float32_matmul_precision(name)
            try: return f()
            finally: torch.set_float32_matmul_precision(before)
        def debug(f):
            with torch.tpu.eager_mode("debug"): return f()
        def compiles(text):
            before = torch.tpu.metrics()["compiles"]
            eval(text).cpu()
            return torch.tpu.metrics()["compiles"] - before
        report = {}
        for field, texts in FIELDS.items():
            torch.tpu.cache.clear()
            one, other = texts.split(" | ")
            report[field] = [compiles(one), compiles(one), compiles(other)]
        same = {}
        torch.tpu.cache.clear()
        for name, texts in SAME.items():
            one, other = texts.split(" | ")
            compiles(one)
            same[name] = compiles(other)
        print(json.dumps([report, same]))
    """
    code = f"FIELDS = {KEY_FIELDS!r}\nSAME = {NOT_IN_THE_KEY!r}\n" + "\n".join(
        line[8:] for line in code.splitlines()
    )
    return run(folder, code)


NOT_IN_THE_KEY = {
    "number": "a + 3 | a + 4",
    "learning rate": "torch.add(a, a, alpha=0.1) | torch.add(a, a, alpha=0.2)",
    "seed": "torch.rand_like(a) | (torch.manual_seed(5), torch.rand_like(a))[1]",
    "line": "a.erf() | (\na.erf())",
    "layout of nothing": "a.contiguous().log() | a.clone().log()",
}


@pytest.mark.parametrize("field", KEY_FIELDS)
def test_each_field_changes_the_key(key_report, field):
    first, again, changed = key_report[0][field]
    assert first >= 1 and again == 0 and changed >= 1


@pytest.mark.parametrize("name", NOT_IN_THE_KEY)
def test_what_is_not_in_the_key(key_report, name):
    assert key_report[1][name] == 0
