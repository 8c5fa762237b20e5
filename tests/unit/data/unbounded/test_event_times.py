"""Event times of rows, and the windows that they fall into."""

from __future__ import annotations

import time
from typing import Any

import pytest

from ps_train.base.errors import DataError
from ps_train.data.bad_records import BadRecords
from ps_train.data.unbounded.event_times import event_time, shown_time, window_end
from ps_train.data.unbounded.source import Row

HOUR_MS = 3_600_000


class Source:
    """A source whose event time is given."""

    def __init__(self, found: Any, limit: int = 10) -> None:
        self._found, self.bad_records = found, BadRecords("row", limit)

    def event_time(self, row: Row) -> Any:
        if isinstance(self._found, Exception):
            raise self._found
        return self._found

    def place(self, partition: int, offset: int) -> str:
        return f"partition {partition} at offset {offset}"


def time_of(source: Any) -> float | None:
    return event_time(source, 3, Row(b"x", 7))


def test_a_usable_time_is_given_back() -> None:
    source = Source(1_700_000_000_000.5)
    assert time_of(source) == 1_700_000_000_000.5 and source.bad_records.count == 0


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        ("12", "its event time is '12', which is not a number of ms since 1970"),
        (True, "its event time is True, which is not a number"),
        (0, "it has no event time (0), which save_event_secs needs"),
        (-5, "it has no event time (-5)"),
        (float("nan"), "it has no event time (nan)"),
        (KeyError("time"), "event_time() raised KeyError: 'time'"),
    ],
)
def test_a_row_without_a_usable_time_counts_as_malformed(found: Any, fault: str) -> None:
    source = Source(found, limit=1)
    assert time_of(source) is None and source.bad_records.count == 1
    with pytest.raises(DataError) as caught:
        time_of(Source(found, limit=0))
    assert f"partition 3 at offset 7: {fault}" in str(caught.value)


def test_a_time_may_be_ahead_of_the_clock_by_an_hour() -> None:
    now = time.time() * 1000
    assert time_of(Source(now + HOUR_MS - 60_000)) is not None
    assert time_of(Source(now + HOUR_MS + 60_000)) is None


def test_the_end_of_a_window_is_after_the_event() -> None:
    assert [window_end(time, 100) for time in (0, 1, 99.9, 100, 101)] == [100, 100, 100, 200, 200]
    day = 86_400_000
    assert window_end(1_700_000_000_000, day) == 1_700_006_400_000 and 1_700_006_400_000 % day == 0


def test_times_are_shown_to_the_second_if_whole() -> None:
    assert shown_time(1_700_000_000_000) == "2023-11-14T22:13:20Z"
    assert shown_time(1_700_000_000_007) == "2023-11-14T22:13:20.007Z"
    assert shown_time(1e30) == "1e+30 ms"
