"""Sources of steps: what is taken ahead, and what is given back."""

from __future__ import annotations

import threading

import pytest

from ps_train.training.loop.step_sources import LockstepSource, PausedSource, StepsAhead, StepSource, step_source
from tests.support.clusters.loops import SharedBudget


class Watched(SharedBudget):
    """Says what was taken; waits in threads other than the test's, and fails, if it shall."""

    def __init__(self, max_steps: int) -> None:
        super().__init__(max_steps)
        self.taken: list[int] = []
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.error: Exception | None = None

    def take(self, wanted: int, global_step: int) -> int:
        if threading.current_thread() is not threading.main_thread():
            assert self.may_go_on.wait(20)
        if self.error is not None:
            raise self.error
        self.taken.append(super().take(wanted, global_step))
        return self.taken[-1]

    @property
    def left(self) -> int:
        return self._left

    def is_paused(self) -> bool:
        return False


def source_of(budget: Watched, has_ended=lambda: False) -> StepSource:
    return step_source(1000, budget, has_ended, ahead=True)


def test_the_next_steps_are_taken_while_the_present_ones_are_made() -> None:
    budget = Watched(100)
    source = source_of(budget)
    assert source.take(30, 0) == 30
    assert source.take(30, 0) == 30 and source.take(30, 0) == 30 and source.take(30, 0) == 10
    assert source.take(30, 0) == 0
    assert budget.taken[:2] == [30, 46] and sum(budget.taken) == 100 and budget.left == 0


def test_to_make_steps_need_not_wait_for_the_next_ones() -> None:
    budget = Watched(100)
    source = source_of(budget)
    budget.may_go_on.clear()
    assert source.take(10, 0) == 10
    assert budget.taken == [10]
    budget.may_go_on.set()
    assert source.take(10, 0) == 10


def test_one_thread_takes_all_steps_ahead_and_ends_with_the_source() -> None:
    class Remembering(Watched):
        threads: set[threading.Thread] = set()

        def take(self, wanted: int, global_step: int) -> int:
            self.threads.add(threading.current_thread())
            return super().take(wanted, global_step)

    budget = Remembering(1000)
    source = source_of(budget)
    assert sum(source.take(50, 0) for _ in range(20)) == 1000
    (taker,) = budget.threads - {threading.main_thread()}
    assert taker.is_alive()
    del source
    taker.join(20)
    assert not taker.is_alive()


def test_what_is_held_is_filled_up_or_kept() -> None:
    budget = Watched(100)
    source = source_of(budget)
    assert [source.take(wanted, 0) for wanted in (20, 30, 15, 15, 30)] == [20, 30, 15, 15, 20]


def test_what_was_taken_ahead_is_given_back_at_the_end() -> None:
    budget = Watched(100)
    source = source_of(budget)
    assert source.take(30, 0) == 30
    for _ in range(2):
        source.settle()
        assert budget.left == 70


def test_steps_that_were_not_made_are_given_back_at_once() -> None:
    budget = Watched(100)
    source = source_of(budget)
    source.take(30, 0)
    source.settle()
    source.give_back(12)
    assert budget.left == 82


def test_an_error_comes_with_the_next_steps() -> None:
    budget = Watched(100)
    source = StepsAhead(budget)
    assert source.take(30, 0) == 30
    source.settle()
    budget.error = OSError("lost")
    with pytest.raises(OSError, match="lost"):
        source.take(30, 0)


def test_after_the_end_of_the_training_there_are_no_steps() -> None:
    ended, budget = threading.Event(), Watched(100)
    source = source_of(budget, ended.is_set)
    assert source.take(30, 0) == 30
    ended.set()
    assert source.take(30, 0) == 0, "not even those that were taken ahead"
    source.settle()
    assert budget.left == 70


def test_steps_may_be_taken_only_when_they_are_wanted() -> None:
    budget = Watched(100)
    source = step_source(1000, budget, lambda: False, ahead=False)
    assert [source.take(30, 0), source.take(20, 0)] == [30, 20]
    source.settle()
    assert budget.taken == [30, 20] and budget.left == 50


def test_in_lockstep_nothing_is_taken_ahead() -> None:
    source = step_source(50, None, lambda: False, ahead=True)
    assert [source.take(20, step) for step in (0, 40, 50)] == [20, 10, 0]
    source.settle()


class TestLockstepSource:
    def test_every_replica_makes_every_step(self):
        first, second = LockstepSource(10), LockstepSource(10)
        assert first.take(10, 0) == second.take(10, 0) == 10

    def test_no_more_steps_are_given_than_are_left(self):
        pace = LockstepSource(10)
        assert [pace.take(4, step) for step in (0, 4, 8, 10)] == [4, 4, 2, 0]

    def test_steps_that_made_no_update_do_not_count(self):
        pace = LockstepSource(10)
        assert [pace.take(10, 0), pace.take(10, 7)] == [10, 3]

    def test_a_finished_job_has_no_steps(self):
        assert LockstepSource(10).take(5, 12) == 0


def test_a_paused_source_waits_for_steps_and_can_be_stopped() -> None:
    told: list[bool] = []
    waits = iter([True, True, False])
    source = PausedSource(SharedSource([0, 7]), lambda: next(waits, False), lambda first: not told.append(first))
    assert source.take(9, 0) == 7 and told == [True, False][: len(told)]
    assert PausedSource(SharedSource([0, 7]), lambda: True, lambda first: False).take(9, 0) == 0
    assert PausedSource(SharedSource([0, 7]), lambda: False, lambda first: pytest.fail("no pause")).take(9, 0) == 0


class SharedSource:
    """Gives these numbers of steps, one after the other."""

    def __init__(self, counts: list[int]) -> None:
        self._counts = counts

    def take(self, wanted: int, global_step: int) -> int:
        return self._counts.pop(0)

    def give_back(self, count: int) -> None: ...

    def settle(self) -> None: ...
