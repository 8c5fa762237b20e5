"""Estimator programs for tests, and the values that TensorFlow itself trains with them."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.capture.captured_model import CapturedModel
from ps_train.compat.capture.estimator_program import Program
from ps_train.compat.capture.survey import Survey, survey_program
from ps_train.engine.variables.trace import ModelVariables, VariableTrace
from tests.support.clusters.cluster import InProcessCluster

STEPS, BATCH, ROWS = 12, 8, 40
_random = np.random.default_rng(4)
X = _random.normal(size=(96, 5)).astype(np.float32)
IDS = _random.integers(0, ROWS, size=(96, 3))
Y = _random.normal(size=(96, 1)).astype(np.float32)
CONFIG = types.SimpleNamespace(tf_random_seed=1)


def input_fn() -> Any:
    return tf.data.Dataset.from_tensor_slices(({"x": X, "ids": IDS}, Y)).repeat().batch(BATCH)


def network(features: Any, looked_up: Any) -> tf.Tensor:
    """A dense layer on numbers and the mean of looked-up rows."""
    with v1.variable_scope("dense"):
        kernel = v1.get_variable("kernel", [9, 1], initializer=v1.glorot_uniform_initializer(seed=1))
        bias = v1.get_variable("bias", [1], initializer=v1.zeros_initializer())
    return tf.concat([features["x"], looked_up], 1) @ kernel + bias


def embedding(name: str = "embedding", **options: Any) -> Any:
    return v1.get_variable(name, [ROWS, 4], initializer=v1.random_normal_initializer(0, 0.3, seed=3), **options)


def spec_of(loss: tf.Tensor, train_op: Any, **more: Any) -> Any:
    usual = {"training_hooks": None, "training_chief_hooks": None, "scaffold": None}
    return types.SimpleNamespace(loss=loss, train_op=train_op, **{**usual, **more})


def program_of(train: Callable[[tf.Tensor], Any], lookup: Callable[[Any], tf.Tensor] | None = None) -> Program:
    """A program whose model_fn trains by `train`, which takes the loss and returns the train_op."""

    def usual(features: Any) -> tf.Tensor:
        return tf.reduce_mean(tf.nn.embedding_lookup(embedding(), features["ids"]), 1)

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        loss = tf.reduce_mean((network(features, (lookup or usual)(features)) - labels) ** 2)
        return spec_of(loss, train(loss))

    return Program(model_fn, input_fn, CONFIG, "unused")


def in_one_piece(getter: Any, *args: Any, **options: Any) -> Any:
    return getter(*args, **{**options, "partitioner": None})


def plain_values(program: Program, initial: dict[str, np.ndarray], steps: int) -> dict[str, np.ndarray]:
    """The variables after steps of TensorFlow's own, which begin with the initial values."""
    with tf.Graph().as_default():
        v1.train.create_global_step()
        features, labels = v1.data.make_one_shot_iterator(program.input_fn()).get_next()
        with v1.variable_scope(v1.get_variable_scope(), use_resource=True, custom_getter=in_one_piece):
            spec = program.model_fn(features, labels, "train")
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for variable in v1.global_variables():
                variable.load(initial[variable.op.name], session)
            for _ in range(steps):
                session.run(spec.train_op)
            return {variable.op.name: session.run(variable) for variable in v1.global_variables()}


def check(program: Program, num_ps: int, **fields: Any) -> Survey:
    """Trains on the engine and in a plain session, and compares all variables."""
    survey = survey_program(program)
    cluster = InProcessCluster(CapturedModel(program, survey, True), num_ps, 1, None, 64, epochs=1, **fields)
    check_as_traced(survey, cluster.traced)
    cluster.start()
    initial = cluster.values()
    cluster.train(STEPS, run=int(fields.get("steps_per_run", 1)))
    found, expected = cluster.values(), plain_values(program, initial, STEPS)
    assert found.keys() - expected.keys() == {"ps_train/examples", "ps_train/skipped", "ps_train/dropped"}
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
    assert expected["global_step"] == STEPS
    return survey


def check_as_traced(survey: Survey, traced: ModelVariables) -> None:
    """Checks that the survey, if it knows the variables, has found exactly those of the trace, in its order."""
    if survey.variables is not None:
        assert survey.variables.specs() == traced.specs()
        assert list(map(_facts, survey.variables.variables.values())) == list(map(_facts, traced.variables.values()))


def _facts(variable: VariableTrace) -> dict[str, Any]:
    """All facts; an initializer by its kind and settings, and that of a table's variable not: its rows have one."""
    initializer = None if variable.table else variable.initializer
    kind = initializer if isinstance(initializer, type) else type(initializer)
    settings = initializer.get_config() if hasattr(initializer, "get_config") else {}
    return {**vars(variable), "initializer": (kind, settings), "given": np.array(variable.given).tolist()}


def step() -> tf.Tensor:
    return v1.train.get_global_step()


def falling_rate() -> tf.Tensor:
    return v1.train.exponential_decay(0.1, step(), 3, 0.8, staircase=True)


def minimize(loss: tf.Tensor) -> Any:
    return v1.train.AdagradOptimizer(0.1).minimize(loss, step())


def clipped(loss: tf.Tensor) -> Any:
    optimizer = v1.train.AdagradOptimizer(falling_rate())
    gradients, variables = zip(*optimizer.compute_gradients(loss), strict=True)
    return optimizer.apply_gradients(zip(tf.clip_by_global_norm(gradients, 0.4)[0], variables, strict=True), step())


def two_adams(loss: tf.Tensor) -> Any:
    with tf.name_scope("training"):
        first = v1.train.AdamOptimizer(0.02).minimize(loss, var_list=v1.trainable_variables("dense"))
        second = v1.train.AdamOptimizer(falling_rate()).minimize(loss, var_list=v1.trainable_variables("embedding"))
        with tf.control_dependencies([first, second]):  # whose rate is that of the step before
            return v1.assign_add(step(), 1).op


def _to_sparse(ids: tf.Tensor) -> tf.SparseTensor:
    where = tf.where(ids >= 0)
    return tf.SparseTensor(where, tf.gather_nd(ids, where), tf.shape(ids, tf.int64))


def vector(features: Any) -> tf.Tensor:
    found = v1.get_variable("first_order", [ROWS], initializer=v1.random_normal_initializer(0, 0.3, seed=3))
    looked_up = tf.reduce_sum(tf.nn.embedding_lookup(found, features["ids"]), 1, keepdims=True)
    return tf.tile(looked_up, [1, 4])


LOOKUPS: dict[str, Callable[[Any], tf.Tensor]] = {
    "gather": lambda f: tf.reduce_sum(tf.gather(embedding(), f["ids"]), 1),
    "lookup_v2": lambda f: tf.reduce_sum(tf.nn.embedding_lookup(embedding(), f["ids"]), 1),
    "lookup_v1": lambda f: tf.reduce_sum(v1.nn.embedding_lookup([embedding()], f["ids"]), 1),
    "sparse": lambda f: v1.nn.embedding_lookup_sparse(embedding(), _to_sparse(f["ids"]), None, combiner="mean"),
    "safe_sparse": lambda f: v1.nn.safe_embedding_lookup_sparse(embedding(), _to_sparse(f["ids"]), combiner="sqrtn"),
    "partitioned": lambda f: v1.nn.safe_embedding_lookup_sparse(
        embedding(partitioner=v1.fixed_size_partitioner(3)), _to_sparse(f["ids"]), combiner="sum"
    ),
    "column": lambda f: v1.feature_column.input_layer(
        {"ids": f["ids"]},
        [
            tf.feature_column.embedding_column(
                tf.feature_column.categorical_column_with_identity("ids", ROWS),
                4,
                initializer=v1.random_normal_initializer(0, 0.3, seed=3),
            )
        ],
    ),
    "vector": vector,
    "linear_column": lambda f: tf.tile(
        v1.feature_column.linear_model(
            {"ids": f["ids"]}, [tf.feature_column.categorical_column_with_identity("ids", ROWS)]
        ),
        [1, 4],
    ),
}
