# SPDX-License-Identifier: Apache-2.0
"""Tests that fail today, each with its reason.

tests/conftest.py marks them as strict expected failures: one that starts to pass breaks the run
until its line is removed here, and so does a line that names no test.
"""

# "tests/folder/test_file.py::test_name[id]": "why, and what would cure it"
_FORWARD = "tests/ops/test_ops.py::test_forward"
_STATISTICS = "torch's meta kernel keeps the statistics in float32, as on CUDA; CPU rounds them"
_COMPLEX = "no complex form in the table; needs a complex comparison in the builder"

EXPECTED_FAILURES: dict[str, str] = {
    "tests/python/test_errors.py::test_same_exception_type_as_cpu[bernoulli range]": (
        "p is a run-time argument, which no check sees; cure: check host numbers on every call"
    ),
    f"{_FORWARD}[native_layer_norm-bfloat16]": _STATISTICS,
    f"{_FORWARD}[native_batch_norm-bfloat16]": _STATISTICS,
    f"{_FORWARD}[_native_batch_norm_legit-bfloat16]": _STATISTICS,
    f"{_FORWARD}[_batch_norm_with_update-bfloat16]": _STATISTICS,
    f"{_FORWARD}[linspace-complex64]": _COMPLEX,
    f"{_FORWARD}[linspace.tensor_overload-complex64]": _COMPLEX,
    f"{_FORWARD}[logspace-complex64]": _COMPLEX,
    f"{_FORWARD}[logspace.tensor_overload-complex64]": _COMPLEX,
    f"{_FORWARD}[logaddexp-complex64]": _COMPLEX,
}
