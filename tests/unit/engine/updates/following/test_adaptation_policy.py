"""The choice of values that follow measurements, without processes: profiles say what a value costs and brings."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence

import pytest

from ps_train.engine.updates.following.adaptation_policy import (
    BYTES,
    PUSHING,
    STRAGGLERS,
    SYNCHRONISATION,
    WAITING,
    Adaptation,
    Change,
    Ladder,
    Measured,
    synchronisation,
)

SIZES, LEADS, CODECS = (64, 128, 256, 512), range(9), range(3)
Profile = Callable[[int, int], tuple[float, float]]
"""Share of time and examples per second, of a value and the number of the measurement."""


def network(latency: float, each: float = 1e-4, most: float = 1e9) -> Profile:
    """Steps that take `latency` seconds, and `each` seconds an example; the examples per second never pass `most`."""

    def measure(size: int, time: int) -> tuple[float, float]:
        secs = max(latency + size * each, size / most)
        return (secs - size * each) / secs, size / secs

    return measure


def even(limit: int, time: int) -> tuple[float, float]:
    return 0.01, 1000.0


def always_slow(limit: int, time: int) -> tuple[float, float]:
    """One worker is half as fast: any lead is used up, and the others wait for it."""
    return 0.4, 500.0


def now_and_then(limit: int, time: int) -> tuple[float, float]:
    """Each worker is held up at times: a lead hides what is shorter than it."""
    waiting = 0.39 / (1 + limit)
    return waiting, 1000.0 * (1 - waiting)


def two_are_slow(limit: int, time: int) -> tuple[float, float]:
    """Two workers are slow: one backup worker alone does not help."""
    return (0.4, 600.0) if limit < 2 else (0.01, 990.0)


def degrades(limit: int, time: int) -> tuple[float, float]:
    return even(limit, time) if time < 100 else now_and_then(limit, time)


def recovers(limit: int, time: int) -> tuple[float, float]:
    return now_and_then(limit, time) if time < 100 else even(limit, time)


def pushing(bandwidth: Callable[[int], float], cpu: float = 0.05) -> Profile:
    """Pushes of 4, 2 and 1 units of bytes; each codec costs `cpu` of a second of computing."""

    def measure(codec: int, time: int) -> tuple[float, float]:
        push, work = (4, 2, 1)[codec] / bandwidth(time), 1.0 + cpu * codec
        return push / (push + work), 1000.0 / (push + work)

    return measure


FAST, SLOW = pushing(lambda time: 200.0), pushing(lambda time: 2.0)
DEGRADING = pushing(lambda time: 200.0 if time < 100 else 2.0)
LADDERS = {
    SYNCHRONISATION: Ladder(SIZES, synchronisation(0.2)),
    WAITING: Ladder(LEADS, STRAGGLERS),
    PUSHING: Ladder(CODECS, BYTES),
}


def chosen_by(cost: str, profile: Profile, times: int = 300, start: int | None = None) -> list[int]:
    """Returns the value of each measurement."""
    ladder = LADDERS[cost]
    policy, value, chosen = Adaptation({"value": ladder}), ladder.values[0] if start is None else start, []
    for time in range(times):
        chosen.append(value)
        share, rate = profile(value, time)
        change = policy.next_change({"value": value}, Measured(rate, {cost: share}))
        value = value if change is None else change.value
        assert value in ladder.values
    return chosen


def rate(profile: Profile, chosen: Sequence[int]) -> float:
    return sum(profile(value, time)[1] for time, value in enumerate(chosen)) / len(chosen)


@pytest.mark.parametrize(
    ("cost", "profile"),
    [(WAITING, profile) for profile in (even, always_slow, now_and_then, two_are_slow, degrades, recovers)]
    + [(PUSHING, profile) for profile in (FAST, SLOW, DEGRADING, pushing(lambda time: 200.0, cpu=0.5))]
    + [(SYNCHRONISATION, network(latency)) for latency in (0.0005, 0.005, 0.01)],
)
def test_it_is_never_slower_than_the_best_fixed_value_by_more_than_5_percent(cost: str, profile: Profile) -> None:
    chosen = chosen_by(cost, profile)
    allowed = [value for value in LADDERS[cost].values if cost != SYNCHRONISATION or value <= max(chosen)]
    assert rate(profile, chosen) >= 0.95 * max(rate(profile, [value] * 300) for value in allowed)


@pytest.mark.parametrize("noise", [0.03, 0.06])
def test_chance_does_not_decide(noise: float) -> None:
    def measured(codec: int, rates: Sequence[float], chance: random.Random) -> Measured:
        return Measured(rates[codec] * (1 + chance.gauss(0, noise)), {PUSHING: (0.2, 0.13, 0.11)[codec]})

    for rates in ((1000.0, 1100.0, 1200.0), (1000.0, 950.0, 900.0)):
        kept = []
        for seed in range(40):
            chance, policy, value = random.Random(seed), Adaptation({"value": LADDERS[PUSHING]}), 0
            for _ in range(100):
                change = policy.next_change({"value": value}, measured(value, rates, chance))
                value = value if change is None else change.value
                kept.append(rates[value])
        assert sum(kept) / len(kept) >= 0.97 * max(rates)


def test_a_trial_whose_result_could_be_chance_goes_on() -> None:
    policy = Adaptation({"value": LADDERS[PUSHING]})

    def change(codec: int, rate: float) -> Change | None:
        return policy.next_change({"value": codec}, Measured(rate, {PUSHING: 0.5}))

    assert change(0, 1000.0) is not None
    assert [change(1, rate) for rate in (1030.0, 1010.0, 1020.0)] == [None] * 3
    back = change(1, 1000.0)
    assert back is not None and back.value == 0, "15 more examples a second are no gain"


def test_batches_grow_until_the_share_of_synchronisation_is_below_the_limit() -> None:
    # 10 ms of synchronisation: 61 % of a step of 64, 44 % of one of 128, 28 % of one of 256, 16 % of one of 512.
    assert chosen_by(SYNCHRONISATION, network(0.010), 6) == [64, 128, 256, 512, 512, 512]
    # 5 ms: 44 %, 28 %, 16 % of one of 256, which is enough.
    assert chosen_by(SYNCHRONISATION, network(0.005), 6) == [64, 128, 256, 256, 256, 256]
    assert chosen_by(SYNCHRONISATION, network(0.0005), 50) == [64] * 50


def test_a_growth_that_brings_no_more_examples_a_second_is_taken_back_and_tried_ever_more_rarely() -> None:
    # A batch of 128 makes 5,600 examples a second, one of 256 makes 7,200, then the ps is full.
    assert chosen_by(SYNCHRONISATION, network(0.010, most=7300), 5) == [64, 128, 256, 512, 256]
    chosen = chosen_by(SYNCHRONISATION, network(0.010, most=1000), 200)
    larger = [number for number, size in enumerate(chosen) if size > 64]
    assert 1 < len(larger) <= 7, "each try waits twice as long as the one before"
    gaps = [after - before for before, after in itertools.pairwise(larger)]
    assert gaps == sorted(gaps)


def test_batches_shrink_when_the_network_has_become_fast_and_stay_where_the_limit_is_near() -> None:
    chosen = chosen_by(SYNCHRONISATION, network(0.0001), 60, start=512)
    assert chosen[:4] == [512, 512, 512, 256], "one measurement alone is not enough"
    assert chosen[-1] == 64
    # 12 % at 512 would be 21 % at 256.
    assert chosen_by(SYNCHRONISATION, network(0.007), 50, start=512) == [512] * 50


def test_a_job_of_even_workers_keeps_the_smallest_limit() -> None:
    assert set(chosen_by(WAITING, even)) == {0}


def test_the_limit_grows_until_waiting_is_short_and_shrinks_when_nobody_waits_any_more() -> None:
    assert chosen_by(WAITING, now_and_then, 10) == [0, 1, 2, 3, 4, 5, 6, 7, 7, 7]
    chosen = chosen_by(WAITING, recovers)
    assert chosen[99] == 7 and chosen[200:] == [0] * 100


def test_a_worker_that_is_always_slow_is_tried_ever_more_rarely() -> None:
    chosen = chosen_by(WAITING, always_slow)
    tried = [number for number, lead in enumerate(chosen) if lead]
    assert chosen[:4] == [0, 1, 0, 0] and len(tried) <= 8


def test_a_useless_value_is_followed_by_a_larger_one() -> None:
    chosen = chosen_by(WAITING, two_are_slow, 40)
    assert chosen[1] == 1 and chosen[-1] == 2


def test_a_limit_that_is_too_small_is_not_tried_again_and_again() -> None:
    def waits_at_0(limit: int, time: int) -> tuple[float, float]:
        return (0.3, 700.0) if limit == 0 else (0.0, 1000.0)

    chosen = chosen_by(WAITING, waits_at_0)
    assert chosen[:2] == [0, 1]
    assert chosen[1:].count(0) <= 8


def test_a_codec_is_used_while_it_brings_speed() -> None:
    assert set(chosen_by(PUSHING, FAST)) == {0}
    assert chosen_by(PUSHING, SLOW, 6) == [0, 1, 2, 2, 2, 2]
    chosen = chosen_by(PUSHING, DEGRADING)
    assert set(chosen[:101]) == {0} and chosen[103] == 2
    recovering = chosen_by(PUSHING, pushing(lambda time: 2.0 if time < 50 else 200.0))
    assert recovering[49] == 2 and recovering[-1] == 0


def test_a_codec_that_only_seemed_to_help_is_given_up() -> None:
    def warming_up(codec: int, time: int) -> tuple[float, float]:
        return 0.3, 500.0 + 100 * min(time, 5) - 80 * codec

    chosen = chosen_by(PUSHING, warming_up, 60)
    assert max(chosen) > 0 and chosen[-1] == 0


def test_a_backup_worker_that_was_tried_while_a_worker_came_back_is_given_up() -> None:
    def comes_back(count: int, time: int) -> tuple[float, float]:
        if time == 0:
            return 0.92, 100.0
        return (0.08, 1000.0) if count == 0 else (0.07, 650.0)

    chosen = chosen_by(WAITING, comes_back, 60)
    assert chosen[1] == 1 and chosen[-1] == 0


def test_only_one_value_is_on_trial_at_a_time() -> None:
    policy = Adaptation({"batch_size": LADDERS[SYNCHRONISATION], "push_codec": LADDERS[PUSHING]})
    values = {"batch_size": 64, "push_codec": 0}
    shares = {SYNCHRONISATION: 0.7, PUSHING: 0.4}
    found = policy.next_change(values, Measured(1000.0, shares))
    assert found == Change("batch_size", 128, "synchronisation took 70% of a step at 1000 examples/s")
    # No gain: the size goes back, and then the codec has its turn.
    back = policy.next_change({**values, "batch_size": 128}, Measured(1000.0, shares))
    assert back == Change("batch_size", 64, "synchronisation took 70% of a step at 1000 examples/s, no gain over 1000")
    other = policy.next_change(values, Measured(1000.0, shares))
    assert other == Change("push_codec", 1, "pushes took 40% of a step at 1000 examples/s")


def test_a_value_that_another_process_chose_is_no_trial() -> None:
    policy = Adaptation({"value": LADDERS[SYNCHRONISATION]})
    assert policy.next_change({"value": 64}, Measured(1000.0, {SYNCHRONISATION: 0.9})).value == 128  # type: ignore[union-attr]
    # ps 0 was restored, and the size with it.
    assert policy.next_change({"value": 64}, Measured(500.0, {SYNCHRONISATION: 0.9})).value == 128  # type: ignore[union-attr]


def test_an_old_trial_says_nothing_about_a_job_that_has_changed() -> None:
    def other_later(lead: int, time: int) -> tuple[float, float]:
        waiting, rate = now_and_then(lead, time)
        return always_slow(lead, time) if time < 200 else (waiting, 2 * rate)

    chosen = chosen_by(WAITING, other_later)
    assert chosen[215] > 0, "a pause of 64 measurements ends when the speed is another one"


def test_a_share_that_is_not_known_changes_nothing() -> None:
    policy = Adaptation({"push_codec": LADDERS[PUSHING]})
    assert policy.next_change({"push_codec": 0}, Measured(1000.0, {})) is None
