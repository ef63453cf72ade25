# SPDX-License-Identifier: Apache-2.0
"""Text that is on every machine with Python, and batches of it."""

import pathlib
import pydoc_data.topics
import sysconfig
from collections.abc import Iterator

import torch
from output import UserError

SOURCES = ("argparse.py", "ast.py", "dataclasses.py", "inspect.py", "pathlib.py", "typing.py")


def reference_text() -> str:
    """The Python language reference (English), as pydoc ships it: about 750 kB."""
    return "\n".join(pydoc_data.topics.topics.values())


def source_text() -> str:
    """Python code: the sources of a few modules of the standard library, about 500 kB."""
    stdlib = pathlib.Path(sysconfig.get_paths()["stdlib"])
    return "\n".join(read_text(stdlib / name) for name in SOURCES if (stdlib / name).exists())


def read_text(path: pathlib.Path) -> str:
    if not path.is_file():
        raise UserError(f"text file {path} not found", "give the path of a UTF-8 text file")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text ({error.reason})", "convert it first") from None


def tokenize(text: str, tokenizer, batch: int, length: int) -> torch.Tensor:
    """All tokens of `text` as an int64 tensor [tokens].

    Raises UserError when they do not fill one batch of `batch` rows of `length` tokens.
    """
    tokens = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    if len(tokens) < batch * length:
        raise UserError(
            f"the text is too short: {len(tokens)} tokens, one batch of {batch} x {length} "
            f"needs {batch * length}",
            "give more text, or a smaller --batch or --length",
        )
    return torch.tensor(tokens)


def batches(tokens: torch.Tensor, batch: int, length: int, seed: int) -> Iterator[torch.Tensor]:
    """Endless random windows of `tokens` as int64 [batch, length], the same for a given seed."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        starts = torch.randint(len(tokens) - length + 1, (batch,), generator=generator)
        yield torch.stack([tokens[s : s + length] for s in starts.tolist()])
