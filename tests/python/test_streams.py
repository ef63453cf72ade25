# SPDX-License-Identifier: Apache-2.0
"""Streams and events: identities in launch order, and what was launched before a record."""

import threading

import pytest
import torch


def work(size: int = 512, steps: int = 20) -> torch.Tensor:
    x = torch.ones(size, size, device="tpu") / size
    for _ in range(steps):
        x = x @ x
    return x


def test_identities():
    default = torch.tpu.default_stream()
    assert torch.tpu.current_stream() == default
    pool = [torch.tpu.Stream() for _ in range(32)]
    assert len({s.stream_id for s in pool}) == 32 and default not in pool
    assert torch.tpu.Stream() == pool[0]  # the pool goes round
    high = torch.tpu.Stream(priority=-1)
    assert high not in pool
    assert isinstance(high, torch.Stream) and high.device == torch.device("tpu", 0)
    assert torch.Stream("tpu").device.type == "tpu"


def test_contexts():
    default = torch.tpu.current_stream()
    s, t = torch.tpu.Stream(), torch.tpu.Stream()
    with torch.tpu.stream(s):
        assert torch.tpu.current_stream() == s
        with torch.tpu.stream(None), t:
            assert torch.accelerator.current_stream() == t
        assert torch.tpu.current_stream() == s
    assert torch.tpu.current_stream() == default
    torch.tpu.set_stream(t)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(torch.tpu.current_stream()))
    thread.start()
    thread.join()
    torch.tpu.set_stream(default)
    assert seen == [default]  # the current stream is per thread


def test_results_are_right_across_streams():
    s, t = torch.tpu.Stream(), torch.tpu.Stream()
    with torch.tpu.stream(s):
        x = torch.ones(100, device="tpu") + 1
        done = s.record_event()
    t.wait_event(done)
    with torch.tpu.stream(t):
        y = x * 3
        x.record_stream(t)
    torch.tpu.current_stream().wait_stream(t)
    assert torch.equal(y.cpu(), torch.full((100,), 6.0))


def test_synchronize_and_query():
    x = work()
    torch.tpu.synchronize()
    assert torch.tpu.current_stream().query()
    event = torch.tpu.Event()
    assert event.query()  # never recorded
    event.record()
    assert event.query()  # nothing was running
    x = work()
    event.record()
    event.synchronize()
    assert event.query()
    torch.tpu.current_stream().synchronize()
    torch.accelerator.synchronize()
    assert torch.tpu.current_stream().query()
    assert torch.isfinite(x).all()


def test_an_event_waits_only_for_what_came_before():
    torch.tpu.synchronize()
    event = torch.tpu.Event()
    event.record()
    x = work(1024, 30)
    assert event.query()
    event.record()
    event.synchronize()
    assert torch.tpu.current_stream().query()
    assert x.shape == (1024, 1024)


def test_elapsed_time():
    work()  # compiles
    torch.tpu.synchronize()
    start, end = (torch.tpu.Event(enable_timing=True) for _ in range(2))
    assert isinstance(start, torch.tpu.Event) and isinstance(start, torch.Event)
    start.record()
    work(1024, 10)
    end.record()
    end.synchronize()
    long = start.elapsed_time(end)
    start.record()
    end.record()
    end.synchronize()
    assert 0 <= start.elapsed_time(end) < long


def test_elapsed_time_needs_timing_and_records():
    with pytest.raises(ValueError, match="enable_timing"):
        torch.tpu.Event().elapsed_time(torch.tpu.Event())
    a, b = (torch.tpu.Event(enable_timing=True) for _ in range(2))
    with pytest.raises(ValueError, match="recorded"):
        a.elapsed_time(b)


def test_events_between_processes_are_refused():
    with pytest.raises(NotImplementedError):
        torch.tpu.Event(interprocess=True)


def test_backward_on_a_side_stream():
    w = torch.ones(3, device="tpu", requires_grad=True)
    s = torch.tpu.Stream()
    s.wait_stream(torch.tpu.current_stream())
    with torch.tpu.stream(s):
        loss = (w * 2).sum()
    loss.backward()
    assert torch.equal(w.grad.cpu(), torch.full((3,), 2.0))


def test_many_events_do_not_pile_up():
    x = torch.ones(10, device="tpu")
    events = []
    for _ in range(500):
        x = x + 1
        event = torch.tpu.Event()
        event.record()
        events.append(event)
    events[-1].synchronize()
    assert all(event.query() for event in events)
    assert x[0].item() == 501


def test_records_from_several_threads():
    errors = []

    def run():
        try:
            for _ in range(100):
                event = torch.tpu.Event()
                torch.ones(100, device="tpu") + 1
                event.record()
                event.synchronize()
                assert event.query()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors and not any(thread.is_alive() for thread in threads)
