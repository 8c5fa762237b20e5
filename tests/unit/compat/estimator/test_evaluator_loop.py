"""The evaluator as a process of its own: delay, throttle, and its end with the run; the clock is the test's."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os

import pytest

from ps_train.base.errors import EXIT_CONFIG, EXIT_FAILED, JobFailedError, LostTaskError
from ps_train.cluster.membership.run_status import RunState, Status
from ps_train.compat.estimator.evaluator_loop import EvaluatorLoop
from ps_train.compat.estimator.spec.eval_spec import EvalSpec
from ps_train.compat.estimator.spec.run_config import RunConfig
from tests.support.compat.scripted_estimator import Clock, RecordingExporter, ScriptedEstimator

TIMEOUTS = {"startup_timeout_secs": 50.0, "recovery_timeout_secs": 20.0}


class Evaluating:
    """A loop with its estimator, exporter and clock.

    Attributes:
      times: when each evaluation began.
    """

    def __init__(self, directory, max_steps=100, delay=0.0, throttle=0.0, eval_secs=0.0):
        self.directory, self.clock, self.exporter = directory, Clock(), RecordingExporter()
        self.estimator = ScriptedEstimator(directory, config=RunConfig(job=TIMEOUTS))
        self.times, self._touched, self._eval_secs = [], itertools.count(1), eval_secs
        self._evaluate = self.estimator.evaluate
        self.estimator.evaluate = self.evaluate
        spec = EvalSpec(lambda: 1, exporters=self.exporter, start_delay_secs=delay, throttle_secs=throttle)
        self.loop = EvaluatorLoop(self.estimator, spec, max_steps, self.clock.now, self.clock.sleep)

    def evaluate(self, **given):
        self.times.append(self.clock.now())
        self.clock.time += self._eval_secs
        return self._evaluate(**given)

    def save_at(self, times):
        for secs, step in times.items():
            self.clock.at(secs, lambda step=step: self.estimator.save(step))

    def status(self, state, **fields):
        """Writes the state of the run; each time is a sign of life."""
        path = self.directory / "status.json"
        path.write_text(json.dumps(dataclasses.asdict(Status(state, **{"max_steps": 100, **fields}))))
        touched = next(self._touched)
        os.utime(path, ns=(touched, touched))

    def alive_until(self, secs):
        for second in range(int(secs)):
            self.clock.at(second, lambda: self.status(RunState.RUNNING))

    def ends_at(self, secs, state, **fields):
        self.alive_until(secs)
        self.clock.at(secs, lambda: self.status(state, **fields))


def test_point_33_the_first_evaluation_waits_for_the_delay(tmp_path):
    evaluating = Evaluating(tmp_path, delay=120)
    evaluating.save_at({1: 10, 200: 100})
    evaluating.loop.run()
    assert evaluating.times == [120, 200]
    assert evaluating.estimator.evaluated == [10, 100]


def test_point_33_a_checkpoint_is_waited_for_without_an_end(tmp_path, caplog):
    evaluating = Evaluating(tmp_path, delay=1)
    evaluating.save_at({10_000: 100})
    evaluating.loop.run()
    assert evaluating.times == [10_000]
    waiting = [record for record in caplog.records if "no checkpoint in" in record.getMessage()]
    assert len(waiting) == 17  # at 1, 601, 1201, ...


def test_point_34_the_next_evaluation_waits_for_the_throttle_from_the_begin_of_the_last(tmp_path):
    evaluating = Evaluating(tmp_path, throttle=60, eval_secs=20)
    evaluating.save_at({0: 10, 30: 20, 90: 30, 200: 100})
    evaluating.loop.run()
    assert evaluating.times[0] <= 0.5
    assert [later - earlier for earlier, later in itertools.pairwise(evaluating.times[:3])] == [60, 60]
    assert evaluating.estimator.evaluated == [10, 20, 30, 100]


def test_point_34_a_checkpoint_is_not_evaluated_twice(tmp_path):
    evaluating = Evaluating(tmp_path)
    evaluating.save_at({1: 10, 50: 100})
    evaluating.loop.run()
    assert evaluating.estimator.evaluated == [10, 100]


def test_point_35_without_a_throttle_there_is_no_busy_loop(tmp_path, caplog):
    evaluating = Evaluating(tmp_path, throttle=0)
    evaluating.save_at({0: 10, 100: 100})
    evaluating.loop.run()
    assert evaluating.clock.sleeps <= 2 * 100 + 2
    assert "throttle_secs=0" in caplog.text


@pytest.mark.parametrize("step", [100, 101])
def test_point_36_it_ends_with_an_evaluation_at_max_steps_and_one_final_export(tmp_path, step):
    evaluating = Evaluating(tmp_path, throttle=10)
    evaluating.save_at({1: 50, 20: 99, 40: step})
    evaluating.loop.run()
    assert (evaluating.exporter.steps(False), evaluating.exporter.steps(True)) == ([50, 99], [step])


@pytest.mark.parametrize("max_steps", [100, None])
def test_point_37_it_ends_with_a_run_that_is_done_below_max_steps(tmp_path, max_steps):
    evaluating = Evaluating(tmp_path, max_steps, throttle=600)
    evaluating.save_at({1: 10, 30: 20})
    evaluating.ends_at(40, RunState.DONE)
    evaluating.loop.run()
    assert evaluating.clock.now() <= 41
    assert evaluating.estimator.evaluated == [10, 20]
    assert (evaluating.exporter.steps(False), evaluating.exporter.steps(True)) == ([10], [20])


@pytest.mark.parametrize("is_at_max_steps", [False, True])
def test_its_last_line_is_its_result(tmp_path, caplog, is_at_max_steps):
    caplog.set_level("INFO")
    evaluating = Evaluating(tmp_path)
    evaluating.save_at({1: 100 if is_at_max_steps else 60})
    evaluating.ends_at(3, RunState.DONE)
    evaluating.loop.run()
    reason = "max_steps is reached" if is_at_max_steps else "the run has ended"
    assert (
        caplog.records[-1]
        .getMessage()
        .startswith(
            f"the evaluator ends, because {reason}; evaluation at global step {100 if is_at_max_steps else 60}: "
        )
    )


def test_point_37_a_last_checkpoint_that_is_already_evaluated_is_exported_as_the_final_one(tmp_path):
    evaluating = Evaluating(tmp_path)
    evaluating.save_at({1: 10})
    evaluating.ends_at(40, RunState.DONE)
    evaluating.loop.run()
    assert evaluating.estimator.evaluated == [10]
    assert (evaluating.exporter.steps(False), evaluating.exporter.steps(True)) == ([10], [10])


def test_point_37_the_end_of_the_run_cuts_the_delay_short(tmp_path):
    evaluating = Evaluating(tmp_path, delay=10_000)
    evaluating.save_at({1: 10})
    evaluating.ends_at(40, RunState.DONE)
    evaluating.loop.run()
    assert evaluating.times == [40]


def test_point_37_a_run_that_was_done_before_the_evaluator_started_is_evaluated(tmp_path):
    evaluating = Evaluating(tmp_path, delay=10_000)
    evaluating.status(RunState.DONE)
    evaluating.estimator.save(90)
    evaluating.loop.run()
    assert evaluating.times == [0] and evaluating.exporter.steps(True) == [90]


@pytest.mark.parametrize("max_steps", [200, None])
def test_point_37_an_earlier_end_may_be_followed_by_another_run(tmp_path, max_steps):
    evaluating = Evaluating(tmp_path, max_steps)
    evaluating.status(RunState.DONE, max_steps=100 if max_steps else 0)
    evaluating.estimator.save(100)
    evaluating.clock.at(30, lambda: evaluating.status(RunState.RUNNING))
    evaluating.save_at({31: 150})
    evaluating.clock.at(32, lambda: evaluating.status(RunState.DONE, max_steps=200))
    evaluating.loop.run()
    assert evaluating.estimator.evaluated == [100, 150] and evaluating.exporter.steps(True) == [150]


def test_point_37_a_failed_run_fails_its_evaluator_after_its_last_evaluation(tmp_path):
    evaluating = Evaluating(tmp_path, throttle=600)
    evaluating.save_at({1: 10, 30: 20})
    evaluating.ends_at(40, RunState.FAILED, cause="the loss is NaN", config=True)
    with pytest.raises(JobFailedError, match="the job failed: the loss is NaN") as failed:
        evaluating.loop.run()
    assert failed.value.exit_code == EXIT_CONFIG
    assert evaluating.estimator.evaluated == [10, 20] and evaluating.exporter.steps(True) == []


def test_point_37_a_failed_run_may_be_restarted(tmp_path):
    evaluating = Evaluating(tmp_path)
    evaluating.save_at({1: 10, 55: 100})
    evaluating.ends_at(40, RunState.FAILED, cause="a ps is lost")
    evaluating.clock.at(50, lambda: evaluating.status(RunState.RUNNING))
    evaluating.loop.run()
    assert evaluating.estimator.evaluated == [10, 100]

    evaluating = Evaluating(tmp_path)
    evaluating.save_at({1: 10})
    evaluating.ends_at(40, RunState.FAILED, cause="a ps is lost")
    with pytest.raises(JobFailedError, match="a ps is lost") as failed:
        evaluating.loop.run()
    assert failed.value.exit_code == EXIT_FAILED and 60 <= evaluating.clock.now() <= 62


def test_point_37_a_stopped_run_stops_its_evaluator_with_the_same_exit_code(tmp_path):
    evaluating = Evaluating(tmp_path, throttle=600)
    evaluating.save_at({1: 10, 30: 20})
    evaluating.ends_at(40, RunState.STOPPED, signum=15)
    with pytest.raises(SystemExit) as stopped:
        evaluating.loop.run()
    assert stopped.value.code == 143
    assert evaluating.estimator.evaluated == [10, 20] and evaluating.exporter.steps(True) == []


def test_point_37_a_run_that_fell_silent_ends_its_evaluator(tmp_path):
    evaluating = Evaluating(tmp_path)
    evaluating.save_at({1: 10, 39: 20})
    evaluating.alive_until(40)
    with pytest.raises(LostTaskError, match="no sign of life"):
        evaluating.loop.run()
    assert evaluating.estimator.evaluated == [10, 20] and 59 <= evaluating.clock.now() <= 61


def test_point_38_without_max_steps_only_the_end_of_the_run_ends_it(tmp_path):
    evaluating = Evaluating(tmp_path, None, throttle=5)
    evaluating.save_at({1: 10, 1000: 10**9})
    evaluating.ends_at(5000, RunState.DONE)
    evaluating.loop.run()
    assert evaluating.clock.now() >= 5000
    assert evaluating.exporter.steps(False) == [10, 10**9] and evaluating.exporter.steps(True) == [10**9]
