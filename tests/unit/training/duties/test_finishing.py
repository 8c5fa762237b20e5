"""When the chief ends a job: no other task trains, and none can; or it has waited long enough."""

from __future__ import annotations

import types
from typing import Any

import pytest

from ps_train.cluster.membership.liveness import PeerStates
from ps_train.config.job import Job
from ps_train.training.duties import finishing
from ps_train.training.duties.finishing import Finishing

TRAINS, WAITS, NONE = PeerStates(("worker:1",), ()), PeerStates((), ("worker:1",)), PeerStates((), ())


class Chief:
    """A chief without steps of its own; the test says what it sees at each look."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
        self.now, self.reclaimed = 100.0, 0
        monkeypatch.setattr(finishing.time, "monotonic", lambda: self.now)
        job = Job(max_steps=1000, finish_timeout_secs=30.0)
        setting: Any = types.SimpleNamespace(
            prepared=types.SimpleNamespace(job=job), step=types.SimpleNamespace(lockstep=fields.get("lockstep", False))
        )
        self.members = types.SimpleNamespace(others=NONE)
        self.progressing = types.SimpleNamespace(step=0, waiting=lambda session: None)
        self.feed = types.SimpleNamespace(
            waits_for_rows=fields.get("waits_for_rows", False), is_exhausted=lambda others: self.is_exhausted
        )
        self.is_exhausted = False
        self.hooks = types.SimpleNamespace(have_ended=False)
        joined = types.SimpleNamespace(membership=types.SimpleNamespace(is_silent=lambda status: False))
        parts: Any = (joined, self.members, self.progressing, None, self.feed, self.hooks)
        self.duty = Finishing(setting, *parts, duties=[], last=[])
        self.duty._start = types.SimpleNamespace(ledger=types.SimpleNamespace(reclaim=self._reclaim))  # type: ignore[assignment]
        self.duty.paused(None)  # type: ignore[arg-type]

    def _reclaim(self, read: Any, is_silent: Any) -> None:
        self.reclaimed += 1

    def is_over(self, others: PeerStates = NONE, step: int = 10, after_secs: float = 0.1) -> bool:
        self.now += after_secs
        self.members.others, self.progressing.step = others, step
        return self.duty.is_over(None)  # type: ignore[arg-type]


def test_it_waits_for_those_who_train_and_for_those_who_can(monkeypatch: pytest.MonkeyPatch) -> None:
    chief = Chief(monkeypatch)
    assert not chief.is_over(TRAINS, 1000)
    assert not chief.is_over(WAITS, 500), "steps are left, and not all input is used"
    chief.is_exhausted = True
    assert not chief.is_over(TRAINS, 600)
    assert chief.is_over(WAITS, 700)


@pytest.mark.parametrize("end", ["steps", "hook"])
def test_the_last_step_and_a_hook_end_it_although_input_is_left(monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    chief = Chief(monkeypatch)
    chief.hooks.have_ended = end == "hook"
    assert chief.is_over(WAITS, 1000 if end == "steps" else 10)


def test_a_worker_that_makes_no_step_is_given_up_by_its_name(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    chief = Chief(monkeypatch)
    for step in (10, 11, 12):  # each step begins the wait anew
        assert not chief.is_over(TRAINS, step, after_secs=29.0)
    assert not chief.is_over(TRAINS, 12, after_secs=29.0)
    assert chief.is_over(TRAINS, 12, after_secs=2.0)
    assert chief.duty._gave_up == "given up waiting for worker:1"
    assert "no longer waiting for worker:1 (finish_timeout_secs)" in caplog.text


def test_data_without_an_end_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    chief = Chief(monkeypatch, waits_for_rows=True)
    assert not any(chief.is_over(WAITS, 10, after_secs=60.0) for _ in range(5))


@pytest.mark.parametrize(("lockstep", "step", "count"), [(False, 10, 1), (False, 1000, 0), (True, 10, 0)])
def test_the_steps_of_dead_workers_are_given_to_others(
    monkeypatch: pytest.MonkeyPatch, lockstep: bool, step: int, count: int
) -> None:
    chief = Chief(monkeypatch, lockstep=lockstep)
    chief.is_over(TRAINS, step)
    assert chief.reclaimed == count
