"""Measurements that travel with heartbeats, and the rates that follow."""

from __future__ import annotations

import json

import pytest

from ps_train.base.lifecycle import Event, Recorder
from ps_train.base.untrusted import UntrustedError
from ps_train.cluster.membership.telemetry import Rates, TelemetrySource, checked_telemetry


def record(uptime, steps=0, cpu_secs=0.0, **others):
    return {"uptime": uptime, "cpu_secs": cpu_secs, "steps": steps, "examples": 32.0 * steps, **others}


def test_a_record_is_small_plain_json():
    recorder = Recorder()
    for number in range(300):
        recorder.add(Event(float(number), "fault", "worker:1", "x" * 5000))
    source = TelemetrySource(recorder)
    source.add(8, 256.0)
    source.include(lambda: {"step_time": {"step": 8, "secs": 0.01}})
    text = json.dumps(source.read())
    assert len(text) < 4096
    found = json.loads(text)
    assert (found["steps"], found["examples"], found["step_time"]["secs"]) == (8, 256.0, 0.01)
    assert [event["age"] > 1e9 for event in found["events"]] == [True] * 5


def test_rates_are_over_the_senders_time():
    rates = Rates()
    assert rates.update(record(100.0))["steps_per_sec"] is None
    found = rates.update(record(102.0, steps=50, cpu_secs=1.0, sent_bytes=4e6))
    assert (found["steps_per_sec"], found["examples_per_sec"], found["cpu"]) == (25.0, 800.0, 0.5)


def test_the_time_before_the_first_step_is_not_part_of_the_rate_of_steps():
    rates = Rates()
    rates.update(record(100.0))
    rates.update(record(104.0, steps=10))
    found = rates.update(record(104.5, steps=60, cpu_secs=4.5))
    assert (found["steps_per_sec"], found["examples_per_sec"], found["cpu"]) == (100.0, 3200.0, 1.0)


def test_a_record_that_is_read_twice_changes_nothing():
    rates = Rates()
    rates.update(record(100.0))
    first = rates.update(record(102.0, steps=50))
    assert rates.update(record(102.0, steps=50)) == first


def test_the_window_is_a_few_seconds():
    rates = Rates()
    for second in range(60):
        rates.update(record(float(second), steps=100 * second))
    for second in range(60, 70):
        found = rates.update(record(float(second), steps=5900))
    assert found["steps_per_sec"] == 0.0


def test_a_new_process_begins_anew():
    rates = Rates()
    rates.update(record(1000.0, steps=5000, cpu_secs=500.0))
    assert rates.update(record(1010.0, steps=3, cpu_secs=1.0))["steps_per_sec"] is None
    assert rates.update(record(1012.0, steps=23, cpu_secs=2.0))["steps_per_sec"] == 10.0
    assert rates.update(record(5.0, steps=1, cpu_secs=3.0))["steps_per_sec"] is None  # another machine's clock


def test_what_a_task_sends_is_what_the_chief_takes():
    recorder = Recorder()
    recorder.add(Event(3.0, "fault", "worker:1", "text"))
    source = TelemetrySource(recorder)
    source.include(lambda: {"step_time": {"pull": 0.5}})
    source.include(lambda: {"lag": {"3": [7.0, 1.0]}, "lag_unit": "bytes", "late_rows": 3})
    sent = json.loads(json.dumps(source.read()))
    taken = checked_telemetry(sent)
    assert {name: taken[name] for name in sent if sent[name] is not None} == {
        name: value for name, value in sent.items() if value is not None
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"uptime": "1"},
        {"cores": [2]},
        {"rss_bytes": float("nan")},
        {"steps": 1e300},
        {"step_time": {"pull": "x"}},
        {"step_time": [1]},
        {"events": [1]},
        {"lag": {"1": [1.0, 1e300]}},
        {"lag": {"1": [1.0, True]}},
        {"lag": {"1": {"2": {"3": 4.0}}}},
        {"lag_unit": "<b>"},
        {"lag_unit": "x" * 21},
        {"late_rows": float("nan")},
        {"events": [{}]},
        {"events": [{"age": float("inf")}]},
    ],
)
def test_measurements_of_another_type_are_refused(changes):
    with pytest.raises(UntrustedError):
        checked_telemetry(record(1.0) | changes)
