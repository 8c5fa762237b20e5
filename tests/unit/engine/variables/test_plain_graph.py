"""A model's variables in a plain graph."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import embeddings
from ps_train.engine.variables.plain_graph import is_trained, plain_graph
from ps_train.engine.variables.user_variables import UnknownVariableError


def test_a_trained_variable_is_given_as_its_value_and_another_one_as_it_is() -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        with plain_graph() as plain:
            w = v1.get_variable("w", [2], initializer=v1.ones_initializer())
            seen = v1.get_variable("seen", [], tf.int64, v1.zeros_initializer(), trainable=False)
            rows = embeddings.lookup("table", tf.constant([1]), rows=4, dimension=3)
            counted = seen.assign_add(1)
        assert sorted(plain.variables) == ["seen", "table", "w"] and rows.shape == [1, 3]
        session.run(v1.global_variables_initializer())
        session.run(plain.variables["w"].assign([3.0, 4.0]))
        np.testing.assert_array_equal(session.run(tf.identity(w)), [3.0, 4.0])
        session.run(counted)
        assert session.run(plain.variables["seen"]) == 1


def test_a_variable_without_a_value_is_refused() -> None:
    with tf.Graph().as_default(), plain_graph(known={"w"}, where="run/model.ckpt-5"):
        v1.get_variable("w", [2])
        with pytest.raises(UnknownVariableError, match=r"run/model\.ckpt-5 has no variable b, which"):
            v1.get_variable("b", [2])


def test_only_floating_point_variables_are_trained() -> None:
    with tf.Graph().as_default():
        made = [
            v1.get_variable(name, [1], dtype, v1.zeros_initializer(), trainable=trainable, use_resource=True)
            for name, dtype, trainable in (("a", tf.float32, True), ("b", tf.float32, False), ("c", tf.int64, True))
        ]
        assert [is_trained(variable) for variable in made] == [True, False, False]
