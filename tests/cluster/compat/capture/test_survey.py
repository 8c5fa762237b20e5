"""The survey of a program: its optimizers, and the reasons for which it cannot be captured."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import estimator, train
from ps_train.compat.capture.estimator_program import CaptureError
from ps_train.compat.capture.survey import survey_program
from tests.support.compat.programs import embedding, minimize, program_of, step


@pytest.mark.parametrize("kind", [v1.train.SyncReplicasOptimizer, train.SyncReplicasOptimizer])
def test_point_68_a_sync_replicas_optimizer_is_understood(kind: Any) -> None:
    def sync(loss: tf.Tensor) -> Any:
        optimizer = kind(v1.train.AdagradOptimizer(0.1), 3, 4)
        hook = optimizer.make_session_run_hook(True)
        assert type(hook) is v1.train.SessionRunHook
        return optimizer.minimize(loss, step())

    program = program_of(sync)
    survey = survey_program(program)
    assert survey.sync == (3, 4)
    assert kind.apply_gradients.__qualname__.startswith("SyncReplicasOptimizer")


def assigned_by_hand(loss: tf.Tensor) -> Any:
    (variable, *_) = v1.trainable_variables("dense")
    return variable.assign_sub(0.1 * tf.gradients(loss, variable)[0])


def rate_of_a_variable(loss: tf.Tensor) -> Any:
    rate = v1.get_variable("rate", [], initializer=v1.ones_initializer(), trainable=False)
    return v1.train.GradientDescentOptimizer(rate).minimize(loss, step())


def reads_afterwards(loss: tf.Tensor) -> Any:
    with tf.control_dependencies([minimize(loss)]):
        return v1.trainable_variables("dense")[0].read_value()


def twice(loss: tf.Tensor) -> Any:
    return tf.group(minimize(loss), minimize(loss))


def averages_of_a_sync_optimizer(loss: tf.Tensor) -> Any:
    inner, average = v1.train.GradientDescentOptimizer(0.1), tf.train.ExponentialMovingAverage(0.9)
    averaged = v1.trainable_variables("dense")
    return v1.train.SyncReplicasOptimizer(
        inner, 1, 1, variable_averages=average, variables_to_average=averaged
    ).minimize(loss, step())


@pytest.mark.parametrize(
    ("train", "reason"),
    [
        (averages_of_a_sync_optimizer, "SyncReplicasOptimizer keeps averages of variables"),
        (assigned_by_hand, "no optimizer of tf.compat.v1.train applies gradients"),
        (rate_of_a_variable, r"learning_rate of GradientDescentOptimizer depends on rate \(VarHandleOp\)"),
        (reads_afterwards, r"\(ReadVariableOp\) runs after the optimizer's update"),
        (twice, "variable .* is updated twice in a step"),
    ],
    ids=lambda value: getattr(value, "__name__", "-"),
)
def test_point_72_what_cannot_be_captured_says_why(train: Callable[[tf.Tensor], Any], reason: str) -> None:
    with pytest.raises(CaptureError, match=reason):
        survey_program(program_of(train))


@pytest.mark.parametrize("read_whole", [False, True])
def test_only_a_variable_that_is_read_by_rows_alone_is_a_table(read_whole: bool) -> None:
    def look_up(features: Any) -> tf.Tensor:
        table = embedding()
        rows = tf.reduce_mean(tf.nn.embedding_lookup(table, features["ids"]), 1)
        return rows - tf.stop_gradient(tf.reduce_mean(table, 0)) if read_whole else rows

    assert list(survey_program(program_of(minimize, look_up)).looked_up) == ([] if read_whole else ["embedding"])


def test_a_variable_that_a_hook_reads_is_no_table() -> None:
    def look_up(features: Any) -> tf.Tensor:
        shown = [v1.get_variable(name, [7, 2]) for name in ("by_name", "by_object", "of_rows")]
        return tf.add_n([tf.reduce_sum(tf.nn.embedding_lookup(each, features["ids"]), 1) for each in shown])

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        loss = tf.reduce_mean(look_up(features))
        by_object = next(each for each in v1.trainable_variables() if each.op.name == "by_object")
        hooks = [v1.train.LoggingTensorHook(given, every_n_iter=1) for given in (["by_name:0"], {"v": by_object})]
        return estimator.EstimatorSpec(mode, loss=loss, train_op=minimize(loss), training_hooks=hooks)

    program = dataclasses.replace(program_of(minimize), model_fn=model_fn)
    assert set(survey_program(program).looked_up) == {"of_rows"}
