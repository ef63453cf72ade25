# SPDX-License-Identifier: Apache-2.0
"""Tests that fail today, each with its reason.

tests/conftest.py marks them as strict expected failures: one that starts to pass breaks the run
until its line is removed here, and so does a line that names no test.
"""

# "tests/folder/test_file.py::test_name[id]": "why, and what would cure it"
EXPECTED_FAILURES: dict[str, str] = {}
