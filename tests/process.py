# SPDX-License-Identifier: Apache-2.0
"""Runs Python code in a process of its own."""

import os
import subprocess
import sys
import textwrap


def run_python(code: str, timeout: float = 120, **variables: str) -> str:
    """The standard output of `code` (indented as you like); fails with its errors."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
