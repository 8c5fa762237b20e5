"""Calls that hang are given up with their session, and their late results are not used."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from ps_train.cluster.sessions import abandonable as attempts
from ps_train.cluster.sessions.abandonable import run_abandonable, run_within
from ps_train.cluster.sessions.calls import LostConnectionError, SessionGroup
from tests.support.clusters.waiting import Waiting
from tests.support.machine.processes import eventually


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "GRACE_SECS", 0.2)


def test_a_call_that_hangs_is_left_behind_when_the_attempt_has_ended_and_its_result_is_not_used() -> None:
    waiting = Waiting()
    with pytest.raises(LostConnectionError, match="a call hangs"):
        run_abandonable(waiting.wait, waiting.group, lambda: True)
    assert not waiting.group.is_idle()
    waiting.end()
    eventually(waiting.group.is_idle, 10, "the end of the call")
    assert waiting.learned == []


def test_a_call_may_take_as_long_as_it_likes_while_the_attempt_goes_on() -> None:
    waiting = Waiting()
    later = threading.Timer(1.0, waiting.end)
    later.start()
    run_abandonable(waiting.wait, waiting.group, lambda: False)
    later.join()
    assert waiting.learned == [True]


def test_calls_that_end_by_themselves_are_not_given_up() -> None:
    waiting, enough = Waiting(), time.monotonic() + 1.0

    def work() -> None:
        while time.monotonic() < enough:
            waiting.pass_by()
        waiting.learned.append(True)

    run_abandonable(work, waiting.group, lambda: True)
    assert waiting.learned == [True]


def test_what_an_attempt_raises_is_raised_where_it_is_waited_for() -> None:
    def fails() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run_abandonable(fails, SessionGroup(), lambda: False)


@pytest.mark.parametrize("is_hopeless", [lambda: False, lambda: True])
def test_work_with_a_deadline_is_left_behind_there_or_when_it_is_hopeless(is_hopeless: Callable[[], bool]) -> None:
    waiting, began = Waiting(), time.monotonic()
    with pytest.raises(TimeoutError):
        run_within(waiting.wait, 5.0 if is_hopeless() else 0.3, is_hopeless)
    assert time.monotonic() - began < 3
    waiting.end()
