# SPDX-License-Identifier: Apache-2.0
"""torch.tpu.explain(): windows, reasons, outcomes and the user's lines."""

import torch


def test_windows_with_reason_ops_and_user_line():
    x = torch.ones(3, 7, device="tpu")
    with torch.tpu.eager_mode("defer_and_fuse"), torch.tpu.explain(quiet=True) as report:
        y = (x + 1) * 2  # one window
        y.sum().item()
    (window,) = report.records
    assert window["reason"] == "host_read"
    assert window["ops"] == 3
    assert dict(map(tuple, window["op_counts"])) == {
        "aten::add.Tensor": 1,
        "aten::mul.Tensor": 1,
        "aten::sum": 1,
    }
    assert window["first_line"].startswith("test_explain.py:")
    assert "host_read" in report.table() and "test_explain.py" in report.table()


def test_strict_ops_that_compiled_name_their_line(capsys):
    x = torch.ones(3, 11, device="tpu")
    with torch.tpu.explain():
        x.sinh()
    printed = capsys.readouterr().out
    assert "strict" in printed and "sinh" in printed and "test_explain.py:" in printed


def test_nothing_is_recorded_outside():
    x = torch.ones(3, 13, device="tpu")
    with torch.tpu.explain(quiet=True) as report:
        pass
    x.cosh()
    assert report.records == []
