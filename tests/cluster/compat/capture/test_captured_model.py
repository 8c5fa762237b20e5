"""A model_fn on the engine makes, bit by bit, the steps that TensorFlow makes with it."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import estimator
from ps_train.compat.capture.captured_model import CapturedModel
from ps_train.compat.capture.estimator_program import ENGINE_ENDS_JOB, Program
from ps_train.compat.capture.survey import survey_program
from ps_train.compat.tf1.contrib_optimize_loss import optimize_loss
from tests.support.clusters.cluster import InProcessCluster
from tests.support.compat.programs import (
    CONFIG,
    LOOKUPS,
    STEPS,
    check,
    clipped,
    embedding,
    falling_rate,
    input_fn,
    minimize,
    network,
    plain_values,
    program_of,
    spec_of,
    step,
    two_adams,
)
from tests.support.long import long


def two_optimizers(loss: tf.Tensor) -> Any:
    wide = v1.train.FtrlOptimizer(0.1).minimize(loss, var_list=[v1.trainable_variables("dense")[1]])
    deep = v1.train.AdamOptimizer(0.02).minimize(
        loss, step(), var_list=[v1.trainable_variables("dense")[0], *v1.trainable_variables("embedding")]
    )
    return tf.group(wide, deep)


def some_variables(loss: tf.Tensor) -> Any:
    return v1.train.MomentumOptimizer(0.05, 0.9).minimize(loss, step(), var_list=v1.trainable_variables("dense/bias"))


def scaled(loss: tf.Tensor) -> Any:
    optimizer = v1.train.AdagradOptimizer(lambda: falling_rate() * 2.0)
    pairs = optimizer.compute_gradients(loss)
    return optimizer.apply_gradients([(3.0 * g if v.op.name == "dense/bias" else g, v) for g, v in pairs], step())


def in_a_scope(loss: tf.Tensor) -> Any:
    with v1.variable_scope("outer/inner"):
        return minimize(loss)


def counted_by_the_model(loss: tf.Tensor) -> Any:
    done = v1.train.FtrlOptimizer(0.1).minimize(loss)
    with tf.control_dependencies([done]):
        return v1.assign_add(step(), 1).op


TRAINING = [minimize, clipped, two_optimizers, two_adams, some_variables, scaled, in_a_scope, counted_by_the_model]


@pytest.mark.parametrize("num_ps", [long(1), 2])
@pytest.mark.parametrize("train", TRAINING, ids=lambda train: train.__name__)
@pytest.mark.usual(1)
def test_point_66_and_69_the_values_are_those_of_tensorflow(train: Callable[[tf.Tensor], Any], num_ps: int) -> None:
    check(program_of(train), num_ps)


def the_loss_after_the_step(loss: tf.Tensor) -> Any:
    with tf.control_dependencies([minimize(loss)]):
        return tf.identity(loss)


def by_optimize_loss(loss: tf.Tensor) -> Any:
    return optimize_loss(loss, step(), 0.1, "Adagrad", clip_gradients=1.0)


@pytest.mark.parametrize("train", [the_loss_after_the_step, by_optimize_loss])
def test_a_train_op_may_be_a_tensor(train: Callable[[tf.Tensor], Any]) -> None:
    check(program_of(train), 1)


@pytest.mark.long
def test_point_66_several_steps_in_a_call(num_ps: int = 2) -> None:
    check(program_of(two_adams), num_ps, steps_per_run="4")


def test_point_67_moving_averages_move_if_the_train_op_waits_for_them() -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        mean = v1.get_variable("mean", [5], initializer=v1.zeros_initializer(), trainable=False)
        move = v1.assign_sub(mean, 0.1 * (mean - tf.reduce_mean(features["x"], 0)))
        v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, move.op)
        never = v1.get_variable("never", [], initializer=v1.zeros_initializer(), trainable=False)
        unused = v1.assign_add(never, 1.0)
        assert unused is not None
        looked_up = tf.reduce_mean(tf.nn.embedding_lookup(embedding(), features["ids"]), 1)
        loss = tf.reduce_mean((network(features, looked_up) - labels) ** 2)
        with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
            return spec_of(loss, minimize(loss))

    check(Program(model_fn, input_fn, CONFIG, "unused"), 2)


@pytest.mark.long
@pytest.mark.parametrize("lookup", ["lookup_v1", long("vector")])
def test_point_68_synchronous_workers_apply_the_mean_of_their_gradients(lookup: str) -> None:
    program = program_of(clipped, LOOKUPS[lookup])
    model = CapturedModel(program, survey_program(program), True)
    cluster = InProcessCluster(model, 2, 2, None, 64, epochs=1, update="sync")
    cluster.start()
    initial = cluster.values()
    cluster.train(STEPS)
    found = cluster.values()
    for name, value in plain_values(program, initial, STEPS).items():  # both read the same batches
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.long
def test_point_70_metrics_in_training_leave_the_looked_up_variables_in_their_collections() -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        loss = tf.reduce_mean((network(features, LOOKUPS["lookup_v1"](features)) - labels) ** 2)
        v1.metrics.mean(loss)
        names = [variable.op.name for variable in v1.trainable_variables()]
        assert names == ["embedding", "dense/kernel", "dense/bias"] == [v.op.name for v in v1.global_variables()][-3:]
        return spec_of(loss, v1.train.AdagradOptimizer(0.1).minimize(loss, step(), v1.trainable_variables("e")))

    check(Program(model_fn, input_fn, CONFIG, "unused"), 2)


@pytest.mark.long
@pytest.mark.parametrize("scope", ["dnn", "a/rather/long/scope/of/names"])
def test_point_69_slots_of_partitioned_variables_have_the_keys_of_tensorflows_saver(
    tmp_path: pathlib.Path, scope: str
) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> estimator.EstimatorSpec:
        with v1.variable_scope(scope, partitioner=v1.fixed_size_partitioner(1)):
            looked_up = tf.reduce_mean(tf.nn.embedding_lookup(embedding(), features["ids"]), 1)
            loss = tf.reduce_mean((network(features, looked_up) - labels) ** 2)
            return estimator.EstimatorSpec(mode, loss=loss, train_op=by_adam(loss))

    for engine, steps in (("tensorflow", 2), ("ps_train", 4), ("tensorflow", 6)):
        config = estimator.RunConfig(str(tmp_path), engine=engine)
        trained = estimator.Estimator(model_fn, config=config).train(input_fn, max_steps=steps)
        names = [name for name in trained.get_variable_names() if not name.startswith("ps_train/")]
        assert len(names) == 1 + 3 * 3 + 2  # the step, variables with two slots each, and the powers of beta
        assert trained.get_variable_value("global_step") == steps


@pytest.mark.long
def test_point_85_hooks_know_that_the_engine_ends_the_job() -> None:
    program = program_of(minimize)
    model = CapturedModel(program, survey_program(program), is_chief=False)
    cluster = InProcessCluster(model, 1, 1, None, 64, epochs=1)
    with cluster.steps[0].graph.as_default():
        assert model.hooks() == []
        assert v1.get_collection(ENGINE_ENDS_JOB)


def by_adam(loss: tf.Tensor) -> Any:
    return v1.train.AdamOptimizer(0.01).minimize(loss, step())
