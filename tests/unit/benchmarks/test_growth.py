"""The calibration of the event model from the runs with the fewest and with the most workers."""

from __future__ import annotations

import pytest

from benchmarks.growth import calibrated
from ps_train.observe.status.event_model import steps_per_sec


def test_costs_are_those_of_one_worker_and_of_the_most():
    points = {
        1: {"steps_per_sec": 16.0, "ps_cpu": 0.009, "worker_cpu": 0.009},
        8: {"steps_per_sec": 100.0, "ps_cpu": 0.002, "worker_cpu": 0.004},
    }
    costs = calibrated(points, pause=0.05)
    assert (costs.ps_cpu, costs.worker_cpu, costs.pause) == (0.002, 0.004, 0.05)
    assert steps_per_sec(costs, workers=1, num_ps=1, cores=2) == pytest.approx(16.0, rel=0.02)
