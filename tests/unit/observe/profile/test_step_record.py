"""The record of a worker's steps: its way to the chief, its sums, and its place on the chief's clock."""

from __future__ import annotations

import base64
import json
import zlib

import pytest

from ps_train.base.untrusted import UntrustedError
from ps_train.cluster.sessions.ps_clocks import Offset
from ps_train.observe.profile import step_record
from ps_train.observe.profile.step_record import StepRecord, table_of
from ps_train.observe.profile.step_tracer import TracedCall
from tests.unit.observe.profile.test_step_parts import BASE, one_step, statistics

CLOCK = Offset(0, 50_000)


def call(step, begin, end, *nodes, steps=1, expected=None):
    ends = BASE + 1000 * (end if expected is None else expected)
    return TracedCall(step, steps, BASE + 1000 * begin, BASE + 1000 * end, ends, statistics(*nodes))


def record(task="worker:1", clock=CLOCK, calls=None, untraced_secs=0.0):
    calls = calls or [
        call(7, 0, 80, *one_step(at=10)),
        call(8, 90, 250, *one_step(at=100), *one_step("step_1/", 160), steps=2, expected=230),
    ]
    return StepRecord.of(task, calls, {"ps:0": clock, "ps:1": Offset(9, 70_000)}, untraced_secs)


def test_a_record_survives_its_way():
    found = StepRecord.from_text(record().to_text())
    assert found.parts() == record().parts()
    assert list(found.rows(Offset(5, 0))) == list(record().rows(Offset(5, 0)))
    assert found.clock == Offset(0, 70_000), "the least certain ps counts"


def test_the_parts_and_tracing_add_up_to_the_recorded_time():
    parts = record().parts()
    assert parts["compute"] == pytest.approx(15e-6)
    assert parts["tracing"] == pytest.approx(20e-6 / 3)
    assert parts["step"] + parts["tracing"] == pytest.approx(250e-6 / 3)
    assert sum(secs for name, secs in parts.items() if name not in ("step", "tracing")) == pytest.approx(parts["step"])


@pytest.mark.parametrize(("clock", "chief", "moved"), [(900, 0, -900), (0, 900, 900), (500, 500, 0), (-300, 200, 500)])
def test_events_are_moved_to_the_chiefs_clock(clock, chief, moved):
    """Both clocks are known by that of ps 0."""
    there = {row.name: row for row in record(clock=Offset(clock, 0)).rows(Offset(chief, 0)) if row.lane == "1 calls"}
    assert there["step 8"].begin == BASE + moved
    assert there["steps 9 to 10"].end == BASE + 250_000 + moved


def test_rows_say_where_and_for_whom_something_ran():
    rows = {(row.process, row.lane, row.name, row.details.get("part")) for row in record().rows(Offset(0, 0))}
    assert ("ps:0", "worker:1 wait", "lock", "wait") in rows
    assert ("ps:0", "worker:1 receive", "matmul from worker:1", "push") in rows
    assert ("worker:1", "3 receive", "read from ps:0", "pull") in rows
    assert ("worker:1", "3 operations", "matmul", "compute") in rows
    assert ("worker:1", "2 parts", "update", None) in rows


def test_the_table_has_the_parts_and_the_heaviest_operations():
    lines = table_of([record(untraced_secs=0.0123), record("worker:2")]).split("\n")
    columns = "input pull compute push wait update other step untraced tracing"
    assert lines[0].split() == f"ms per step {columns}".split(" ")
    assert lines[1].split()[:4] == ["worker:1", "0.005", "0.010", "0.015"]
    assert lines[1].split()[9] == "12.300"
    assert "    0.015  MatMul matmul" in lines[4:6], "the three steps' operations are one line"
    workers, ps = lines.index("heaviest operations of workers, ms per step of a worker:"), -1
    assert lines[workers + 1].split() == ["0.015", "MatMul", "matmul"]
    assert "    0.012  ResourceApplyAdam adam" in lines[workers + 3 : ps] + lines[ps:]
    assert not any("MutexLock" in line for line in lines), "waiting is no work"


def test_of_too_many_spans_the_longest_are_kept(monkeypatch):
    monkeypatch.setattr(step_record, "_MOST_SPANS", 4)
    found = record()
    assert sorted(span.end - span.begin for span in found.spans) == [12_000, 15_000, 15_000, 15_000]
    assert found.left_out == 24 - 4
    assert found.parts() == pytest.approx(record().parts()), "the parts are of all"


def text_of(**changes):
    found = json.loads(zlib.decompress(base64.b64decode(record().to_text()))) | changes
    return base64.b64encode(zlib.compress(json.dumps(found).encode())).decode()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("no base64", "not compressed text"),
        (base64.b64encode(b"no zlib").decode(), "not compressed text"),
        (record().to_text()[:-40], "cut off|not compressed"),
        (text_of(segments=[["ull", 5, 9]]), "unknown part 'ull'"),
        (text_of(segments=[["pull", 5]]), "for a row of Segment"),
        (text_of(calls=[]), "no steps"),
        (text_of(calls=[[1, 0, 2, 3]]), "no steps"),
        (text_of(clock=7), "not the fields"),
    ],
)
def test_a_text_that_is_no_record_is_refused(text, problem):
    with pytest.raises(UntrustedError, match=problem):
        StepRecord.from_text(text)


def test_a_text_that_would_fill_the_memory_is_refused():
    text = base64.b64encode(zlib.compress(bytes((1 << 28) + 1), 1)).decode()
    with pytest.raises(UntrustedError, match="larger than"):
        StepRecord.from_text(text)
