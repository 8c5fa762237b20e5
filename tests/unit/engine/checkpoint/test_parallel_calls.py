"""Actions beside each other: all end, and the first error is raised."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from ps_train.engine.checkpoint.parallel_calls import run_beside

SESSION: Any = object()


def test_actions_run_at_the_same_time() -> None:
    meeting = threading.Barrier(3, timeout=10)
    run_beside(SESSION, [meeting.wait] * 3)  # a sequence would wait for ever
    assert meeting.n_waiting == 0 and not meeting.broken


def test_one_alone_runs_in_the_calling_thread() -> None:
    threads: list[threading.Thread] = []
    run_beside(SESSION, [lambda: threads.append(threading.current_thread())])
    assert threads == [threading.current_thread()]


def test_an_error_is_raised_when_all_have_ended() -> None:
    ended: list[int] = []
    failed = threading.Event()

    def fails() -> None:
        failed.set()
        raise KeyError("first")

    def later() -> None:
        assert failed.wait(10)
        ended.append(1)

    with pytest.raises(KeyError, match="first"):
        run_beside(SESSION, [fails, later])
    assert ended == [1]
