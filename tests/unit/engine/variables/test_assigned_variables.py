"""The variables that a model assigns itself, wherever it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.variables.assigned_variables import assigned_variables


@pytest.fixture
def variables():
    with tf.Graph().as_default():
        yield {
            name: v1.get_variable(name, [4], initializer=v1.zeros_initializer(), use_resource=True)
            for name in ("read", "other")
        }


ONES = [1.0] * 4


@tf.function
def assigning(variable: Any) -> tf.Tensor:
    variable.assign_add(ONES)
    return tf.constant(0.0)


@pytest.mark.parametrize(
    "assign",
    [
        lambda v: v.assign(ONES),
        lambda v: v.assign_add(ONES),
        lambda v: v.scatter_nd_update([[0]], [1.0]),
        lambda v: tf.cond(tf.constant(True), lambda: v.assign(ONES).op, lambda: tf.no_op()),
        lambda v: tf.while_loop(lambda i: i < 2, lambda i: [i + 1 + int(v.assign(ONES) is None)], [tf.constant(0)]),
        assigning,
    ],
    ids=["assign", "assign_add", "scatter", "branch", "loop", "function"],
)
@pytest.mark.parametrize("is_v2", [True, False], ids=["functional", "in the graph"])
def test_an_assignment_is_found(variables, assign: Callable[[Any], Any], is_v2: bool) -> None:
    with v1.variable_scope("", use_resource=True):
        (v1.enable_control_flow_v2 if is_v2 else v1.disable_control_flow_v2)()
        try:
            assign(variables["other"])
        finally:
            v1.enable_control_flow_v2()
    assert assigned_variables(variables) == ["other"]


def test_reading_and_initializing_do_not_count(variables) -> None:
    read = variables["read"]
    _ = [read + 1.0, tf.gather(read, [0]), read.is_initialized(), tf.shape(read), v1.global_variables_initializer()]
    assert assigned_variables(variables) == []


def test_operations_may_be_left_out(variables) -> None:
    done = variables["read"].assign(ONES).op
    assert assigned_variables(variables, apart=[done]) == [] and assigned_variables(variables) == ["read"]


def test_an_empty_graph_assigns_nothing() -> None:
    with tf.Graph().as_default():
        assert assigned_variables({}) == []
