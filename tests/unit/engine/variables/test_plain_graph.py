"""The variables that a model is given in a graph of one process, where a checkpoint is scored or exported."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import embeddings
from ps_train.engine.variables.plain_graph import is_trained, model_value, plain_graph
from ps_train.engine.variables.user_variables import UnknownVariableError


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def test_each_variable_is_an_ordinary_one_under_its_name_and_made_once() -> None:
    with plain_graph() as plain:
        first = v1.get_variable("w", [2], initializer=v1.constant_initializer(3.0))
        second = tf.Variable([1.0, 5.0], name="b")
        total = first + second
        v1.get_local_variable("seen", [])
        with v1.variable_scope("", reuse=True):
            again = v1.get_variable("w", [2])
    assert list(plain.variables) == ["w", "b"] and len(v1.global_variables()) == 2
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        np.testing.assert_array_equal(session.run([total, again]), [[4.0, 8.0], [3.0, 3.0]])
        plain.variables["w"].load(np.float32([7.0, 7.0]), session)
        np.testing.assert_array_equal(session.run([total, again]), [[8.0, 12.0], [7.0, 7.0]])


@pytest.mark.parametrize("known", [[], ["other"]])
def test_a_variable_that_the_checkpoint_lacks_is_refused_with_the_place(known: list[str]) -> None:
    with (
        pytest.raises(UnknownVariableError, match=r"/runs/1 has no variable w, which forward\(training=False\) makes"),
        plain_graph(known, "/runs/1"),
    ):
        v1.get_variable("w", [2])


def test_known_variables_may_be_left_out() -> None:
    with plain_graph({"w": (2,), "b": ()}) as plain:
        v1.get_variable("b", [])
    assert list(plain.variables) == ["b"]


KINDS = {
    "trained": ({}, True),
    "float64": ({"dtype": tf.float64}, True),
    "not trainable": ({"trainable": False}, False),
    "integer": ({"dtype": tf.int32}, False),
}


@pytest.mark.parametrize(("options", "trained"), KINDS.values(), ids=KINDS)
def test_a_trained_variable_is_given_as_its_value_and_others_as_they_are(options: Any, trained: bool) -> None:
    variable = v1.get_variable("w", [2], initializer=v1.zeros_initializer(), use_resource=True, **options)
    assert is_trained(variable) is trained
    with v1.name_scope("model"):
        given = model_value("w", variable)
    assert (given is variable) != trained
    if trained:
        assert given.op.type in ("Identity", "ReadVariableOp") and not given.name.startswith("model")


def test_the_value_of_a_variable_that_is_made_in_a_branch_is_read_outside_of_it() -> None:
    with plain_graph() as plain:
        found = tf.cond(tf.constant(True), lambda: v1.get_variable("w", [2]) * 1.0, lambda: tf.zeros(2))
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        np.testing.assert_array_equal(session.run(found), session.run(plain.variables["w"]))


def test_a_table_is_given_as_a_variable() -> None:
    with plain_graph() as plain:
        rows = embeddings.lookup("t", tf.constant([4]), rows=5, dimension=2)
    assert plain.variables["t"].shape == [5, 2]
    assert model_value("t", plain.variables["t"]) is plain.variables["t"]
    assert any(op.type == "ResourceGather" for op in rows.graph.get_operations()), "not read whole"
