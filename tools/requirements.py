# SPDX-License-Identifier: Apache-2.0
"""Prints the packages of the given extras of pyproject.toml, one per word, for pip install."""

import pathlib
import sys
import tomllib

project = tomllib.loads((pathlib.Path(__file__).parents[1] / "pyproject.toml").read_text())[
    "project"
]
for extra in sys.argv[1:]:
    for requirement in project["optional-dependencies"][extra]:
        if not requirement.startswith(project["name"]):
            print(requirement)
