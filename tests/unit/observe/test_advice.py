"""The gain of one more ps, by the event model."""

from __future__ import annotations

import pytest

from ps_train.observe.advice import gain_of_one_more_ps
from tests.support.job_status import a_status, step_time


def busy(cpu, compute_secs, workers=4, num_ps=1, rate=100.0):
    status = a_status()
    names = [f"worker:{index}" for index in range(workers)]
    worker = {**status["workers"][0], "steps_per_sec": rate / workers}
    return {
        **status,
        "steps_per_sec": rate,
        "step_time": {name: step_time(compute_secs) for name in names},
        "workers": [{**worker, "task": name} for name in names],
        "ps": [{**status["ps"][0], "task": f"ps:{index}", "cpu": cpu, "cores": 1} for index in range(num_ps)],
    }


def test_a_ps_that_does_all_the_work_is_worth_a_second_one():
    assert gain_of_one_more_ps(busy(1.0, compute_secs=0.001)) == pytest.approx(2.0, rel=0.15)


def test_an_idle_ps_is_not():
    assert gain_of_one_more_ps(busy(0.01, compute_secs=0.04)) == pytest.approx(1.0, rel=0.02)


def test_a_third_ps_gives_less_than_a_second_one():
    assert gain_of_one_more_ps(busy(1.0, 0.001, num_ps=2)) == pytest.approx(1.5, rel=0.15)


@pytest.mark.parametrize(
    "changes", [{"steps_per_sec": None}, {"step_time": {}}, {"workers": []}, {"steps_per_sec": 0.0}]
)
def test_too_little_is_known(changes):
    assert gain_of_one_more_ps({**busy(1.0, 0.001), **changes}) is None


def test_a_ps_that_has_not_said_anything_yet():
    assert gain_of_one_more_ps(busy(None, 0.001)) is None
