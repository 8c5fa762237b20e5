"""An open gate lets every row pass, in any state of the partitions."""

from __future__ import annotations

from ps_train.data.unbounded.row_gate import NO_STAMP, OPEN
from ps_train.data.unbounded.source import Row


def test_nothing_waits_at_an_open_gate() -> None:
    assert OPEN.stamp(3, Row(b"x", 7)) == NO_STAMP
    assert not any(OPEN.is_shut(stamp) for stamp in (NO_STAMP, 0.0, 1e18))
    OPEN.passed(3, 7, [NO_STAMP])
    OPEN.exchanged(None, None)
    assert not OPEN.holds(3) and OPEN.measured() == {} and not OPEN.asks_for_ends
