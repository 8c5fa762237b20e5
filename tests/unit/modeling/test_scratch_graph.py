"""Scratch graphs: what they leave out of variables, and what they keep."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import embeddings
from ps_train.modeling.scratch_graph import is_scratch, scratch_graph, without_values


def types_of(graph: tf.Graph) -> set[str]:
    return {op.type for op in graph.get_operations()}


class Own(v1.zeros_initializer):
    """An initializer that is not one of TensorFlow's."""


@pytest.mark.parametrize(
    "initializer",
    [None, v1.glorot_uniform_initializer(), v1.zeros_initializer, tf.keras.initializers.HeNormal(seed=1)],
)
def test_a_trained_variable_has_no_initial_value_in_a_scratch_graph(initializer: Any):
    arguments = {"shape": [3, 2], "initializer": initializer}
    with scratch_graph() as graph:
        assert is_scratch() and v1.get_default_graph() is graph
        variable = v1.get_variable("w", **without_values(arguments), use_resource=True)
    assert variable.shape == [3, 2] and variable.dtype == tf.float32
    assert types_of(graph) == {"Placeholder", "VarHandleOp", "VarIsInitializedOp", "AssignVariableOp", "ReadVariableOp"}
    assert not is_scratch()


@pytest.mark.parametrize(
    "arguments",
    [
        {"shape": [2], "initializer": Own()},
        {"shape": [2], "initializer": v1.orthogonal_initializer()},
        {"shape": [2], "initializer": lambda shape, dtype=None, partition_info=None: tf.ones(shape)},
        {"initializer": np.ones(3, np.float32)},
        {"shape": [2], "initializer": v1.zeros_initializer(), "trainable": False},
        {"shape": [2], "initializer": v1.zeros_initializer(), "dtype": tf.int32},
    ],
)
def test_initializers_that_may_fail_and_values_that_may_be_read_are_kept(arguments: Any):
    with scratch_graph():
        assert without_values(arguments) == arguments


def test_other_graphs_have_all_initial_values():
    arguments = {"shape": [2], "initializer": v1.zeros_initializer()}
    assert without_values(arguments) == arguments
    with tf.Graph().as_default() as graph:
        embeddings.lookup("ads", tf.constant([1]), rows=9, dimension=2)
    with scratch_graph() as scratch:
        embeddings.lookup("ads", tf.constant([1]), rows=9, dimension=2)
    assert "StatelessRandomUniformV2" in types_of(graph) - types_of(scratch)
