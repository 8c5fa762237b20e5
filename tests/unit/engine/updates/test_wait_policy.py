"""The choice of a lead or of backup workers, without processes: profiles say what a limit costs and brings."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ps_train.engine.updates.wait_policy import WaitPolicy

UPPER = 8
Profile = Callable[[int, int], tuple[float, float]]
"""Waiting and examples per second, of a limit and the number of the measurement."""


def even(limit: int, time: int) -> tuple[float, float]:
    return 0.01, 1000.0


def always_slow(limit: int, time: int) -> tuple[float, float]:
    """One worker is half as fast: any lead is used up, and the others wait for it."""
    return 0.4, 500.0


def now_and_then(limit: int, time: int) -> tuple[float, float]:
    """Each worker is held up at times: a lead hides what is shorter than it."""
    waiting = 0.4 / (1 + limit)
    return waiting, 1000.0 * (1 - waiting)


def degrades(limit: int, time: int) -> tuple[float, float]:
    return even(limit, time) if time < 100 else now_and_then(limit, time)


def recovers(limit: int, time: int) -> tuple[float, float]:
    return now_and_then(limit, time) if time < 100 else even(limit, time)


def limits_of(profile: Profile, times: int = 300, start: int = 0, upper: int = UPPER) -> list[int]:
    policy, limit, chosen = WaitPolicy(0, upper), start, []
    for time in range(times):
        chosen.append(limit)
        limit = policy.next_limit(limit, *profile(limit, time))
    return chosen


def rate(profile: Profile, limits: list[int]) -> float:
    return sum(profile(limit, time)[1] for time, limit in enumerate(limits)) / len(limits)


def test_a_job_of_even_workers_keeps_the_smallest_limit() -> None:
    assert set(limits_of(even)) == {0}


def test_the_limit_grows_until_waiting_is_short() -> None:
    assert limits_of(now_and_then, 12) == [0, 1, 2, 3, 4, 5, 6, 7, 7, 7, 7, 7]


def test_a_worker_that_is_always_slow_is_tried_ever_more_rarely() -> None:
    chosen = limits_of(always_slow)
    assert chosen[:4] == [0, 1, 0, 0]
    assert sum(chosen[:100]) > sum(chosen[100:200]) >= sum(chosen[200:]) > 0
    assert max(chosen) == 1


def test_the_limit_shrinks_when_nobody_waits_any_more_and_stays_small() -> None:
    chosen = limits_of(recovers)
    assert chosen[99] == 7 and chosen[160:] == [0] * 140


def test_a_limit_that_is_too_small_is_not_tried_again_and_again() -> None:
    def waits_at_0(limit: int, time: int) -> tuple[float, float]:
        return (0.3, 700.0) if limit == 0 else (0.0, 1000.0)

    chosen = limits_of(waits_at_0)
    assert chosen[:2] == [0, 1]
    assert chosen[1:].count(0) <= 8


@pytest.mark.parametrize("profile", [even, always_slow, now_and_then, degrades, recovers])
def test_it_is_never_slower_than_the_best_fixed_limit_by_more_than_5_percent(profile: Profile) -> None:
    fixed = [rate(profile, [limit] * 300) for limit in range(UPPER + 1)]
    assert rate(profile, limits_of(profile)) >= 0.95 * max(fixed)


def test_the_bounds_are_kept() -> None:
    assert max(limits_of(now_and_then, upper=2)) == 2
    assert WaitPolicy(3, 5).next_limit(3, 0.0, 10.0) == 3
