# SPDX-License-Identifier: Apache-2.0
"""Fixtures of all Python tests, and the list of expected failures."""

import pytest
import torch

from tests.expected_failures import EXPECTED_FAILURES


def pytest_addoption(parser):
    parser.addoption(
        "--op-samples", type=int, default=3, help="OpInfo samples per op and dtype; 0: all"
    )


@pytest.fixture
def op_samples(request):
    return request.config.getoption("--op-samples")


def pytest_collection_modifyitems(config, items):
    for item in items:
        if item.nodeid in EXPECTED_FAILURES:
            reason = EXPECTED_FAILURES[item.nodeid]
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
    # A line without its test is stale; only a run of whole files can tell.
    whole = not config.option.keyword and not any("::" in a for a in config.args)
    files = {item.nodeid.split("::")[0] for item in items}
    known = {item.nodeid for item in items}
    stale = [n for n in EXPECTED_FAILURES if n.split("::")[0] in files and n not in known]
    if whole and stale:
        raise pytest.UsageError(f"expected_failures.py names tests that do not exist: {stale}")


@pytest.fixture
def no_fallback():
    """Fails the test when an op ran on the CPU instead of the device."""
    torch.tpu.reset_metrics()
    yield
    assert torch.tpu.metrics()["fallbacks"] == {}
