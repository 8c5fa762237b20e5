"""A test sees the errors of the workers in its background."""

from __future__ import annotations

import threading
import types
from collections.abc import Callable
from typing import Any

import pytest

from ps_train.config.job import Job
from tests.support.clusters import loops
from tests.support.machine.processes import eventually

CLUSTER: Any = types.SimpleNamespace(job=Job(max_steps=10), steps=[types.SimpleNamespace(lockstep=False)] * 2)


def workers_do(monkeypatch: pytest.MonkeyPatch, action: Callable[[int, Callable[[], bool]], None]) -> None:
    monkeypatch.setattr(loops, "run_worker", lambda cluster, index, pace, should_stop: action(index, should_stop))


def test_an_error_of_one_worker_is_the_error_of_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(index: int, should_stop: Callable[[], bool]) -> None:
        if index == 1:
            raise KeyError("of worker 1")

    workers_do(monkeypatch, fail)
    with pytest.raises(KeyError, match="of worker 1"), loops.training(CLUSTER):
        pass


def test_it_is_raised_in_place_of_what_the_test_then_waits_for_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = threading.Event()

    def fail(index: int, should_stop: Callable[[], bool]) -> None:
        try:
            raise KeyError("of a worker")
        finally:
            failed.set()

    workers_do(monkeypatch, fail)
    with pytest.raises(KeyError, match="of a worker"), loops.training(CLUSTER):
        assert failed.wait(10)
        eventually(lambda: False, 0.2, "progress")


def test_a_worker_that_does_not_end_fails_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    workers_do(monkeypatch, lambda index, should_stop: over.wait(30) and None)
    with pytest.raises(AssertionError, match="a worker did not end"), loops.training(CLUSTER, end_secs=0.1):
        pass
    over.set()


def test_workers_that_stop_when_they_are_asked_to_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    workers_do(monkeypatch, lambda index, should_stop: eventually(should_stop, 10, "the request to stop") and None)
    with loops.training(CLUSTER):
        pass
