"""Evaluations give the metrics of the right checkpoint over the right batches, and write them as events."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.compat.estimator.estimator import Estimator
from ps_train.compat.estimator.spec.estimator_spec import EstimatorSpec
from tests.support.compat.estimators import (
    BATCH,
    RATE,
    Recorder,
    X,
    Y,
    estimator,
    events_in,
    forever,
    model_fn,
    once,
    spec_of,
    weights_after,
    with_fields,
)


def losses(weights: np.ndarray, batches: int = len(X) // BATCH) -> list[float]:
    """The squared loss of each batch, by numpy."""
    error = (X @ weights - Y) ** 2
    return [float(error[i * BATCH : (i + 1) * BATCH].mean()) for i in range(batches)]


def test_point_73_a_result_has_loss_metrics_and_global_step(tmp_path):
    trained = estimator(tmp_path).train(forever, steps=3)
    result = trained.evaluate(once)
    weights = weights_after(3)
    assert sorted(result) == ["global_step", "loss", "mae"] and result["global_step"] == 3
    assert result["loss"] == pytest.approx(np.mean(losses(weights)), rel=1e-5)
    assert result["mae"] == pytest.approx(np.abs(X @ weights - Y).mean(), rel=1e-5)


def test_point_73_the_loss_is_the_mean_of_the_batches_not_of_the_examples(tmp_path):
    def uneven():
        return tf.data.Dataset.from_tensor_slices(({"x": X[:20]}, Y[:20])).batch(BATCH)

    expected = [np.mean(Y[:16] ** 2), np.mean(Y[16:20] ** 2)]
    assert estimator(tmp_path).evaluate(uneven)["loss"] == pytest.approx(np.mean(expected), rel=1e-5)


def test_point_73_events_go_to_the_directory_of_the_evaluation(tmp_path):
    trained = estimator(tmp_path).train(forever, steps=2)
    result = trained.evaluate(once)
    trained.evaluate(once, name="test", steps=1)
    events = events_in(tmp_path / "eval")
    assert events["loss"] == [(2, pytest.approx(result["loss"]))] and events["mae"] == [
        (2, pytest.approx(result["mae"]))
    ]
    assert events["checkpoint_path"][0][1].string_val == [str(tmp_path / "model.ckpt-2").encode()]
    assert "global_step" not in events
    assert events_in(tmp_path / "eval_test")["loss"][0][1] != pytest.approx(result["loss"])


@pytest.mark.parametrize("verbosity", [v1.logging.DEBUG, v1.logging.INFO, v1.logging.WARN, v1.logging.ERROR])
def test_an_evaluation_shows_its_results_as_tensorflow_does(tmp_path, capfd, verbosity):
    logger = v1.get_logger()
    before, stream = logger.level, logging.StreamHandler()
    stream.setFormatter(logging.Formatter("%(levelname)s:%(name)s:%(message)s"))
    trained = estimator(tmp_path).train(forever, steps=3)
    logger.addHandler(stream)
    logger.setLevel(verbosity)
    try:
        result = trained.evaluate(once, name="other")
    finally:
        logger.removeHandler(stream)
        logger.setLevel(before)
    lines = [line for line in capfd.readouterr().err.splitlines() if "Saving dict" in line]
    values = f"global_step = 3, loss = {result['loss']}, mae = {result['mae']}"
    expected = [f"INFO:tensorflow:Saving dict for global step 3: {values}"]
    assert lines == ([] if verbosity == v1.logging.ERROR else expected)


def test_point_73_a_second_evaluation_appends_to_the_same_file(tmp_path):
    trained = estimator(tmp_path).train(forever, steps=1)
    trained.evaluate(once)
    trained.train(forever, steps=1).evaluate(once)
    assert [step for step, _ in events_in(tmp_path / "eval")["loss"]] == [1, 2]
    assert len(list((tmp_path / "eval").iterdir())) == 1


@pytest.mark.parametrize("name", ["global_step", "loss"])
def test_point_74_a_metric_with_a_reserved_name_is_refused(tmp_path, name):
    metrics = with_fields(eval_metric_ops=lambda: {name: v1.metrics.mean(1.0)})
    with pytest.raises(ValueError, match=f"a metric named {name}"):
        estimator(tmp_path, metrics).evaluate(once)


@pytest.mark.parametrize("steps", [0, -1])
def test_point_74_steps_must_be_positive(tmp_path, steps):
    with pytest.raises(ValueError, match=f"steps={steps} is not valid"):
        estimator(tmp_path).evaluate(once, steps=steps)


def test_point_74_steps_are_a_number_of_batches(tmp_path):
    result = estimator(tmp_path).evaluate(forever, steps=2)
    assert result["loss"] == pytest.approx(np.mean(losses(np.zeros(2), 2)), rel=1e-5)


def test_point_74_summaries_as_text_and_tensors_are_written(tmp_path):
    def metrics():
        summary = v1.summary.scalar("inner", 4.0)
        array, number = tf.constant([1.0, 2.0]), tf.constant(7)
        return {
            "summary": (summary, tf.no_op()),
            "array": (array, tf.no_op()),
            "number": (number, tf.no_op()),
            "text": (tf.constant(b"\xff not a summary"), tf.no_op()),
        }

    estimator(tmp_path, with_fields(eval_metric_ops=metrics)).evaluate(once)
    events = events_in(tmp_path / "eval")
    assert events["summary/0"] == [(0, 4.0)] and events["number"] == [(0, 7.0)]
    assert tf.make_ndarray(events["array"][0][1]).tolist() == [1.0, 2.0]
    assert "text" not in events


def test_point_75_without_a_checkpoint_initial_values_are_evaluated(tmp_path):
    result = estimator(tmp_path).evaluate(once)
    assert result["global_step"] == 0 and result["loss"] == pytest.approx(np.mean(losses(np.zeros(2))), rel=1e-5)
    assert "checkpoint_path" not in events_in(tmp_path / "eval")


def test_point_75_without_a_checkpoint_a_warm_start_is_evaluated(tmp_path):
    estimator(tmp_path / "old").train(forever, steps=5)
    result = Estimator(model_fn, str(tmp_path / "new"), warm_start_from=str(tmp_path / "old")).evaluate(once)
    assert result["global_step"] == 0
    assert result["loss"] == pytest.approx(np.mean(losses(weights_after(5))), rel=1e-4)


def test_point_75_an_older_checkpoint_is_evaluated_by_its_path(tmp_path):
    trained = estimator(tmp_path, save_checkpoints_steps=2).train(forever, steps=5)
    result = trained.evaluate(once, checkpoint_path=str(tmp_path / "model.ckpt-2"))
    assert result["global_step"] == 2
    assert result["loss"] == pytest.approx(np.mean(losses(weights_after(2))), rel=1e-5)


def test_point_75_hooks_of_the_call_and_of_the_spec_run(tmp_path):
    calls: list[str] = []
    function = with_fields(
        evaluation_hooks=lambda: [Recorder(calls, "spec ")], training_hooks=lambda: [Recorder(calls, "training ")]
    )
    estimator(tmp_path, function).evaluate(once, steps=1, hooks=[Recorder(calls, "call ")])
    once_each = ["begin", "after_create_session", "before_run", "after_run", "end"]
    assert calls == [f"{name} {call}" for call in once_each for name in ("call", "spec")]


def test_point_75_a_local_init_op_of_the_user_does_not_replace_that_of_the_metrics(tmp_path):
    def scaffold():
        own = v1.get_variable("own", [], initializer=v1.zeros_initializer(), collections=["own"], use_resource=True)
        metric = v1.metrics.mean(own)
        return v1.train.Scaffold(local_init_op=own.assign(3.0)), metric

    def function(features, labels, mode):
        made, metric = scaffold()
        return spec_of(mode, features, labels, scaffold=made, eval_metric_ops={"own": metric})

    assert estimator(tmp_path, function).evaluate(once)["own"] == 3.0


def test_point_76_a_checkpoint_of_other_shapes_is_an_error_that_names_model_dir(tmp_path):
    estimator(tmp_path).train(forever, steps=1)

    def renamed(features, labels, mode):
        v1.get_variable("v", [5, 1])
        return spec_of(mode, features, labels)

    def other(features, labels, mode):
        error = labels - tf.reduce_sum(v1.get_variable("w", [3, 1]))
        step = v1.train.get_global_step().assign_add(1)
        return EstimatorSpec(mode, loss=tf.reduce_sum(error), train_op=step)

    for run in (lambda made: made.evaluate(once), lambda made: made.train(forever, steps=1)):
        with pytest.raises(
            tf.errors.InvalidArgumentError,
            match=rf"model_dir={tmp_path} does not fit.*: w has the shape \[2, 1\] there and \[3, 1\] here",
        ):
            run(estimator(tmp_path, other))
        with pytest.raises(tf.errors.NotFoundError, match=rf"model_dir={tmp_path} does not fit.*it has no v;"):
            run(estimator(tmp_path, renamed))


@pytest.mark.parametrize("reads", [False, True])
def test_slots_that_a_checkpoint_lacks_are_needed_only_by_those_who_read_them(tmp_path, reads):
    """Such as those of local steps, of which a model_fn makes an optimizer in each mode."""
    estimator(tmp_path).train(forever, steps=1)

    def with_slots(features, labels, mode):
        spec = spec_of(mode, features, labels)
        optimizer = v1.train.AdamOptimizer(0.1)
        train_op = optimizer.minimize(tf.reduce_sum(v1.trainable_variables()[0]), v1.train.get_global_step())
        metrics = {}
        if reads:
            metrics = {"slot": v1.metrics.mean(optimizer.get_slot(v1.trainable_variables()[0], "m"))}
        return spec._replace(train_op=train_op, eval_metric_ops=metrics)

    if reads:
        with pytest.raises(tf.errors.NotFoundError, match=r"it has no .*w/Adam"):
            estimator(tmp_path, with_slots).evaluate(once)
        return
    found, wanted = estimator(tmp_path, with_slots).evaluate(once), estimator(tmp_path).evaluate(once)
    assert found["loss"] == pytest.approx(wanted["loss"]) and found["global_step"] == 1


def test_point_76_a_saver_of_the_user_restores_what_it_likes(tmp_path):
    estimator(tmp_path).train(forever, steps=1)

    def partly(features, labels, mode):
        error = labels - tf.reduce_sum(v1.get_variable("w", [3, 1], initializer=v1.zeros_initializer()))
        step = v1.train.get_global_step()
        scaffold = v1.train.Scaffold(saver=v1.train.Saver([step]), ready_op=tf.constant([], tf.string))
        scaffold = v1.train.Scaffold(
            ready_for_local_init_op=tf.constant([], tf.string),
            local_init_op=v1.variables_initializer(v1.global_variables()[1:]),
            copy_from_scaffold=scaffold,
        )
        return EstimatorSpec(mode, loss=tf.reduce_mean(error), scaffold=scaffold)

    result = estimator(tmp_path, partly).evaluate(once)
    assert result["global_step"] == 1 and result["loss"] == pytest.approx(Y.mean(), rel=1e-5)


def test_gradient_descent_of_the_tests_is_that_of_numpy():
    assert RATE == 0.1 and weights_after(200) == pytest.approx([1, 2], abs=1e-6)


def test_a_metric_over_all_pairs_of_a_batch_is_refused(tmp_path):
    def crossing(features, labels, mode):
        spec = spec_of(mode, features, labels)
        errors = spec.predictions["y"] - labels[:, None]
        return spec._replace(eval_metric_ops={"mae": v1.metrics.mean(tf.abs(errors))})

    trained = estimator(tmp_path, crossing).train(forever, steps=1)
    with pytest.raises(ModelError, match=r"metric mae combines \[batch\] with labels \[batch, 1\] \(.*test_evaluation"):
        trained.evaluate(once)
