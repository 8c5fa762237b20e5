"""Malformed records are counted once each, shown sparingly, and refused above the limit."""

from __future__ import annotations

import logging
import pickle

import pytest

from ps_train.base.errors import DataError
from ps_train.data.bad_records import SHOWN, BadRecords


def test_a_record_counts_once() -> None:
    bad = BadRecords("line", limit=2)
    assert bad.add((0, 7), lambda: "a line 7: x") is None
    assert bad.add((0, 7), lambda: "a line 7: x") is None
    assert bad.count == 1 and (0, 7) in bad and (0, 8) not in bad


def test_the_first_above_the_limit_is_an_error_whenever_it_is_read() -> None:
    bad = BadRecords("record", limit=1)
    bad.add(1, lambda: "first")
    for _ in range(2):
        text = bad.add(2, lambda: "a record 2: cut off")
        assert text == (
            "a record 2: cut off. That is malformed record number 2, and max_bad_lines=1: correct the data or raise "
            "max_bad_lines."
        )
    assert bad.count == 1
    assert BadRecords("line", limit=0).add(1, lambda: "x") is not None


def test_a_limit_below_zero_is_refused() -> None:
    with pytest.raises(DataError, match="max_bad_lines=-1 is not valid"):
        BadRecords("line", limit=-1)


def test_the_first_are_shown_and_then_only_powers_of_ten(caplog: pytest.LogCaptureFixture) -> None:
    bad, described = BadRecords("line", limit=1000), list[int]()

    def describe(number: int) -> str:
        described.append(number)
        return f"line {number}"

    with caplog.at_level(logging.WARNING):
        for number in range(1, 151):
            bad.add(number, lambda number=number: describe(number))
    assert described == [*range(1, SHOWN + 1), 10, 100]
    assert caplog.messages[0] == "line 1; the line is skipped"
    assert caplog.messages[-1] == "100 malformed lines are skipped so far, the last: line 100"


def test_a_pickled_counter_begins_at_zero_with_the_same_limit():
    bad = BadRecords("line", limit=1)
    assert bad.add((0, 1), lambda: "line 1") is None
    there = pickle.loads(pickle.dumps(bad))
    assert (there.count, there.limit, (0, 1) in there) == (0, 1, False)
    assert there.add((0, 1), lambda: "line 1") is None
    assert "malformed line number 2" in there.add((0, 2), lambda: "line 2")
