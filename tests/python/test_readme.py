# SPDX-License-Identifier: Apache-2.0
"""The README's example runs as printed."""

import pathlib
import re

from tests.process import run_python

ROOT = pathlib.Path(__file__).parents[2]


def test_example_runs_and_learns():
    readme = (ROOT / "README.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    assert len([line for line in example.splitlines() if line.strip()]) <= 20
    lines = run_python(example).splitlines()
    losses = [float(line.split()[1]) for line in lines[:4]]
    assert losses[-1] < losses[0] / 5
    assert "'fallbacks': {}" in lines[4]


def test_links_lead_somewhere():
    for page in [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*/README.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
