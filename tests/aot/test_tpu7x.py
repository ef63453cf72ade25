# SPDX-License-Identifier: Apache-2.0
"""Every row of the op table compiles for Ironwood with libtpu, ahead of time, with no chip."""

import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
import torch

import torch_tpu

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Rows that libtpu refuses in some form, each with its reason.
REFUSED = {
    "aten::convolution": "64-bit integer convolution: not rewritten for TPU by XLA",
}
# Rows for which the script below makes no call yet.
UNREACHED_AT_MOST = 25


def libtpu() -> pathlib.Path | None:
    spec = importlib.util.find_spec("libtpu")
    return pathlib.Path(spec.origin).parent / "libtpu.so" if spec and spec.origin else None


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    """One StableHLO file per row of the table, and the rows without one."""
    dumped, chosen = tmp_path_factory.mktemp("dumped"), tmp_path_factory.mktemp("chosen")
    environment = os.environ | {
        "TORCH_TPU_CACHE": "0",
        "TORCH_TPU_DUMP_DIR": str(dumped),
        "TORCH_TPU_FALLBACK": "silent",
        "TORCH_TPU_MODE": "strict",
    }
    script = pathlib.Path(__file__).with_name("dump_rows.py")
    subprocess.run([sys.executable, script], env=environment, check=True, timeout=1800)
    found = {}
    for file in sorted(dumped.iterdir()):
        found.setdefault(file.name.rsplit("-", 1)[0], file)
    for file in found.values():
        shutil.copy(file, chosen)
    rows = {row["name"].replace(":", "_"): row["name"] for row in torch_tpu._C._op_table()}
    return chosen, sorted(name for file, name in rows.items() if file not in found)


def test_rows_are_reached(modules):
    _, unreached = modules
    assert len(unreached) <= UNREACHED_AT_MOST, unreached


def test_every_row_compiles_for_tpu7x(modules):
    tool = ROOT / "build" / "tpu_compile"
    if not tool.exists():
        pytest.skip("build/tpu_compile is not built: make test builds it")
    if libtpu() is None or not libtpu().exists():
        pytest.skip("libtpu is not installed: pip install torch_tpu[tpu]")
    folder, _ = modules
    run = subprocess.run(
        [tool, "--libtpu", libtpu(), "--topology", "tpu7x:2x2x1", folder],
        capture_output=True,
        text=True,
        timeout=1800,
    )
    results = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    assert len(results) == len(list(folder.iterdir())), run.stderr[-2000:]
    failed = {
        r["name"].rsplit("-", 1)[0].replace("__", "::", 1): r["error"]
        for r in results
        if not r["ok"]
    }
    unexpected = {name: error for name, error in failed.items() if name not in REFUSED}
    assert not unexpected
    assert REFUSED.keys() <= failed.keys(), "a refused row compiles now: remove its line"
    assert torch.tpu.is_available()
