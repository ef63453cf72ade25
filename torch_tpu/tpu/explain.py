# SPDX-License-Identifier: Apache-2.0
"""What ran as which program, and why: the table behind ``with torch.tpu.explain():``."""

import collections
from typing import Any

from torch_tpu import _C


class explain:
    """Records windows of ``defer_and_fuse`` and compiled ops, and prints a table at the end.

    Args:
        quiet: print nothing at the end (see :attr:`records` and :meth:`table`).

    A line per kind of window: why it closed, ops, inputs and outputs, how often it came from
    memory, from disk, or from the compiler, milliseconds spent, its most frequent ops, and the
    user's lines between which it was recorded. Recording lines costs a few microseconds per op.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self.records: list[dict[str, Any]] = []

    def __enter__(self) -> "explain":
        _C._drain()  # what was recorded before does not belong here
        _C._explain_start()
        return self

    def __exit__(self, *exc: object) -> None:
        _C._drain()
        self.records = _C._explain_stop()
        if not self.quiet:
            print(self.table())

    def table(self) -> str:
        """The records as text, equal ones in one line."""
        groups: dict[tuple, list[dict[str, Any]]] = collections.defaultdict(list)
        for r in self.records:
            ops = tuple(map(tuple, r["op_counts"]))
            groups[(r["reason"], r["ops"], r["inputs"], r["outputs"], ops)].append(r)
        head = (
            "closed by",
            "ops",
            "in",
            "out",
            "memory",
            "disk",
            "compiled",
            "ms",
            "lines",
            "what",
        )
        rows = [head]
        for (reason, ops, inputs, outputs, counts), members in groups.items():
            outcomes = collections.Counter(m["outcome"] for m in members)
            first, last = members[0]["first_line"], members[0]["last_line"]
            common = sorted(counts, key=lambda c: -c[1])[:3]
            rows.append(
                (
                    reason,
                    str(ops),
                    str(inputs),
                    str(outputs),
                    str(outcomes["memory"]),
                    str(outcomes["disk"]),
                    str(outcomes["compiled"]),
                    f"{sum(m['milliseconds'] for m in members):.1f}",
                    first if first == last else f"{first} .. {last}",
                    ", ".join(
                        f"{n.removeprefix('aten::')} x{c}" if c > 1 else n.removeprefix("aten::")
                        for n, c in common
                    )
                    + (", ..." if len(counts) > 3 else ""),
                )
            )
        widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
        return "\n".join(
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
            for row in rows
        )
