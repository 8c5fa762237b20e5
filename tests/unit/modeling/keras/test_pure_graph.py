"""Functions with variables as graphs without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ps_train.base.errors import ModelError
from ps_train.modeling.keras.pure_graph import PureGraph, without_variables


def pure(function: Callable[..., Any], *arguments: tf.TensorSpec, **variables: tf.Variable) -> PureGraph:
    made = tf.function(function, autograph=False).get_concrete_function(*arguments)
    return without_variables(made, variables, "the function")


def results(graph: PureGraph, **inputs: Any) -> dict[str, Any]:
    """Returns the new values of the variables, given their values and the arguments."""
    tensors = list(graph.results.values())
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        given = {f"{name}:0": tf.constant(inputs[name]) for name in graph.inputs_of(*tensors)}
        found = tf.graph_util.import_graph_def(graph.slice(tensors), given, tensors)
        return dict(zip(graph.results, session.run(found), strict=True))


X = tf.TensorSpec([], name="x")


def test_a_read_after_an_assignment_is_the_new_value() -> None:
    v, w = tf.Variable(1.0), tf.Variable(2.0)

    def step(x: tf.Tensor) -> None:
        v.assign_add(x)
        w.assign(v * w)
        v.assign_sub(1.0)

    found = results(pure(step, X, v=v, w=w), x=3.0, v=10.0, w=2.0)
    assert found == {"v": 12.0, "w": 26.0}
    assert v.numpy() == 1.0


def test_a_branch_that_leaves_a_variable_keeps_its_value_and_variables_stay_apart() -> None:
    v, w = tf.Variable(1.0), tf.Variable(2.0)

    def step(x: tf.Tensor) -> None:
        tf.cond(x > 0, lambda: [v.assign(x), w.assign_add(1.0)], lambda: [w.assign_add(2.0), w.assign_add(3.0)])

    graph = pure(step, X, v=v, w=w)
    assert results(graph, x=4.0, v=1.0, w=2.0) == {"v": 4.0, "w": 3.0}
    assert results(graph, x=-4.0, v=1.0, w=2.0) == {"v": 1.0, "w": 7.0}
    assert graph.inputs_of(graph.results["w"]) == {"x", "w"}


def test_functions_with_variables_are_followed_and_loops_without_are_kept() -> None:
    v = tf.Variable([1.0, 2.0])

    @tf.function(autograph=False)
    def inner(variable: tf.Variable, x: tf.Tensor) -> tf.Tensor:
        variable.assign(variable * x)
        return tf.reduce_sum(variable) + tf.cast(tf.shape(variable)[0], tf.float32)

    def step(x: tf.Tensor) -> None:
        total = inner(v, x)
        v.assign_add([total, tf.while_loop(lambda i: i < 10.0, lambda i: [i * 2.0], [x])[0]])

    found = results(pure(step, X, v=v), x=3.0, v=[1.0, 2.0])
    np.testing.assert_allclose(found["v"], [3 + 9 + 2, 6 + 12])


def test_a_value_from_outside_is_a_constant() -> None:
    v, outer = tf.Variable(1.0), tf.constant(5.0)
    assert results(pure(lambda x: v.assign(x + outer), X, v=v), x=2.0) == {"v": 7.0}


def test_a_loop_that_changes_a_variable_is_refused() -> None:
    v = tf.Variable(1.0)

    def step(x: tf.Tensor) -> None:
        tf.while_loop(lambda i: i < x, lambda i: [i + v.assign_add(1.0)], [0.0])

    with pytest.raises(ModelError, match="the function uses the operation While on a variable"):
        pure(step, X, v=v)


def test_a_table_is_refused() -> None:
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer([1], [2.0]), 0.0)
    v = tf.Variable(1.0)
    with pytest.raises(ModelError, match=r"the function uses .*, which is neither a variable nor a value"):
        pure(lambda x: v.assign(table.lookup(tf.cast(x, tf.int32))), X, v=v)
