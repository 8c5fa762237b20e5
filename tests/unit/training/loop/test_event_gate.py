"""A worker's gate at the next cut by event time."""

from __future__ import annotations

import logging
import math
import types
from typing import Any

import numpy as np
import pytest

from ps_train.data.bad_records import BadRecords
from ps_train.data.shards import event_cut_policy as policy
from ps_train.data.unbounded.row_gate import NO_STAMP, OPEN
from ps_train.data.unbounded.source import Row
from ps_train.training.loop import event_gate
from ps_train.training.loop.event_gate import EventGate

SESSION: Any = "session"


class Table:
    """The cut and the marks of two partitions."""

    def __init__(self) -> None:
        self.cut, self.marks = [0, 0], np.zeros([2, 2], np.int64)

    def read(self, session: Any) -> dict[str, Any]:
        return {"cut": np.array(self.cut), "marks": self.marks.copy()}

    def mark(self, session: Any, changes: dict[int, tuple[int, int]]) -> None:
        for partition, mark in changes.items():
            self.marks[partition] = mark


class Source:
    bad_records = BadRecords("row", 10)

    def event_time(self, row: Row) -> float:
        return float(row.value or b"0")

    def place(self, partition: int, offset: int) -> str:
        return f"partition {partition} at {offset}"


class Partitions:
    """Partitions of this replica; progress int64 [ps, 2] is the cursor that each ps knows."""

    def __init__(self, cursors: list[int], standing: dict[int, Any]) -> None:
        self.progress = np.array([cursors, cursors], np.int64)
        self._standing = standing

    def standing(self) -> dict[int, Any]:
        return self._standing

    def open_partitions(self) -> list[int]:
        return [0, 1]


def standing(cursor: int, stamp: float | None, empty_secs: float = 0.0) -> Any:
    return types.SimpleNamespace(cursor=cursor, stamp=stamp, empty_secs=empty_secs)


@pytest.fixture
def gate() -> EventGate:
    table: Any = Table()
    source: Any = Source()
    job: Any = types.SimpleNamespace(max_event_wait_secs=5.0)
    return EventGate(table, source, job)


def exchange(gate: EventGate, partitions: Partitions) -> None:
    found: Any = partitions
    gate.exchanged(SESSION, found)


def test_until_a_cut_is_chosen_no_row_with_an_event_time_passes(gate: EventGate) -> None:
    assert not gate.is_shut(1e15) and not OPEN.is_shut(1e15)  # before the first exchange nothing is known
    exchange(gate, Partitions([5, 5], {}))
    assert gate.is_shut(1.0) and not gate.is_shut(NO_STAMP)


def test_rows_from_the_next_cut_on_wait(gate: EventGate) -> None:
    gate.table.cut = [100, 200]  # type: ignore[attr-defined]
    exchange(gate, Partitions([5, 5], {}))
    assert [gate.is_shut(stamp) for stamp in (50.0, 199.0, 200.0, math.inf)] == [False, False, True, True]
    assert gate.measured() == {"late_rows": 0, "next_cut_ms": 200}
    assert gate.stamp(0, Row(b"150", 7)) == 150.0


def test_a_partition_that_stands_at_a_later_row_is_marked_once(gate: EventGate) -> None:
    table: Any = gate.table
    table.cut = [100, 200]
    partitions = Partitions([7, 9], {0: standing(7, 230.0), 1: standing(9, 150.0)})
    exchange(gate, partitions)
    assert table.marks.tolist() == [[7, 230], [0, 0]] and not gate.holds(0)
    assert gate.reached_all(SESSION) is None
    table.mark = lambda *arguments: pytest.fail("it is marked already")
    exchange(gate, Partitions([7, 9], {0: standing(7, 230.0)}))


def test_all_partitions_have_reached_the_cut(gate: EventGate) -> None:
    table: Any = gate.table
    assert gate.reached_all(SESSION) is None
    table.cut = [100, 200]
    exchange(gate, Partitions([7, 9], {0: standing(7, 230.0), 1: standing(9, 250.0)}))
    assert gate.reached_all(SESSION) == (100, 200, [230, 250])


def test_an_idle_partition_counts_after_a_while_if_another_one_has_reached_the_cut(
    gate: EventGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    table: Any = gate.table
    clock = types.SimpleNamespace(now=0.0)
    monkeypatch.setattr(event_gate.time, "monotonic", lambda: clock.now)
    table.cut = [100, 200]
    idle = Partitions([7, 9], {0: standing(7, 230.0), 1: standing(9, None, empty_secs=60.0)})
    exchange(gate, idle)  # partition 0 is marked now
    exchange(gate, idle)
    clock.now = 4.0
    exchange(gate, idle)
    assert table.marks[1].tolist() == [0, 0] and not gate.holds(1)
    clock.now = 6.0
    exchange(gate, idle)
    assert table.marks[1].tolist() == [9, policy.idle_mark(200)]
    exchange(gate, idle)
    assert gate.holds(1) and not gate.holds(0)


def test_a_partition_that_was_empty_for_a_moment_does_not_count(
    gate: EventGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    table: Any = gate.table
    clock = types.SimpleNamespace(now=0.0)
    monkeypatch.setattr(event_gate.time, "monotonic", lambda: clock.now)
    table.cut = [100, 200]
    for now in (0.0, 1.0, 50.0):
        clock.now = now
        exchange(gate, Partitions([7, 9], {0: standing(7, 230.0), 1: standing(9, None, empty_secs=4.0)}))
    assert table.marks[1].tolist() == [0, 0]


def test_late_rows_are_counted_and_told_now_and_then(gate: EventGate, caplog: pytest.LogCaptureFixture) -> None:
    gate.table.cut = [100, 200]  # type: ignore[attr-defined]
    exchange(gate, Partitions([5, 5], {}))
    with caplog.at_level(logging.WARNING):
        gate.passed(1, 40, [NO_STAMP, 150.0])
        gate.passed(1, 41, [99.0, 100.0, 150.0])
        gate.passed(1, 44, [1.0])
    assert gate.measured()["late_rows"] == 2 and len(caplog.messages) == 1
    assert caplog.messages[0].startswith("partition 1 at 41: rows before the cut of 1970-01-01T00:00:00.100Z")
