"""The event model against cases whose answers are known without it."""

from __future__ import annotations

import pytest

from ps_train.observe.status.event_model import (
    MOST_WORKERS,
    Costs,
    fit,
    recommended_ps,
    steps_per_sec,
    steps_per_sec_apart,
    steps_per_sec_on,
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


def test_more_workers_need_more_ps():
    assert recommended_ps(COSTS, workers=4, ps_cores=1) == 1
    assert recommended_ps(COSTS, workers=100, ps_cores=1) in (3, 4, 5)


def test_a_ps_that_costs_nothing_never_saturates_and_the_answer_is_bounded():
    free = Costs(pause=0.01, latency=0.0, worker_cpu=0.001, ps_cpu=0.0)
    assert workers_at_saturation(free, 1, 1) == MOST_WORKERS
    assert recommended_ps(Costs(0.0, 0.0, 0.0, 0.0), 10, 1) == 1


def test_machines_of_their_own_and_one_machine_are_the_two_ends_of_places():
    cores = {"a": 2, "b": 1, "c": 1}
    assert steps_per_sec_on(COSTS, ["a", "a", "a"], ["a"], cores) == steps_per_sec(COSTS, 3, 1, 2)
    assert steps_per_sec_on(COSTS, ["b", "c"], ["a"], cores) == steps_per_sec_apart(COSTS, 2, 1, 2)
    heavy = Costs(pause=0.0, latency=0.0, worker_cpu=0.01, ps_cpu=0.001)
    assert steps_per_sec_on(heavy, ["b", "b"], ["a"], cores) == pytest.approx(100, rel=0.03)


def test_workers_in_lockstep_wait_for_the_slowest():
    free = steps_per_sec_apart(COSTS, 8, 1, 8)
    together = steps_per_sec_apart(COSTS, 8, 1, 8, lockstep=True)
    assert 0.75 * free < together < 0.97 * free


@pytest.mark.parametrize("measured", [5.0, 60.0, 120.0, 400.0])
def test_fitted_costs_give_the_measured_rate(measured):
    def rate(costs):
        return steps_per_sec(costs, workers=2, num_ps=1, cores=2)

    costs = Costs(pause=0.0, latency=0.0, worker_cpu=0.006, ps_cpu=0.002)
    assert rate(fit(costs, rate, measured)) == pytest.approx(measured, rel=0.02)
