"""Evaluations of the newest checkpoint: each once, with exports, and checks of the result."""

from __future__ import annotations

import collections
import logging

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.estimator.checkpoint_evaluator import CheckpointEvaluator
from ps_train.compat.estimator.spec.eval_spec import EvalSpec
from tests.support.compat.scripted_estimator import Clock, RecordingExporter, ScriptedEstimator
from tests.support.saved.checkpoints import write_checkpoint


def data():
    return 1


class Evaluating:
    """An evaluator with its estimator, exporter and clock."""

    def __init__(self, directory, max_steps=100, **spec):
        self.estimator, self.exporter, self.clock = ScriptedEstimator(directory), RecordingExporter(), Clock()
        spec = {"exporters": self.exporter, **spec}
        self.evaluator = CheckpointEvaluator(self.estimator, EvalSpec(data, **spec), max_steps, self.clock.now)

    def at(self, step):
        self.estimator.save(step)
        return self.evaluator.evaluate_latest()


@pytest.fixture
def evaluating(tmp_path):
    return Evaluating(tmp_path)


def test_the_values_of_the_spec_reach_the_evaluation(tmp_path):
    hook = v1.train.StopAtStepHook(1)
    evaluating = Evaluating(tmp_path, steps=7, name="test", hooks=[hook])
    assert evaluating.at(10)
    assert evaluating.estimator.given("evaluate") == [
        {
            "input_fn": data,
            "steps": 7,
            "name": "test",
            "checkpoint_path": str(tmp_path / "model.ckpt-10"),
            "hooks": (hook,),
        }
    ]


def test_point_34_a_checkpoint_is_evaluated_once(evaluating):
    assert [evaluating.at(10), evaluating.at(10), evaluating.at(20), evaluating.at(20)] == [True, False, True, False]
    assert evaluating.estimator.evaluated == [10, 20]


def test_point_36_the_export_at_max_steps_is_the_final_one_and_the_only_one(evaluating):
    for step in (10, 100, 101):
        assert evaluating.at(step)
    evaluating.evaluator.finish()
    assert (evaluating.exporter.steps(False), evaluating.exporter.steps(True)) == ([10, 101], [100])


def test_point_36_the_end_is_reached_with_an_evaluation_of_max_steps(evaluating):
    reached = []
    for step in (99, 100):
        evaluating.at(step)
        reached.append(evaluating.evaluator.has_reached_end)
    assert reached == [False, True]


def test_point_38_without_max_steps_the_end_is_never_reached(tmp_path):
    evaluating = Evaluating(tmp_path, None)
    assert not evaluating.evaluator.has_reached_end
    evaluating.at(10**9)
    assert not evaluating.evaluator.has_reached_end and evaluating.exporter.steps(True) == []


@pytest.mark.parametrize("max_steps", [None, 100])
def test_point_37_a_run_that_ends_early_has_a_final_export(tmp_path, max_steps):
    evaluating = Evaluating(tmp_path, max_steps)
    evaluating.at(10)
    evaluating.estimator.save(20)
    evaluating.evaluator.finish()
    evaluating.evaluator.finish()
    assert evaluating.estimator.evaluated == [10, 20]
    assert (evaluating.exporter.steps(False), evaluating.exporter.steps(True)) == ([10], [20])


def test_point_37_a_checkpoint_that_turns_out_to_be_the_last_is_not_evaluated_again(tmp_path, caplog):
    evaluating = Evaluating(tmp_path, throttle_secs=0)
    evaluating.at(20)
    evaluating.evaluator.finish()
    evaluating.evaluator.finish()
    assert caplog.text == ""
    assert evaluating.estimator.evaluated == [20]
    assert (evaluating.exporter.steps(False), evaluating.exporter.steps(True)) == ([20], [20])
    assert evaluating.evaluator.last.exports == [2]


def test_a_run_without_any_checkpoint_has_nothing_to_finish(evaluating):
    evaluating.evaluator.finish()
    assert not evaluating.evaluator.last.metrics and evaluating.exporter.exports == []


def test_point_42_exports_go_below_model_dir_by_the_name_of_the_exporter(tmp_path):
    exporters = [RecordingExporter("a"), RecordingExporter("b")]
    evaluating = Evaluating(tmp_path, exporters=exporters)
    evaluating.at(10)
    for exporter in exporters:
        assert exporter.exports == [
            {
                "estimator": evaluating.estimator,
                "export_path": str(tmp_path / "export" / exporter.name),
                "checkpoint_path": str(tmp_path / "model.ckpt-10"),
                "eval_result": {"loss": 0.5, "global_step": 10},
                "is_the_final_export": False,
            }
        ]
    assert evaluating.evaluator.last.exports == [1, 1]


@pytest.mark.parametrize(
    ("result", "error", "problem"),
    [
        ({}, ValueError, "returned {}"),
        (False, ValueError, "returned False"),
        ([("loss", 1)], TypeError, "returned a list"),
        ({"loss": 1.0}, ValueError, "returned only loss: return global_step too"),
    ],
)
def test_point_41_the_result_is_a_dict_with_global_step(evaluating, result, error, problem):
    evaluating.estimator.result = result
    with pytest.raises(error, match=problem):
        evaluating.at(10)


def test_point_41_a_result_may_be_another_kind_of_dict(evaluating):
    evaluating.estimator.result = collections.OrderedDict(global_step=10)
    assert evaluating.at(10)


def warnings_in(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_point_33_a_missing_checkpoint_is_warned_of_every_ten_minutes(evaluating, caplog):
    for _ in range(1201):
        assert not evaluating.evaluator.evaluate_latest()
        evaluating.clock.sleep(1)
    assert len(warnings_in(caplog)) == 3
    assert "there is no checkpoint in" in warnings_in(caplog)[0]


@pytest.mark.parametrize(("throttle_secs", "expected"), [(0, [0, 600]), (60, [600])])
def test_point_35_no_newer_checkpoint_is_warned_of_and_at_once_without_throttle(
    tmp_path, caplog, throttle_secs, expected
):
    evaluating = Evaluating(tmp_path, throttle_secs=throttle_secs)
    evaluating.at(10)
    begun, warned = evaluating.clock.now(), []
    for _ in range(1000):
        before = len(warnings_in(caplog))
        assert not evaluating.evaluator.evaluate_latest()
        warned += [evaluating.clock.now() - begun] * (len(warnings_in(caplog)) - before)
        evaluating.clock.sleep(1)
    assert warned == expected
    assert f"throttle_secs={throttle_secs}" in warnings_in(caplog)[0]


@pytest.mark.parametrize(
    "error",
    [
        lambda path: tf.errors.NotFoundError(None, None, "no such file"),
        lambda path: ValueError(f"The passed save_path is not a valid checkpoint: {path}"),
    ],
    ids=["of TensorFlow", "of a Saver"],
)
def test_a_checkpoint_that_is_removed_while_it_is_read_is_skipped(evaluating, caplog, monkeypatch, error):
    def fail(checkpoint_path, **given):
        raise error(checkpoint_path)

    evaluating.estimator.save(10)
    with monkeypatch.context() as patch:
        patch.setattr(evaluating.estimator, "evaluate", fail)
        assert not evaluating.evaluator.evaluate_latest()
    assert "model.ckpt-10 was removed before its evaluation ended" in caplog.text
    assert evaluating.at(20) and evaluating.estimator.evaluated == [20]


@pytest.mark.parametrize("name", ["run", "run[1]"])
def test_an_error_of_a_checkpoint_that_is_there_is_raised(tmp_path, monkeypatch, name):
    def fail(**given):
        raise tf.errors.InvalidArgumentError(None, None, "other shapes")

    (tmp_path / name).mkdir()
    evaluating = Evaluating(tmp_path / name)
    monkeypatch.setattr(evaluating.estimator, "evaluate", fail)
    (tmp_path / name / "model.ckpt-10.index").write_bytes(b"index")
    evaluating.estimator.save(10)
    with pytest.raises(tf.errors.InvalidArgumentError, match="other shapes"):
        evaluating.evaluator.evaluate_latest()


def test_a_checkpoint_that_is_removed_after_its_evaluation_is_exported(evaluating, tmp_path, monkeypatch):
    exported = []

    def export(**given):
        exported.append(float(tf.train.load_checkpoint(given["checkpoint_path"]).get_tensor("w")[0]))

    evaluate = evaluating.estimator.evaluate

    def evaluate_and_remove(**given):
        for file in tmp_path.glob("model.ckpt-10.*"):
            file.unlink()
        return evaluate(**given)

    monkeypatch.setattr(evaluating.exporter, "export", export)
    monkeypatch.setattr(evaluating.estimator, "evaluate", evaluate_and_remove)
    write_checkpoint(tmp_path, 10)
    assert evaluating.at(10) and exported == [10.0]
    assert list(tmp_path.iterdir()) == []
