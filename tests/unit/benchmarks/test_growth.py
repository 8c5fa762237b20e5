"""The calibration of the event model from the runs with the fewest and with the most workers."""

from __future__ import annotations

import pytest

from benchmarks.event_model import Costs, steps_per_sec
from benchmarks.growth import calibrated, limits


def test_costs_are_those_of_one_worker_and_of_the_most():
    points = {
        1: {"steps_per_sec": 16.0, "ps_cpu": 0.009, "worker_cpu": 0.009},
        8: {"steps_per_sec": 100.0, "ps_cpu": 0.002, "worker_cpu": 0.004},
    }
    costs = calibrated(points, pause=0.05)
    assert (costs.ps_cpu, costs.worker_cpu, costs.pause) == (0.002, 0.004, 0.05)
    assert steps_per_sec(costs, workers=1, num_ps=1, cores=2) == pytest.approx(16.0, rel=0.02)


@pytest.mark.long
def test_the_line_and_the_update_lock_limit_a_ps_as_its_cores_do():
    costs = Costs(pause=0.05, latency=0.0, worker_cpu=0.006, ps_cpu=0.004)
    found = limits(costs, cores=8, step_bytes=1e6, line_gbit=10, update_secs=0.001)
    by_cores, by_line, by_lock = found.workers.values()
    assert by_line == 75, "1.25 GB/s is 1250 steps/s of a megabyte each way, and a worker makes 16.7"
    assert by_lock == 60, "1000 updates/s"
    assert by_cores > by_line
    assert found.num_ps(60) == 1 and found.num_ps(61) == 2
    without = limits(costs, cores=8, step_bytes=1e6, line_gbit=1, update_secs=None)
    assert min(without.workers.values()) == 7 and without.num_ps(64) == 10
