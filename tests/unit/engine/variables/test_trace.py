"""A trace of a model finds its variables, and refuses a model that cannot be trained."""

from __future__ import annotations

import gc
import logging
import weakref

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.cluster.membership.job_diff import USES
from ps_train.engine.variables.plan import VariableSpec
from tests.support.graphs.tracing import refusal, traced, weights


def test_variables_are_found_with_name_shape_and_type_in_their_order():
    def forward(features):
        with v1.variable_scope("layer"):
            hidden = features @ weights(shape=[4, 3])
        count = v1.get_variable("count", [], tf.int64, trainable=False)
        with v1.variable_scope("out"):
            return hidden @ weights(shape=[3, 1]) + weights("b", shape=[1]) + tf.cast(count, tf.float32)

    assert traced(forward).specs() == [
        VariableSpec("layer/w", (4, 3), "float32", 4),
        VariableSpec("count", (), "int64", 8, divisible=False),
        VariableSpec("out/w", (3, 1), "float32", 4),
        VariableSpec("out/b", (1,), "float32", 4),
    ]


def test_the_graph_of_a_trace_is_freed():
    graphs = []

    def forward(features):
        graphs.append(weakref.ref(v1.get_default_graph()))
        return features @ weights(initializer=v1.constant_initializer(2.0))

    found = traced(forward)
    gc.collect()
    assert list(found.variables) == ["w"]
    assert [graph() for graph in graphs] == [None]


def test_types_other_than_float32_are_kept():
    def forward(features):
        wide = tf.cast(features, tf.float64) @ weights(dtype=tf.float64)
        return tf.cast(wide, tf.float32) + tf.cast(
            tf.cast(features, tf.float16) @ weights("h", dtype=tf.float16), tf.float32
        )

    assert [(spec.dtype, spec.bytes) for spec in traced(forward).specs()] == [("float64", 32), ("float16", 8)]


def test_a_variable_that_is_used_twice_is_found_once():
    def forward(features):
        with v1.variable_scope("shared", reuse=v1.AUTO_REUSE):
            return features @ weights() + features @ weights()

    assert list(traced(forward).variables) == ["shared/w"]


def test_the_description_of_a_model_shows_every_variable():
    described = traced(lambda x: x @ weights()).described()
    assert {name: kind for name, kind in described.items() if name != USES} == {"variable w": "[4, 1] float32"}


def test_a_partitioner_of_the_model_does_not_partition():
    found = traced(lambda x: x @ tf.convert_to_tensor(weights(partitioner=v1.fixed_size_partitioner(2))))
    assert found.specs() == [VariableSpec("w", (4, 1), "float32", 4)]


def test_tracing_leaves_nothing_in_the_graph_of_the_caller():
    with tf.Graph().as_default() as graph:
        traced(lambda x: x @ weights())
        assert graph.get_operations() == []


@pytest.mark.parametrize(
    ("loss", "shown"),
    [
        (lambda o, y: tf.square(o - y), "(None, 1)"),
        (lambda o, y: tf.reshape(tf.reduce_mean(o), [1]), "(1,)"),
    ],
)
def test_a_loss_that_is_no_scalar_is_refused_with_its_shape(loss, shown):
    message = refusal(lambda x: x @ weights(), loss)
    assert "loss()" in message
    assert shown in message
    assert "tf.reduce_mean" in message


@pytest.mark.parametrize(
    ("value", "shown"), [(0.5, "float 0.5"), (None, "None"), (np.float32(1), "float32 "), ("low", "str 'low'")]
)
def test_a_loss_that_is_no_tensor_is_refused_and_shown(value, shown):
    message = refusal(lambda x: x @ weights(), lambda o, y: value)
    assert f"loss() returned {shown}" in message
    assert "scalar" in message


def test_a_loss_that_is_an_integer_is_refused():
    message = refusal(lambda x: x @ weights(), lambda o, y: tf.cast(tf.reduce_sum(o), tf.int32))
    assert "int32" in message
    assert "floating-point" in message


def test_a_model_without_variables_is_refused():
    message = refusal(lambda x: x)
    assert "no trainable variable" in message
    assert "get_variable" in message


def test_a_model_without_trainable_variables_is_refused():
    assert "no trainable variable" in refusal(lambda x: x @ weights(trainable=False))


def test_a_constraint_is_refused_with_the_variable():
    message = refusal(lambda x: x @ weights(constraint=lambda value: value))
    assert "variable w" in message
    assert "constraint" in message


def test_a_loss_that_depends_on_no_variable_is_refused_with_the_variables():
    message = refusal(lambda x: tf.stop_gradient(x @ weights()) + tf.stop_gradient(weights("b", shape=[1])))
    assert "w, b" in message
    assert "depends on none" in message


def test_one_variable_that_the_loss_does_not_depend_on_is_not_learned_and_warned_of(caplog):
    with caplog.at_level(logging.WARNING, logger="ps_train"):
        found = traced(lambda x: x @ weights() + tf.stop_gradient(weights("frozen", shape=[1])))
    assert found.with_gradient() == ["w"]
    assert found.dense_trainable() == ["w", "frozen"]
    assert [record.getMessage() for record in caplog.records if "frozen" in record.getMessage()]


def test_a_variable_that_is_not_trainable_is_neither_learned_nor_pulled_nor_warned_of(caplog):
    with caplog.at_level(logging.WARNING, logger="ps_train"):
        found = traced(lambda x: x @ weights() + weights("mean", shape=[1], trainable=False))
    assert found.with_gradient() == found.dense_trainable() == ["w"]
    assert not found.variables["mean"].has_gradient
    assert not caplog.records


def test_a_sparse_gradient_is_warned_of(caplog):
    def forward(features):
        return tf.gather(weights("table", shape=[10, 1]), tf.cast(features[:, 0], tf.int32))

    with caplog.at_level(logging.WARNING, logger="ps_train"):
        assert traced(forward).with_gradient() == ["table"]
    assert any("table" in record.getMessage() and "sparse" in record.getMessage() for record in caplog.records)


def test_an_exception_of_the_models_own_code_is_told_with_its_place():
    def forward(features):
        raise ZeroDivisionError("of the user")

    message = refusal(forward)
    assert message.startswith("forward() raised ZeroDivisionError: of the user (tests/")
    assert message.endswith(', in forward: raise ZeroDivisionError("of the user"))')
