"""Lag of data without an end: its sum, who reads it, and its growth over a minute."""

from __future__ import annotations

import pytest

from ps_train.base.untrusted import UntrustedError
from ps_train.observe.status.stream_lag import StreamLag


def run(arriving: float, reading: float, lag: float, secs: int = 80, move_at: int | None = None) -> StreamLag:
    """One partition for some seconds, with a measurement every two."""
    found, used, task = StreamLag(), 0.0, "worker:0"
    for now in range(0, secs, 2):
        if now == move_at:
            task, used = "worker:1", 0.0
        found.update(task, {"3": (lag, used)}, float(now))
        lag, used = max(0.0, lag + 2 * (arriving - reading)), used + 2 * reading
    return found


def test_the_growth_is_what_arrives_over_what_is_read():
    assert run(300.0, 200.0, 1e4).read(80.0)["growth"] == 1.5
    assert run(100.0, 200.0, 1e5).read(80.0)["growth"] == 0.5
    assert run(300.0, 200.0, 1e4, secs=20).read(20.0)["growth"] is None  # not known yet
    assert run(300.0, 0.0, 1e4).read(80.0)["growth"] == 1e6  # nothing is read at all
    assert run(300.0, 200.0, 1e4).read(150.0)["growth"] is None, "no worker measures it now"


def test_a_small_lag_does_not_grow():
    assert run(300.0, 200.0, 0.0, secs=40).read(40.0)["growth"] > 1
    small = StreamLag()
    for now in range(0, 80, 2):
        small.update("worker:0", {"0": (10.0 + now, 400.0 * now)}, float(now))
    assert small.read(80.0)["growth"] == 1.0


def test_a_partition_that_another_worker_takes_keeps_its_lag_and_the_sum():
    found = run(300.0, 200.0, 1e4, move_at=40)
    assert 1.45 < found.read(80.0)["growth"] < 1.55
    assert found.read(80.0)["partitions"] == [{"partition": 3, "lag": 1e4 + 39 * 200, "task": "worker:1"}]
    found.update("worker:0", {"11": (5.0, 0.0)}, 200.0)
    assert [one["task"] for one in found.read(200.0)["partitions"]] == [None, "worker:0"]  # one of them is silent
    assert found.read(200.0)["lag"] == 1e4 + 39 * 200 + 5.0


@pytest.mark.parametrize(
    "lie",
    [
        {"lag": [1]},
        {"lag": {"x": [1.0, 2.0]}},
        {"lag": {"1": [1.0]}},
        {"lag": {"1": [1.0, -1.0]}},
        {"lag": {"1": [1.0, 1.0]}, "lag_unit": 3},
    ],
)
def test_telemetry_of_another_form_is_refused(lie):
    found = StreamLag()
    with pytest.raises(UntrustedError):
        found.measured("worker:0", lie)
    found.measured("worker:0", {"steps": 3})
    assert found.values({}, 0.0) == {"stream": None}
    found.measured("worker:0", {"lag": {"3": [7.0, 1.0]}, "lag_unit": "bytes"})
    assert (found.read(0.0)["lag"], found.read(0.0)["unit"]) == (7.0, "bytes")


def test_other_data_have_none():
    assert StreamLag().read(0.0) is None
