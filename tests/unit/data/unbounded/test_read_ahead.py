from __future__ import annotations

import logging
import threading
import time

import pytest

from ps_train.data import Row
from ps_train.data.unbounded.read_ahead import ReadAhead
from ps_train.data.unbounded.row_gate import NO_STAMP, RowGate
from tests.support.data.unbounded import Memory
from tests.support.machine.processes import eventually


@pytest.fixture
def made():
    found = []
    yield found
    for one in found:
        one.close()


def ahead_of(made, source, batch_size=4, max_wait_secs=1000.0, clock=time.monotonic):
    made.append(ReadAhead(source, batch_size, max_wait_secs, 10, clock))
    return made[-1]


def cut(ahead, partition=0, **limits):
    return eventually(lambda: ahead.cut(partition, **limits), 10, "a batch")


def values(found):
    return [int(row.value) for row in found.rows]


def test_batches_follow_one_another_and_a_short_rest_waits(made):
    source = Memory(1)
    source.add(0, *range(10))
    ahead = ahead_of(made, source)
    ahead.follow({0: 1})
    first, second = cut(ahead), cut(ahead)
    assert (first.begin, first.end, values(first)) == (1, 5, [1, 2, 3, 4])
    assert (second.begin, second.end, values(second)) == (5, 9, [5, 6, 7, 8])
    assert ahead.cut(0) is None and ahead.has_rows(0)
    source.add(0, 10, 11, 12)
    assert values(cut(ahead)) == [9, 10, 11, 12]


def test_a_row_waits_so_long_for_others(made):
    now, source = [100.0], Memory(1)
    source.add(0, 0)
    ahead = ahead_of(made, source, max_wait_secs=5, clock=lambda: now[0])
    ahead.follow({0: 0})
    eventually(lambda: ahead.has_rows(0), 10, "the row")
    now[0] = 104.0
    assert ahead.cut(0) is None
    now[0] = 105.0
    assert values(ahead.cut(0)) == [0]


def test_a_batch_ends_at_a_limit_even_if_that_is_in_a_gap(made):
    source = Memory(1)
    source.rows[0] = [Row(b"1", 1), Row(b"2", 2), Row(b"9", 9), Row(b"10", 10)]
    ahead = ahead_of(made, source)
    ahead.follow({0: 0})
    limited = cut(ahead, end=5)
    assert (limited.begin, limited.end, values(limited)) == (0, 5, [1, 2])
    source.ends = {0: 10}
    eventually(lambda: ahead.ends == {0: 10}, 10, "the end")
    last = cut(ahead)
    assert (last.begin, last.end, values(last)) == (5, 10, [9])
    assert ahead.cut(0) is None


def test_an_end_without_a_row_before_it_is_reached(made):
    source = Memory(1)
    source.rows[0], source.ends = [Row(b"9", 9)], {0: 5}
    ahead = ahead_of(made, source)
    ahead.follow({0: 2})
    assert cut(ahead) == (2, 5, [], [])


def test_another_offset_is_read_anew_and_the_same_is_not(made):
    source = Memory(1)
    source.add(0, *range(12))
    ahead = ahead_of(made, source)
    ahead.follow({0: 0})
    assert cut(ahead).end == 4
    ahead.follow({0: 4})
    assert cut(ahead).begin == 4
    ahead.follow({0: 2})
    assert values(cut(ahead)) == [2, 3, 4, 5]
    ahead.follow({})
    assert ahead.cut(0) is None and ahead.head(0) is None


def test_missing_rows_are_told_every_thirty_seconds(made, caplog):
    caplog.set_level(logging.INFO)
    now, source = [0.0], Memory(2)
    ahead = ahead_of(made, source, clock=lambda: now[0])
    ahead.follow({0: 0, 1: 0})
    lines = []

    def told() -> int:
        now[0] += 1.0
        lines[:] = [one.getMessage() for one in caplog.records if "no new rows" in one.getMessage()]
        return len(lines) >= 2

    eventually(told, 20, "two lines")
    assert lines[0].startswith("memory has had no new rows for 3")
    assert lines[0].endswith("in the partitions 0, 1; waiting")
    assert now[0] >= 60
    source.add(1, 1)
    eventually(lambda: ahead.has_rows(1), 10, "the row")


def test_what_is_left_and_what_was_read_is_measured_at_one_moment(made):
    now, source = [0.0], Memory(2)
    source.lag = lambda partition, offset: None if partition else float(len(source.rows[0]) - offset)
    source.add(0, *range(10))
    ahead = ahead_of(made, source, clock=lambda: now[0])
    ahead.cursors = {0: 2, 1: 0}
    ahead.follow({0: 2})
    eventually(lambda: ahead.lags == {0: (8.0, 0.0)}, 10, "the lag")
    source.add(0, 10, 11)
    ahead.cursors = {0: 6, 1: 0}
    now[0] = 3.0
    eventually(lambda: ahead.lags == {0: (6.0, 4.0)}, 10, "the next lag")  # four read, two arrived


def test_a_partition_is_given_back_while_the_source_does_not_answer(made):
    asked, answer, released, source = threading.Event(), threading.Event(), list[int](), Memory(2)

    def partitions():
        asked.set()
        answer.wait(20)
        return 2

    source.partitions, source.release = partitions, released.append
    ahead = ahead_of(made, source)
    try:
        ahead.follow({0: 0, 1: 0})
        assert asked.wait(10)
        ahead.follow({1: 0})  # returns at once: a step may wait for it
        assert released == []
    finally:
        answer.set()
    eventually(lambda: released == [0], 10, "the release")


class Gate(RowGate):
    """Knows a row by a hundred times its value, and stops before some number."""

    asks_for_ends = True
    until = 600

    def stamp(self, partition, row):
        return None if row.value == b"1" else 100.0 * int(row.value)

    def is_shut(self, stamp):
        return stamp >= self.until


def test_no_batch_has_a_row_that_the_gate_stops(made):
    source = Memory(1)
    source.add(0, *range(10))
    source.rows[0][6] = Row(None, 6)
    gate = Gate()
    ahead = ReadAhead(source, 4, 1000.0, 10, gate=gate)
    made.append(ahead)
    ahead.follow({0: 0})
    first, second = cut(ahead), cut(ahead)  # the second does not wait for more rows
    assert (values(first), first.stamps) == ([0, 2, 3, 4], [0, NO_STAMP, 200, 300, 400])  # the gate leaves row 1 out
    assert (values(second), second.stamps) == ([5], [500, NO_STAMP])
    assert (second.begin, second.end) == (5, 7)  # a row without a value has no stamp
    assert ahead.cut(0) is None and not ahead.has_rows(0)
    assert ahead.waiting(0)[0] == 700
    gate.until = 10_000
    source.ends = {0: 10}
    ahead.ends[0] = 10
    assert values(cut(ahead)) == [7, 8, 9]


def test_a_partition_at_its_end_is_empty_since_then(made):
    now, source = [100.0], Memory(1)
    ahead = ReadAhead(source, 4, 1000.0, 10, clock=lambda: now[0], gate=Gate())
    made.append(ahead)
    ahead.follow({0: 0})
    assert ahead.waiting(0)[1] == 0
    eventually(lambda: ahead._followed[0].empty_since is not None, 10, "the end")
    now[0] = 107.0
    assert ahead.waiting(0)[1] == 7
    source.away = ConnectionError("no route to host")  # nothing is known of the end then
    eventually(lambda: ahead.waiting(0)[1] == 0, 10, "the end is forgotten")
    source.away = None
    eventually(lambda: ahead._followed[0].empty_since is not None, 10, "the end")
    source.add(0, 2)
    eventually(lambda: ahead.waiting(0)[0] == 200, 10, "the row")
    assert ahead.waiting(0)[1] == 0
