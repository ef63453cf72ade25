# SPDX-License-Identifier: Apache-2.0
"""Registers the device with torch, in the order torch needs. Official hooks only."""

import atexit
import pathlib
import sys
import types
from typing import Any

import torch

BACKEND = "tpu"
_UNCLAIMED = "privateuseone"
_done = False


def register() -> None:
    """Makes ``tpu`` a device of torch; once per process.

    Raises:
        RuntimeError: another library owns torch's private device slot.
        ImportError: the C++ library is missing, broken, or not ours.
    """
    global _done
    if _done:
        return
    _check_slot_is_free()
    # The library registers kernels as it loads, so it comes after the check and before the name.
    _C = _load_library()
    _C._set_site_packages(_site_packages())
    torch.utils.rename_privateuse1_backend(BACKEND)

    from torch_tpu import tpu

    torch._register_device_module(BACKEND, tpu)
    torch.utils.generate_methods_for_privateuse1_backend(
        for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
    )
    # Lazy modules may be moved before their parameters have a shape.
    lazy: Any = torch.nn.parameter
    lazy.UninitializedTensorMixin._allowed_methods.append(getattr(torch.Tensor, BACKEND))
    atexit.register(_C._drain)
    _done = True


def _check_slot_is_free() -> None:
    owner = torch._C._get_privateuse1_backend_name()
    if owner == _UNCLAIMED:
        return
    module: Any = getattr(torch, owner, None)
    source = getattr(module, "__file__", None)
    where = f" (module {module.__name__}, {source})" if source else ""
    raise RuntimeError(
        "torch_tpu: expected torch's private device slot to be free, but another library "
        f"registered it as {owner!r}{where}. torch has one such slot per process. Try: uninstall "
        "that library, or set TORCH_DEVICE_BACKEND_AUTOLOAD=0 and import only the one you need."
    )


def _load_library() -> types.ModuleType:
    try:
        from torch_tpu import _C
    except ImportError as error:
        raise ImportError(
            f"torch_tpu: the C++ library did not load: {error}. torch is {torch.__version__}; "
            f"this build needs 2.13.{foreign_hint()} Try: install torch_tpu again."
        ) from error
    if not hasattr(_C, "_runtime_info"):
        raise ImportError(
            f"torch_tpu: {_C.__file__} is not the library of this package."
            f"{foreign_hint()} Google ships a package with the same import name; only one can be "
            "installed. Try: uninstall both, then install the one you want."
        )
    return _C


def foreign_distributions() -> list[str]:
    """Other installed distributions that provide a ``torch_tpu`` package, as "name version".

    Slow (reads every distribution's file list): for error paths and the doctor.
    """
    import importlib.metadata

    here = pathlib.Path(__file__).resolve().parent
    found = []
    for distribution in importlib.metadata.distributions():
        for file in distribution.files or ():
            if file.parts[:2] != ("torch_tpu", "__init__.py"):
                continue
            ours = any(
                entry.group == "torch.backends" and entry.value == "torch_tpu:_autoload"
                for entry in distribution.entry_points
            )
            same_place = pathlib.Path(str(distribution.locate_file(file))).resolve().parent == here
            if not (ours and same_place):
                found.append(f"{distribution.metadata['Name']} {distribution.version}")
    return found


def foreign_hint() -> str:
    """One sentence that names the other distributions, or nothing."""
    others = foreign_distributions()
    return f" Also installed: {', '.join(others)}, which provides torch_tpu too." if others else ""


def _site_packages() -> list[str]:
    """Folders in which plugin packages (libtpu, xla_plugins) may live, torch's own first."""
    folders = [str(pathlib.Path(torch.__file__).parent.parent)]
    folders += [p for p in sys.path if p.endswith(("site-packages", "dist-packages"))]
    return list(dict.fromkeys(folders))
