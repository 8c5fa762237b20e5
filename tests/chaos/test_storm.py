"""Some storms; `tests/chaos/run` makes as many as you like."""

from __future__ import annotations

import signal

import pytest

from tests.chaos.storm import Storm, weather
from tests.chaos.verdict import Torn
from tests.support.long import long
from tests.support.processes import Processes


@pytest.mark.timeout(400)
@pytest.mark.parametrize("seed", [10, long(4), long(5), long(24), long(105)])
def test_whatever_is_killed_frozen_or_stopped_the_job_ends_at_exactly_max_steps(
    processes: Processes, seed: int
) -> None:
    weather(Storm.of(seed), processes)


def test_storms_are_of_all_modes_signals_and_ends() -> None:
    storms = [Storm.of(seed) for seed in range(30)]
    blows = [blow for storm in storms for blow in storm.blows]
    assert {storm.update for storm in storms} == {"async", "sync", "bounded"}
    assert {(storm.num_ps, storm.num_workers) for storm in storms} == {(1, 2), (1, 3), (2, 2), (2, 3)}
    assert {blow.signum for blow in blows} == {signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM}
    assert {blow.task.partition(":")[0] for blow in blows} == {"ps", "worker"}
    assert any(storm.deserved_end for storm in storms) and any(storm.missing for storm in storms)


def test_what_may_be_torn_apart_is_bounded_by_what_the_chief_has_said() -> None:
    torn = Torn(pushes=3, less=20, more=70, unheard=100)
    assert torn.bounds("sync", 400) == (400, 400)
    assert torn.bounds("bounded", 400) == (397, 403)
    assert torn.bounds("async", 400) == (447, 553)
    assert Torn().bounds("async", 400) == (400, 400)


def test_a_seed_decides_everything() -> None:
    assert Storm.of(5) == Storm.of(5) != Storm.of(8)
