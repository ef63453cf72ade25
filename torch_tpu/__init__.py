# SPDX-License-Identifier: Apache-2.0
"""A native PyTorch device for TPUs: ``torch.device("tpu")``.

``import torch`` is enough: torch calls :func:`_autoload`, our ``torch.backends`` entry point.
Importing this package by name does the same. The plugin that runs programs opens at first use.
"""


# Before `import torch`: that import comes back for this name when this package is imported first.
def _autoload() -> None:
    """Registers the device with torch. Repeated calls do nothing."""
    from torch_tpu import _register

    _register.register()


import torch  # noqa: E402, F401

_autoload()

__version__ = "0.1.0"
__all__ = ["__version__"]
