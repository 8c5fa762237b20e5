"""One training in one session after the other, and what its duties are told."""

from __future__ import annotations

import sys
import threading
import time
import types
from typing import Any

import pytest

from ps_train.base.console import Console
from ps_train.cluster.membership.records import TaskState
from ps_train.training.duties.duty import Duty, End
from ps_train.training.tasks.attempt import told
from ps_train.training.tasks.training import Training


def training_of(**fields: object) -> Training:
    """A training that knows no more of its task and job than these tests need."""
    prepared: Any = types.SimpleNamespace(task="worker:0")
    return Training(prepared, types.SimpleNamespace(**fields), Console(sys.stdout), None, None)  # type: ignore[arg-type]


def test_a_worker_that_loses_ps_0_again_while_it_waits_for_the_ps_waits_on() -> None:
    found: list[TaskState] = []

    def tell_state(state: TaskState) -> bool:
        found.append(state)
        return len(found) != 2  # all ps had answered

    liveness = types.SimpleNamespace(all_answered_since=lambda since: since <= time.monotonic())
    heartbeat = types.SimpleNamespace(tell_state=tell_state, probe_ps=lambda: None, ps_liveness=liveness)
    training_of(heartbeat=heartbeat, events=types.SimpleNamespace(stop=threading.Event()))._wait_for_ps()
    assert found == [TaskState.RECOVERING] * 3


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
