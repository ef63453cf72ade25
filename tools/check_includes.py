# SPDX-License-Identifier: Apache-2.0
"""Checks that includes go one way through csrc/, and that outside headers stay where they belong.

Prints the graph of folders. Exit code 1 and one line per violation when there are any.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).parents[1]
ORDER = ["base", "hlo", "ops", "pjrt", "program", "device", "eager", "dist", "python"]
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
TORCH = re.compile(r"^(torch|ATen|c10|pybind11|Python\.h)\b")
# Folders of csrc/ that may see torch; the others have unit tests without it.
TORCH_FOLDERS = {"device", "eager", "dist", "python"}


def violations(path: pathlib.Path, folder: str | None, includes: list[str]) -> list[str]:
    found = []
    for name in includes:
        target = name.split("/")[1] if name.startswith("csrc/") and name.count("/") > 1 else None
        if folder and target and ORDER.index(target) > ORDER.index(folder):
            found.append(f"includes {name}: {folder}/ comes before {target}/")
        if folder and folder not in TORCH_FOLDERS and TORCH.match(name):
            found.append(f"includes {name}: torch is seen only by {sorted(TORCH_FOLDERS)}")
        if name == "torch/extension.h" and folder != "python":
            found.append(f"includes {name}: include what you use (it costs 20 s per file)")
        if name.startswith("pjrt_c_api") and folder not in (None, "pjrt"):
            found.append(f"includes {name}: only csrc/pjrt, plugins/ and tests/ may")
        if name.startswith("xla/"):
            found.append(f"includes {name}: XLA is reached only through the PJRT C API")
    return [f"{path.relative_to(ROOT)} {text}" for text in found]


def main() -> int:
    graph: dict[str, set[str]] = {folder: set() for folder in ORDER}
    bad = []
    for top in ("csrc", "plugins", "tests"):
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix not in (".cc", ".h"):
                continue
            folder = path.relative_to(ROOT / "csrc").parts[0] if top == "csrc" else None
            if folder is not None and folder not in ORDER:
                bad.append(f"{path.relative_to(ROOT)}: unknown folder {folder}/; add it to ORDER")
                continue
            includes = INCLUDE.findall(path.read_text())
            bad += violations(path, folder, includes)
            if folder:
                parts = [name.split("/") for name in includes if name.startswith("csrc/")]
                graph[folder] |= {p[1] for p in parts if len(p) > 2 and p[1] != folder}
    for folder in ORDER:
        if (ROOT / "csrc" / folder).is_dir():
            print(f"{folder:8} -> {' '.join(sorted(graph[folder], key=ORDER.index)) or '-'}")
    print("\n".join(bad), end="\n" if bad else "")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
