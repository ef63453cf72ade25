# SPDX-License-Identifier: Apache-2.0
"""Errors for the user, folders that are written whole or not at all, and the loss plot."""

import contextlib
import errno
import pathlib
import shutil
import tempfile
from collections.abc import Iterator


class UserError(Exception):
    """What is wrong, and what to try: printed as two lines, without a traceback."""

    def __init__(self, problem: str, remedy: str):
        super().__init__(f"{problem}\nTry: {remedy}")


def out_of_disk(error: BaseException) -> bool:
    """Whether a write failed for lack of space; safetensors reports it as text only."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    return "No space left on device" in str(error)


@contextlib.contextmanager
def whole_folder(path: pathlib.Path, needed_bytes: int) -> Iterator[pathlib.Path]:
    """Gives an empty folder that becomes `path`, replacing it, when the block ends well.

    When the block fails, the folder is removed and an older `path` stays as it was.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(path.parent).free
        if free < needed_bytes:
            raise UserError(
                f"{path} needs {needed_bytes / 1e6:.0f} MB, {free / 1e6:.0f} MB are free",
                "free some space, or give another --out",
            )
        part = pathlib.Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    except OSError as error:
        raise UserError(f"cannot write to {path.parent}: {error.strerror}", "--out") from None
    try:
        yield part
        part.chmod(0o755)  # mkdtemp's is private
        shutil.rmtree(path, ignore_errors=True)
        part.rename(path)
    except BaseException as error:
        shutil.rmtree(part, ignore_errors=True)
        if out_of_disk(error):
            raise UserError(
                f"no space left while writing {path}; nothing was kept",
                "free some space, or give another --out",
            ) from None
        raise


def plot_losses(path: pathlib.Path, curves: dict[str, list[float]]) -> None:
    """One line per name: loss (nats per token) over steps, faint, with its running mean."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4), constrained_layout=True)
    for name, losses in curves.items():
        mean, means = losses[0], []
        for loss in losses:
            mean += 0.2 * (loss - mean)
            means.append(mean)
        (line,) = axes.plot(means, label=name)
        axes.plot(losses, color=line.get_color(), alpha=0.25, linewidth=0.8)
    axes.set(xlabel="step", ylabel="loss (nats per token)")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=130)
    plt.close(figure)
