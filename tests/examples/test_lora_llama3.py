# SPDX-License-Identifier: Apache-2.0
"""The demo at a tiny size: results, comparison with the CPU, and what bad input gives."""

import errno
import json
import pathlib
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "examples" / "lora_llama3"
sys.path.insert(0, str(FOLDER))
import output  # noqa: E402

SMALL = ["--pretrain-steps", "6", "--steps", "6", "--batch", "2", "--length", "16"]
SMALL += ["--sample-tokens", "4"]


def run_example(*arguments) -> subprocess.CompletedProcess:
    command = [sys.executable, str(FOLDER / "train.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run on the device, beside one on the CPU."""
    out = tmp_path_factory.mktemp("lora")
    for device in ("cpu", "tpu"):
        done = run_example("--config", "tiny", *SMALL, "--device", device, "--out", out / device)
        assert done.returncode == 0, done.stdout + done.stderr
    return out, done.stdout


def test_results_are_where_it_says(run):
    out, printed = run
    assert "fell back to the CPU: none" in printed
    for name in (
        "checkpoint/model.safetensors",
        "checkpoint/tokenizer.json",
        "adapters/adapter_model.safetensors",
        "report/loss.png",
    ):
        assert (out / "tpu" / name).stat().st_size > 0
    assert not [p for p in (out / "tpu").iterdir() if p.name.startswith(".")]


def test_losses_equal_the_cpus(run):
    out, _ = run
    found, expected = (
        json.loads((out / device / "report/report.json").read_text()) for device in ("tpu", "cpu")
    )
    for name, losses in expected["losses"].items():
        assert found["losses"][name] == pytest.approx(losses, rel=1e-4)
    assert found["samples"] == expected["samples"]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_from_the_checkpoint(run, dtype, tmp_path):
    checkpoint = run[0] / "tpu" / "checkpoint"
    done = run_example("--model", checkpoint, "--dtype", dtype, *SMALL, "--out", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_bad_input_gets_one_message_and_leaves_nothing(run, tmp_path):
    checkpoint, short = run[0] / "tpu" / "checkpoint", tmp_path / "short.txt"
    short.write_text("too short")
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.json").write_text('{"model_type": "llama"}')
    out = tmp_path / "out"
    cases = {
        ("--model", tmp_path / "missing"): "does not exist",
        ("--model", tmp_path): "no config.json",
        ("--model", broken): "cannot be loaded",
        ("--model", checkpoint, "--text", short): "too short",
        ("--model", checkpoint, "--text", tmp_path / "missing"): "not found",
        ("--model", checkpoint, "--dtype", "int8"): "invalid choice: 'int8'",
        ("--model", checkpoint, "--device", "tpu:99"): "tpu:99",
        ("--model", checkpoint, "--rank", "0"): "--rank must be at least 1",
    }
    for arguments, message in cases.items():
        done = run_example(*arguments, "--out", out)
        assert done.returncode != 0
        assert message in done.stderr, (arguments, done.stderr)
        assert "Traceback" not in done.stderr
        assert not out.exists()


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        RuntimeError("Error while serializing: IoError(Os { No space left on device })"),
    ],
)
def test_a_full_disk_keeps_the_old_folder(tmp_path, error):
    folder = tmp_path / "checkpoint"
    with output.whole_folder(folder, 0) as part:
        (part / "weights").write_text("old")
    with pytest.raises(output.UserError, match="no space left"):  # noqa: SIM117
        with output.whole_folder(folder, 0) as part:
            (part / "weights").write_text("half of the ne")
            raise error
    assert (folder / "weights").read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint"]


def test_a_disk_known_to_be_too_small_is_refused_first(tmp_path):
    with pytest.raises(output.UserError, match="are free"):  # noqa: SIM117
        with output.whole_folder(tmp_path / "checkpoint", 1 << 60):
            pass
    assert list(tmp_path.iterdir()) == []
