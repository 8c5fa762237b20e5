"""Trainings with a listener that ends the evaluations, in one process and as the evaluator."""

from __future__ import annotations

import functools
import itertools
import pathlib
from typing import Any

import pytest

from ps_train.compat.estimator.checkpoint_evaluator import CheckpointEvaluator
from ps_train.compat.estimator.evaluator_loop import EvaluatorLoop
from ps_train.compat.estimator.spec.eval_listener import EvalListener, EvalResult, EvalStatus
from ps_train.compat.estimator.spec.eval_spec import EvalSpec
from ps_train.compat.estimator.spec.train_spec import TrainSpec
from ps_train.compat.estimator.train_and_evaluate import EvaluationListener
from ps_train.compat.estimator.training_executor import TrainingExecutor
from tests.support.compat.scripted_estimator import Clock, RecordingExporter, ScriptedEstimator

AT_ONCE = {"start_delay_secs": 0, "throttle_secs": 0}


def data() -> int:
    return 1


class Until(EvalListener):
    """Ends the evaluations after that of a step, or before the evaluation of a number."""

    def __init__(self, step: int = 1000, count: int = 1000) -> None:
        self.step, self.count = step, count
        self.results: list[EvalResult] = []

    def before_eval(self) -> bool:
        return len(self.results) < self.count

    def after_eval(self, eval_result: EvalResult) -> bool:
        self.results.append(eval_result)
        return eval_result.metrics is None or eval_result.metrics["global_step"] < self.step


@pytest.mark.parametrize("listener", [Until(step=60), Until(count=2)], ids=["after", "before"])
def test_in_one_process_the_listener_ends_the_training(tmp_path: pathlib.Path, listener: Until) -> None:
    estimator, exporter = ScriptedEstimator(tmp_path, [0, 30, 60, 100]), RecordingExporter()
    train_spec = TrainSpec(data, max_steps=100)
    found = TrainingExecutor(estimator, train_spec, EvalSpec(data, exporters=exporter, **AT_ONCE), None, listener).run()
    assert estimator.evaluated == [30, 60] and found == ({"loss": 0.5, "global_step": 60}, [3])
    assert exporter.steps(is_final=True) == [60]


def test_a_saving_listener_asks_for_the_end_that_the_listener_wants(tmp_path: pathlib.Path) -> None:
    estimator: Any = ScriptedEstimator(tmp_path)
    evaluator = CheckpointEvaluator(estimator, EvalSpec(data), None, listener=Until(step=20))
    saving = EvaluationListener(evaluator, 0)
    answers = []
    for step in (10, 20, 30):
        estimator.save(step)
        answers.append(saving.after_save(None, step))
    assert answers == [False, True, True] and estimator.evaluated == [10, 20]


def test_the_evaluator_ends_with_the_listener(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    clock, estimator, listener = Clock(), ScriptedEstimator(tmp_path), Until(step=20)
    for secs, step in {1: 10, 5: 20, 9: 30}.items():
        clock.at(secs, functools.partial(estimator.save, step))
    EvaluatorLoop(estimator, EvalSpec(data, **AT_ONCE), None, clock.now, clock.sleep, listener).run()
    assert estimator.evaluated == [10, 20] and "the listener has ended it" in caplog.text
    assert [status for status, _ in itertools.groupby(result.status for result in listener.results)] == [
        EvalStatus.MISSING_CHECKPOINT,
        EvalStatus.EVALUATED,
        EvalStatus.NO_NEW_CHECKPOINT,
        EvalStatus.EVALUATED,
    ]
    assert listener.results[-1].checkpoint_path == str(tmp_path / "model.ckpt-20")
