"""A call that has not begun on all its tasks is distinguished from one that takes long."""

from __future__ import annotations

import dataclasses

from ps_train.cluster.sessions.abandonable import StuckCallDetector
from ps_train.cluster.sessions.calls import preparation_secs_of


@dataclasses.dataclass
class Calls:
    """A loop, and how many of its calls have begun."""

    calls: int = 0
    is_prepared: bool = False
    begun: int = 70
    asked: int = 0

    def ask(self) -> int:
        self.asked += 1
        return self.begun


def watch_of(calls: Calls) -> StuckCallDetector:
    watch = StuckCallDetector(calls.ask, max_secs=100, preparation_secs=10)
    watch.begin(calls)
    return watch


def test_a_call_that_has_not_begun_is_stuck_after_the_patience_and_said_so_once() -> None:
    calls = Calls()
    watch = watch_of(calls)
    for _ in range(3):
        calls.calls, calls.begun = calls.calls + 1, calls.begun + 1
        assert not watch.is_stuck(100)
    calls.calls += 1
    assert [watch.is_stuck(now) for now in (101, 105, 110, 112, 113, 130)] == [False, False, False, True, False, False]
    watch.begin(calls)
    assert not watch.is_stuck(200)


def test_a_step_that_takes_long_is_not_stuck_and_no_task_is_asked_while_calls_end() -> None:
    calls = Calls()
    watch = watch_of(calls)
    for now in range(1000):
        calls.calls, calls.begun = calls.calls + 1, calls.begun + 1
        assert not watch.is_stuck(now)
    assert calls.asked == 1
    assert not any(watch.is_stuck(now) for now in range(1000, 2000))
    assert calls.asked < 110


def test_the_patience_doubles_as_the_network_may_be_slow() -> None:
    calls = Calls()
    watch = watch_of(calls)
    found = []
    for begin in (0, 1000):
        calls.calls = 0
        watch.begin(calls)
        watch.is_stuck(begin)
        calls.calls = 1
        found.append(next(now for now in range(begin, begin + 100) if watch.is_stuck(now)) - begin)
    assert found == [10, 20]


def test_a_call_whose_graph_is_prepared_begins_sooner_and_a_session_that_works_makes_the_patience_what_it_was() -> None:
    calls = Calls()
    watch = StuckCallDetector(calls.ask, max_secs=100, preparation_secs=30)
    found = []
    for begin, count in ((0, 3), (1000, 3), (2000, 30), (3000, 3)):
        calls.calls, calls.is_prepared = 0, True
        watch.begin(calls)
        for _ in range(count):
            calls.calls, calls.begun = calls.calls + 1, calls.begun + 1
            assert not watch.is_stuck(begin)
        calls.calls += 1
        watch.is_stuck(begin)
        found.append(next(now for now in range(begin, begin + 100) if watch.is_stuck(now)) - begin)
    assert found == [5, 10, 5, 10]


def test_before_there_is_a_call_nothing_is_stuck() -> None:
    watch = StuckCallDetector(lambda: 0, 10, 10)
    assert not any(watch.is_stuck(now) for now in range(100))


def test_a_call_that_is_prepared_for_minutes_is_not_stuck() -> None:
    calls = Calls()
    watch = StuckCallDetector(calls.ask, max_secs=100, preparation_secs=preparation_secs_of(build_secs=60.0))
    watch.begin(calls)
    watch.is_stuck(0)
    calls.calls = 1
    assert not any(watch.is_stuck(now) for now in range(1, 600))
    assert any(watch.is_stuck(now) for now in range(600, 620))
