"""Event times of rows: when what a row tells of has happened, by which checkpoints are cut (--save_event_secs).

event_time(source, 3, row)      # ms since 1970, or None for a row without a usable time, which is counted as malformed
window_end(event_time(source, 3, row), 86_400_000)      # the midnight (UTC) after it
"""

from __future__ import annotations

import time

from ps_train.base.errors import DataError, one_line
from ps_train.data.unbounded.source import Row, UnboundedSource

_MOST_AHEAD_SECS = 3600.0
"""Seconds that an event may be in the future: clocks differ, but a time far ahead would stop its partition."""


def event_time(source: UnboundedSource, partition: int, row: Row) -> float | None:
    """Returns the event time of a row with a value, ms since 1970; None if it has none that can be used.

    Raises:
      DataError: more rows are malformed than --max_bad_lines allows.
    """
    try:
        found = source.event_time(row)
        fault = _fault(found)
    except Exception as error:
        found, fault = 0, f"event_time() raised {type(error).__name__}: {one_line(error)}"
    if not fault:
        return found
    place = (partition, 0, row.offset)
    if message := source.bad_records.add(place, lambda: f"{source.place(partition, row.offset)}: {fault}"):
        raise DataError(message)
    return None


def _fault(found: float) -> str:
    if not isinstance(found, int | float) or isinstance(found, bool):
        return f"its event time is {found!r}, which is not a number of ms since 1970"
    if not found > 0:
        return f"it has no event time ({found:g}), which save_event_secs needs"
    if found > (time.time() + _MOST_AHEAD_SECS) * 1000:
        return f"its event time, {shown_time(found)}, is more than an hour ahead of the clock"
    return ""


def window_end(event_time: float, window_ms: int) -> int:
    """Returns the least multiple of `window_ms` after an event time."""
    return (int(event_time // window_ms) + 1) * window_ms


def shown_time(milliseconds: float) -> str:
    """Returns a time in ms since 1970 as ISO text in UTC, to the second if it is whole."""
    secs, rest = divmod(int(milliseconds), 1000)
    try:
        text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(secs))
    except (OverflowError, ValueError, OSError):
        return f"{milliseconds:g} ms"
    return text + (f".{rest:03}Z" if rest else "Z")
