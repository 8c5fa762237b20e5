"""What the duties of a session are told."""

from __future__ import annotations

import pytest

from ps_train.training.duties.duty import Duty, End
from ps_train.training.tasks.attempt import told


class Recorded(Duty):
    def __init__(self, name: str, calls: list[str], error: Exception | None = None) -> None:
        self._name, self._calls, self._error = name, calls, error

    def ended(self, end: End) -> None:
        self._calls.append(f"{self._name} {end.state}")
        if self._error is not None:
            raise self._error


def test_a_duty_that_fails_keeps_no_other_from_being_told() -> None:
    calls: list[str] = []
    duties = [Recorded("a", calls), Recorded("b", calls, OSError("full")), Recorded("c", calls)]
    with pytest.raises(OSError, match="full"):
        told(lambda duty: duty.ended(End("done")), duties)
    assert calls == ["a done", "b done", "c done"]
