"""The event model against cases whose answers are known without it."""

from __future__ import annotations

import pytest

from ps_train.observe.status.event_model import Costs, steps_per_sec_apart

COSTS = Costs(pause=0.05, latency=0.004, worker_cpu=0.004, ps_cpu=0.002)


def test_one_worker_never_waits():
    assert steps_per_sec_apart(COSTS, workers=1, num_ps=1, ps_cores=1) == pytest.approx(1 / 0.06, rel=0.02)


def test_few_workers_add_up():
    assert steps_per_sec_apart(COSTS, workers=4, num_ps=1, ps_cores=8) == pytest.approx(4 / 0.06, rel=0.02)


def test_many_workers_on_machines_of_their_own_are_held_back_by_the_ps():
    assert steps_per_sec_apart(COSTS, workers=128, num_ps=1, ps_cores=1) == pytest.approx(1 / 0.002, rel=0.02)
    assert steps_per_sec_apart(COSTS, workers=128, num_ps=2, ps_cores=1) == pytest.approx(2 / 0.002, rel=0.02)
