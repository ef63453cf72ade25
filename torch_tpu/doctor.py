# SPDX-License-Identifier: Apache-2.0
"""Looks at an installation and says what is wrong, if something is."""

import importlib.metadata
import os
import platform
import tempfile
import time

import torch

from torch_tpu import _C, _register, tpu


class Report:
    """Collects lines and problems as the checks go."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def line(self, title: str, text: str) -> None:
        print(f"{title:<12} {text}")

    def problem(self, text: str) -> None:
        self.problems.append(text)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


def _check_versions(report: Report) -> None:
    report.line("torch_tpu", f"{_version('torch_tpu')} ({os.path.dirname(_register.__file__)})")
    report.line("torch", torch.__version__)
    report.line("python", f"{platform.python_version()} on {platform.machine()}")
    for package in ("xla-cpu-pjrt", "libtpu"):
        report.line(package, _version(package))
    for other in _register.foreign_distributions():
        report.problem(
            f"{other} provides torch_tpu as well; only one can be installed. "
            "Try: uninstall both, then install the one you want."
        )
    for name in _C._unknown_env():
        report.problem(f"{name} is not a variable we know. Try: docs/environment.md.")


def _check_runtime(report: Report) -> bool:
    wanted = os.environ.get("TORCH_TPU_RUNTIME", "auto")
    report.line("runtime", f"{wanted} (TORCH_TPU_RUNTIME)")
    try:
        _C._init()
    except RuntimeError as error:
        report.problem(f"the runtime did not open: {_first_line(error)}")
        return False
    info = _C._runtime_info()
    report.line("plugin", f"{info['plugin']}, PJRT API {info['api_version']}")
    report.line("platform", f"{info['platform']}, {info['platform_version']}")
    for i in range(tpu.device_count()):
        properties = tpu.get_device_properties(i)
        report.line(f"tpu:{i}", f"{properties.name}, {properties.total_memory / 2**30:.1f} GiB")
    if tpu.device_count() == 0:
        report.problem("the runtime has no device. Try: TORCH_TPU_RUNTIME=cpu.")
        return False
    return True


def _check_cache(report: Report) -> None:
    folder = _C._cache_folder()
    if not folder:
        report.line("cache", "off (TORCH_TPU_CACHE=0, or no home folder)")
        return
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        report.line("cache", folder)
        report.problem(
            f"the compile cache cannot be written ({error}); programs are compiled again in each "
            "process. Try: TORCH_TPU_CACHE_DIR."
        )
        return
    stats = _C._cache_stats()
    report.line("cache", f"{folder}, {stats['entries']} programs, {stats['bytes'] / 2**20:.1f} MiB")


def _check_run(report: Report) -> None:
    start = time.perf_counter()
    try:
        a = torch.arange(16, dtype=torch.float32).reshape(4, 4)
        got = (a.to("tpu") @ a.to("tpu") + 1).cpu()
    except RuntimeError as error:
        report.problem(f"a 4x4 matmul failed: {_first_line(error)}")
        return
    report.line("run", f"4x4 matmul in {(time.perf_counter() - start) * 1e3:.1f} ms")
    if not torch.allclose(got, a @ a + 1):
        report.problem(f"a 4x4 matmul gave wrong numbers: {got.tolist()}")


def run() -> int:
    """Prints the report; 0 when nothing is wrong, else 1."""
    report = Report()
    _check_versions(report)
    if _check_runtime(report):
        _check_cache(report)
        _check_run(report)
    for problem in report.problems:
        print(f"PROBLEM: {problem}")
    print("All is well." if not report.problems else f"{len(report.problems)} problem(s).")
    return 1 if report.problems else 0
