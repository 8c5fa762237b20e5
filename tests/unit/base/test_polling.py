"""Polling with a deadline, and the attempts that are repeated with it; by a clock that only a pause moves."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable

import pytest

from ps_train.base import polling
from ps_train.base.errors import RefusedError, UnreachableError
from ps_train.base.polling import poll_until, told_while_running
from ps_train.cluster.membership import connect
from ps_train.cluster.membership.connect import NotReadyError, retry_until
from tests.support.machine.processes import eventually


class Clock:
    """Stands in for the module `time`."""

    def __init__(self) -> None:
        self.now = 100.0
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, secs: float) -> None:
        self.pauses.append(secs)
        self.now += secs


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(polling, "time", clock)
    monkeypatch.setattr(connect, "time", clock)
    return clock


def from_call(number: int) -> Callable[[], bool]:
    """A condition that holds from its call of that number on."""
    calls = iter(range(1, 10**6))
    return lambda: next(calls) >= number


def test_a_condition_that_holds_is_not_waited_for(clock: Clock) -> None:
    assert poll_until(from_call(1), 102.0, 0.5)
    assert clock.pauses == []


def test_between_two_calls_there_is_one_pause(clock: Clock) -> None:
    assert poll_until(from_call(3), 102.0, 0.5)
    assert clock.pauses == [0.5, 0.5]


def test_at_the_deadline_the_last_call_decides(clock: Clock) -> None:
    assert poll_until(from_call(5), 102.0, 0.5)
    assert clock.now == 102.0
    assert not poll_until(from_call(2), 102.0, 0.5), "it would hold after another pause"
    assert clock.now == 102.0


def test_a_deadline_that_has_passed_leaves_one_call(clock: Clock) -> None:
    assert poll_until(from_call(1), 50.0, 0.5)
    assert not poll_until(from_call(2), 50.0, 0.5)
    assert clock.pauses == []


def test_without_a_deadline_it_goes_on(clock: Clock) -> None:
    assert poll_until(from_call(100_000), math.inf, 0.5)


def test_an_error_of_the_condition_ends_it(clock: Clock) -> None:
    with pytest.raises(ZeroDivisionError):
        poll_until(lambda: bool(1 // 0), math.inf, 0.5)
    assert clock.pauses == []


def attempt_that_works_at(clock: Clock, time: float) -> Callable[[], str]:
    def attempt() -> str:
        if clock.now < time:
            raise NotReadyError(f"it is {clock.now:.1f}")
        return "found"

    return attempt


def test_an_attempt_is_repeated_until_it_works(clock: Clock) -> None:
    assert retry_until(attempt_that_works_at(clock, 101.0), 5.0, "the tide") == "found"
    assert len(clock.pauses) == pytest.approx(20, abs=1) and set(clock.pauses) == {0.05}


def test_an_attempt_may_return_nothing(clock: Clock) -> None:
    assert retry_until(lambda: None, 5.0, "the tide") is None
    assert clock.pauses == []


def test_an_attempt_that_never_works_is_given_up_with_the_last_reason(clock: Clock) -> None:
    with pytest.raises(UnreachableError, match=r"^gave up after 5s waiting for the tide: it is 105\.[01]$"):
        retry_until(attempt_that_works_at(clock, math.inf), 5.0, "the tide")
    assert clock.now == pytest.approx(105.0, abs=0.06)


def test_an_attempt_that_fails_otherwise_is_not_repeated(clock: Clock) -> None:
    def refuse() -> None:
        raise RefusedError("another job")

    with pytest.raises(RefusedError, match="another job"):
        retry_until(refuse, 5.0, "the tide")
    assert clock.pauses == []


@pytest.mark.parametrize(("timeout_secs", "logged"), [(10.0, []), (25.0, ["10s", "20s"])])
def test_a_long_wait_is_logged_every_ten_seconds_but_not_when_it_is_given_up(
    clock: Clock, caplog: pytest.LogCaptureFixture, timeout_secs: float, logged: list[str]
) -> None:
    with caplog.at_level(logging.WARNING), pytest.raises(UnreachableError):
        retry_until(attempt_that_works_at(clock, math.inf), timeout_secs, "the tide")
    shown = [record.getMessage().partition(":")[0] for record in caplog.records]
    assert shown == [f"waiting for the tide ({secs})" for secs in logged]


def test_a_call_that_takes_long_is_told_until_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    def tellers() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name == "told_while_running"]

    with caplog.at_level(logging.INFO, "ps_train"):
        logging.getLogger("ps_train").propagate = True
        with told_while_running("data()", every_secs=0.01):
            eventually(lambda: caplog.messages[:2] == ["data() has been running for 0s"] * 2, 10, "two lines")
        eventually(lambda: not tellers(), 10, "the end of the thread")
