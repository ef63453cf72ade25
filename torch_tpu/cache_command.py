# SPDX-License-Identifier: Apache-2.0
"""``python -m torch_tpu cache``: looks at the compile cache without opening a device."""

import argparse
import dataclasses
import io
import os
import pathlib
import re
import struct
import tarfile
import tempfile
import time

from torch_tpu import _C

ENTRY_NAME = re.compile(r"[0-9a-f]{64}\.prog")
WORDS_LINE = b"words\n"


@dataclasses.dataclass
class Entry:
    """One program on disk."""

    name: str
    ops: str
    inputs: str
    outputs: str
    fingerprint: dict[str, str]  # what is the same for a process: versions, plugin, CPU, flags
    words: tuple[int, ...]  # the program's own part of the key
    bytes: int
    last_use: float
    good: bool


def entries(verify: bool = False) -> list[Entry]:
    """All programs in the folder, the last used first; `verify` reads them to the checksum."""
    found = []
    for raw in _C._cache_list(verify):
        lines = raw["description"].decode(errors="replace").split("\n")
        ops, inputs, outputs = (lines + ["", "", ""])[:3]
        print_, _, words = raw["key"].partition(b"\n" + WORDS_LINE)
        found.append(
            Entry(
                raw["name"],
                ops,
                inputs,
                outputs,
                _fields(print_.decode(errors="replace")),
                struct.unpack(f"<{len(words) // 8}Q", words[: len(words) // 8 * 8]),
                raw["bytes"],
                raw["last_use"],
                raw["good"],
            )
        )
    return sorted(found, key=lambda e: -e.last_use)


def _fields(fingerprint: str) -> dict[str, str]:
    """Lines "name value", "name=value" and those of /proc/cpuinfo, "a name : value"."""
    fields = {}
    for line in fingerprint.splitlines():
        found = re.match(r"(\w+(?: \w+)?(?=\s*:)|\w+)[\s:=]*(.*)", line)
        if found:
            fields[found[1]] = found[2]
    return fields


def difference(missed: Entry, known: Entry) -> str:
    """Which part of the key of `missed` is not that of `known`."""
    names = missed.fingerprint.keys() | known.fingerprint.keys()
    changed = sorted(n for n in names if missed.fingerprint.get(n) != known.fingerprint.get(n))
    if changed:
        return "other " + ", ".join(_FIELD_NAMES.get(name, name) for name in changed)
    if missed.inputs != known.inputs:
        return f"other input shapes or dtypes: was {known.inputs}"
    if missed.outputs != known.outputs:
        return f"other result shapes or dtypes: was {known.outputs}"
    return (
        "the same shapes, but another view, stride, constant, donation or setting (default dtype, "
        "matmul precision, debug mode)"
    )


_FIELD_NAMES = {
    "content": "torch_tpu (its op table was changed)",
    "torch": "torch version",
    "plugin": "PJRT plugin",
    "platform": "platform",
    "device": "device kind",
    "model name": "CPU model",
    "flags": "CPU features",
}


def nearest(missed: Entry, known: list[Entry]) -> Entry | None:
    """The entry of the same ops whose key has the most in common with that of `missed`."""

    def distance(other: Entry) -> tuple[int, int]:
        names = missed.fingerprint.keys() | other.fingerprint.keys()
        fields = sum(missed.fingerprint.get(n) != other.fingerprint.get(n) for n in names)
        words = sum(a != b for a, b in zip(missed.words, other.words, strict=False))
        return fields, words + abs(len(missed.words) - len(other.words))

    # What differs in the fingerprint alone is the same program made by another process.
    same = [e for e in known if e.words == missed.words]
    return min(
        same or [e for e in known if e.ops == missed.ops],
        key=distance,
        default=None,
    )


def _mib(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"


def run_list(arguments: argparse.Namespace) -> int:
    for entry in entries():
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.last_use))
        text = f"{entry.ops}  {entry.inputs} -> {entry.outputs}" if entry.good else "unreadable"
        print(f"{entry.name[:12]}  {used}  {entry.bytes:>9}  {text}")
    return 0


def run_stats(arguments: argparse.Namespace) -> int:
    stats = _C._cache_stats()
    print(f"folder   {stats['folder'] or 'off'}{'' if stats['enabled'] else ' (not in use)'}")
    print(f"entries  {stats['entries']}")
    print(f"size     {_mib(stats['bytes'])} of at most {_mib(stats['max_bytes'])}")
    return 0


def run_prune(arguments: argparse.Namespace) -> int:
    limit = _C._cache_max_bytes() if arguments.max_bytes is None else arguments.max_bytes
    print(f"removed {_mib(_C._cache_prune(limit))}")
    return 0


def run_verify(arguments: argparse.Namespace) -> int:
    found = entries(verify=True)
    bad = [entry for entry in found if not entry.good]
    for entry in bad:
        print(f"damaged: {entry.name}.prog (it counts as a miss, and is removed when asked for)")
    print(f"{len(found) - len(bad)} of {len(found)} entries are intact")
    return 1 if bad else 0


def run_explain(arguments: argparse.Namespace) -> int:
    runs = sorted(pathlib.Path(_C._cache_folder() or "/nonexistent").glob("runs/*.log"))
    if not runs:
        print("no run has compiled anything")
        return 0
    compiled = [line.split("\t") for line in runs[-1].read_text(errors="replace").splitlines()]
    compiled = [fields for fields in compiled if len(fields) == 6]
    seconds, _, pid = runs[-1].stem.partition("-")
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(int(seconds)))
    total = sum(int(fields[1]) for fields in compiled) / 1e6
    print(f"The last run that compiled: process {pid}, first compile {when}.")
    print(f"It compiled {len(compiled)} programs in {total:.1f} s:")
    here = {entry.name: entry for entry in entries() if entry.good}
    mine = {fields[0] for fields in compiled}
    earlier = [entry for name, entry in here.items() if name not in mine]
    for position, (name, micros, ops, inputs, outputs, line) in enumerate(compiled):
        print(f"{name[:12]}  {int(micros) / 1e3:8.1f} ms  {ops}  {inputs} -> {outputs}")
        where = f" at {line}" if line else ""
        missed = here.get(name)
        if missed is None:
            print(f"              it is not on disk (not stored, or removed since){where}")
            continue
        # What the run itself compiled before counts as known too, after what was there before it.
        before = [here[f[0]] for f in compiled[:position] if f[0] in here]
        known = nearest(missed, earlier) or nearest(missed, before)
        reason = "no program of these ops before" if known is None else difference(missed, known)
        print(f"              {reason}{where}")
    return 0


def run_export(arguments: argparse.Namespace) -> int:
    found = [entry for entry in entries(verify=True) if entry.good]
    folder = pathlib.Path(_C._cache_folder())
    target = pathlib.Path(arguments.file)
    descriptor, temporary = tempfile.mkstemp(dir=target.parent or ".", prefix=target.name)
    os.close(descriptor)
    try:
        with tarfile.open(temporary, "w") as tar:
            for entry in found:
                tar.add(folder / f"{entry.name}.prog", arcname=f"{entry.name}.prog")
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
    print(f"wrote {len(found)} programs to {target}, {_mib(target.stat().st_size)}")
    return 0


def run_import(arguments: argparse.Namespace) -> int:
    if not _C._cache_stats()["enabled"]:
        print("the disk cache is off. Try: TORCH_TPU_CACHE_DIR, or unset TORCH_TPU_CACHE.")
        return 1
    folder = pathlib.Path(_C._cache_folder())
    names = set()
    with tarfile.open(arguments.file) as tar:
        for member in tar:
            # Only plain files of our names: an archive must not write anywhere else.
            content = tar.extractfile(member) if member.isfile() else None
            if content is None or not ENTRY_NAME.fullmatch(member.name):
                print(f"skipped {member.name!r}: not a program of a cache")
                continue
            _write(folder / member.name, content)  # type: ignore[arg-type]
            names.add(member.name.removesuffix(".prog"))
    damaged = [entry for entry in entries(verify=True) if entry.name in names and not entry.good]
    for entry in damaged:
        (folder / f"{entry.name}.prog").unlink()
        print(f"skipped {entry.name}: damaged")
    print(f"imported {len(names) - len(damaged)} programs into {folder}")
    return 1 if damaged else 0


def _write(path: pathlib.Path, content: io.BufferedIOBase) -> None:
    # mkstemp makes it 0600, and the suffix has it removed one day if we die here.
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name + ".", suffix=".tmp")
    with os.fdopen(descriptor, "wb") as file:
        while block := content.read(1 << 20):
            file.write(block)
    os.replace(temporary, path)


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds ``cache`` and its subcommands; each sets ``run``."""
    cache = commands.add_parser("cache", help="look at, check, move and empty the compile cache")
    actions = cache.add_subparsers(dest="action", required=True)

    def add(name: str, run, text: str) -> argparse.ArgumentParser:
        parser = actions.add_parser(name, help=text, description=text)
        parser.set_defaults(run=run)
        return parser

    add("list", run_list, "one line per program: name, last use, bytes, ops and shapes")
    add("stats", run_stats, "folder, number of programs, size")
    prune = add("prune", run_prune, "remove the least recently used programs")
    prune.add_argument("--max-bytes", type=int, help="what may remain; default: the size cap")
    add("explain", run_explain, "what the last run compiled, and what differed from known programs")
    add("verify", run_verify, "read every program and compare its checksum")
    add("export", run_export, "write all programs to a tar file").add_argument("file")
    add("import", run_import, "add the programs of a tar file that you trust").add_argument("file")
