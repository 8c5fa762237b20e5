"""The event model against cases whose answers are known without it."""

from __future__ import annotations

import pytest

from benchmarks.event_model import (
    MOST_WORKERS,
    Costs,
    steps_per_sec,
    steps_per_sec_apart,
    workers_at_saturation,
)

COSTS = Costs(pause=0.05, latency=0.004, worker_cpu=0.004, ps_cpu=0.002)


def test_one_worker_never_waits():
    assert steps_per_sec(COSTS, workers=1, num_ps=1, cores=1) == pytest.approx(1 / 0.06, rel=0.02)


def test_few_workers_add_up():
    assert steps_per_sec_apart(COSTS, workers=4, num_ps=1, ps_cores=8) == pytest.approx(4 / 0.06, rel=0.02)


@pytest.mark.parametrize("cores", [1, 2])
def test_many_workers_are_held_back_by_the_cores_that_they_share(cores: int):
    assert steps_per_sec(COSTS, workers=64, num_ps=1, cores=cores) == pytest.approx(cores / 0.006, rel=0.02)


def test_many_workers_on_machines_of_their_own_are_held_back_by_the_ps():
    assert steps_per_sec_apart(COSTS, workers=128, num_ps=1, ps_cores=1) == pytest.approx(1 / 0.002, rel=0.02)
    assert steps_per_sec_apart(COSTS, workers=128, num_ps=2, ps_cores=1) == pytest.approx(2 / 0.002, rel=0.02)


@pytest.mark.long
def test_a_ps_saturates_near_the_number_of_workers_that_fill_it():
    # 30 workers x 2 ms in 60 ms fill one core; queues are felt a little earlier.
    assert 20 <= workers_at_saturation(COSTS, num_ps=1, ps_cores=1) <= 36
    assert workers_at_saturation(COSTS, num_ps=2, ps_cores=1) > 1.7 * workers_at_saturation(COSTS, 1, 1)


def test_a_ps_that_costs_nothing_never_saturates_and_the_answer_is_bounded():
    free = Costs(pause=0.01, latency=0.0, worker_cpu=0.001, ps_cpu=0.0)
    assert workers_at_saturation(free, 1, 1) == MOST_WORKERS
