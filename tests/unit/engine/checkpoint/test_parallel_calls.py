"""Calls side by side: all of them end before the wait does, and the first error is the caller's."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from ps_train.engine.checkpoint.parallel_calls import run_beside

NO_SESSION: Any = object()
"""A session of no group: the wait is not abandoned."""


def test_actions_run_at_the_same_time_and_all_have_ended_after_the_call() -> None:
    together, ended = threading.Barrier(3), []

    def action(number: int) -> None:
        together.wait(20)  # one after the other would never pass
        ended.append((number, threading.current_thread().name))

    run_beside(NO_SESSION, [lambda number=number: action(number) for number in range(3)])
    assert sorted(ended) == [(number, "save or restore") for number in range(3)]


def test_one_action_alone_runs_in_the_calling_thread() -> None:
    found: list[threading.Thread] = []
    run_beside(NO_SESSION, [lambda: found.append(threading.current_thread())])
    assert found == [threading.current_thread()]


@pytest.mark.parametrize("kind", [OSError, KeyboardInterrupt])
def test_the_first_error_is_raised_after_the_other_actions_have_ended(kind: type[BaseException]) -> None:
    failing: list[threading.Thread] = []
    known, ended = threading.Event(), []

    def fail() -> None:
        failing.append(threading.current_thread())
        known.set()
        raise kind("disk")

    def later() -> None:
        assert known.wait(20)
        failing[0].join(20)
        ended.append(True)
        raise ValueError("the second one")

    with pytest.raises(kind, match="disk"):
        run_beside(NO_SESSION, [later, fail])
    assert ended


def test_the_wait_is_a_call_of_the_session_s_group_which_may_be_abandoned() -> None:
    told: list[str] = []

    class Group:
        def begin_call(self, within_secs: float) -> None:
            told.append("begin")

        def end_call(self) -> None:
            told.append("end")

    class Session:
        group = Group()

    run_beside(Session(), [lambda: told.append("action")] * 2)  # type: ignore[arg-type]
    assert sorted(told) == ["action", "action", "begin", "end"] and told[-1] == "end"
