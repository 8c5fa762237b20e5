"""One training in one session after the other, and what its duties are told."""

from __future__ import annotations

import sys
import threading
import time
import types
from typing import Any

from ps_train.base.console import Console
from ps_train.cluster.membership.records import TaskState
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
