# SPDX-License-Identifier: Apache-2.0
"""The checks of tools/ find what they are for, and pass on the tree."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import check_includes  # noqa: E402


@pytest.mark.parametrize(
    ("folder", "include", "message"),
    [
        ("hlo", "csrc/ops/op.h", "hlo/ comes before ops/"),
        ("device", "csrc/eager/mode.h", "device/ comes before eager/"),
        ("program", "c10/util/Exception.h", "torch is seen only by"),
        ("eager", "torch/extension.h", "include what you use"),
        ("program", "pjrt_c_api.h", "only csrc/pjrt"),
        ("pjrt", "xla/client.h", "PJRT C API"),
    ],
)
def test_a_wrong_include_is_named(folder, include, message):
    path = ROOT / "csrc" / folder / "x.cc"
    (found,) = check_includes.violations(path, folder, [include])
    assert found.startswith(f"csrc/{folder}/x.cc includes {include}") and message in found


def test_right_includes_pass():
    assert not check_includes.violations(
        ROOT / "csrc" / "eager" / "x.cc",
        "eager",
        ["csrc/base/status.h", "csrc/device/slot.h", "c10/core/Device.h", "vector"],
    )
    assert not check_includes.violations(ROOT / "csrc/pjrt/x.cc", "pjrt", ["pjrt_c_api.h"])


@pytest.mark.parametrize("tool", ["check_includes.py", "check_size.py"])
def test_the_tree_passes(tool):
    done = subprocess.run([sys.executable, ROOT / "tools" / tool], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
