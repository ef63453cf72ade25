# SPDX-License-Identifier: Apache-2.0
"""Checks the size of files (or with --library, of the built library) and their licence line.

Sources have at most 600 lines, headers 250; from 300 on a source is named, as a hint to split it.
"""

import argparse
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[1]
MAX_SOURCE, MAX_HEADER, HINT = 600, 250, 300
MAX_LIBRARY_MB = 20
SPDX = "SPDX-License-Identifier: Apache-2.0"


def check_files() -> int:
    names = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    bad, long = [], []
    for name in names.stdout.split():
        path = ROOT / name
        if path.suffix not in (".cc", ".h", ".py", ".sh") or not path.exists():
            continue
        lines = path.read_text().splitlines()
        limit = MAX_HEADER if path.suffix == ".h" else MAX_SOURCE
        if len(lines) > limit:
            bad.append(f"{name}: {len(lines)} lines, at most {limit}; split by family or role")
        elif len(lines) > HINT:
            long.append(f"{name} {len(lines)}")
        if lines and not any(SPDX in line for line in lines[:2]):
            bad.append(f"{name}: the first line is not the licence line '{SPDX}'")
    if long:
        print(f"longer than {HINT} lines: {', '.join(long)}")
    print("\n".join(bad), end="\n" if bad else "")
    return 1 if bad else 0


def check_library() -> int:
    libraries = sorted((ROOT / "torch_tpu").glob("_C*.so"))
    if not libraries:
        print("torch_tpu/_C*.so not found. Try: make build")
        return 1
    size = sum(path.stat().st_size for path in libraries) / 1e6
    print(f"torch_tpu/_C: {size:.1f} MB (at most {MAX_LIBRARY_MB})")
    return 1 if size > MAX_LIBRARY_MB else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", action="store_true", help="check the built library instead")
    sys.exit(check_library() if parser.parse_args().library else check_files())
