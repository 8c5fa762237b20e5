"""The tensors of a batch have the names that a user knows them by."""

from __future__ import annotations

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.data.arrays import Batch
from ps_train.data.named_inputs import (
    dense_inputs,
    input_name,
    inputs_of,
    label_error,
    name_of,
    named_inputs,
    remember_inputs,
)


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def tensor(dtype=tf.float32):
    return v1.placeholder(dtype, [None, 3])


def test_names_are_those_of_dicts_and_tuples():
    x, y, z = tensor(), tensor(), tensor()
    assert dense_inputs(x, y) == {"features": x, "labels": y}
    assert dense_inputs({"age": x, "deep": {"a": z}}, {"click": y}) == {
        "feature age": x, "feature deep/a": z, "label click": y,
    }  # fmt: skip
    assert dense_inputs((x, z), None) == {"feature [0]": x, "feature [1]": z}
    assert dense_inputs(Batch({"age": x}, y), z) == {"feature age": x, "labels": y}


def test_sparse_and_ragged_features_have_names_and_no_batch():
    sparse = v1.sparse_placeholder(tf.int64, [None, 4])
    ragged = tf.RaggedTensor.from_row_splits(tf.RaggedTensor.from_row_splits([1, 2], [0, 2]), [0, 1])
    features = {"words": sparse, "sizes": ragged}
    assert dense_inputs(features, None) == {}
    assert named_inputs(features, None) == {"feature words": sparse.values, "feature sizes": ragged.values.values}


def test_a_cast_of_an_input_has_its_name_and_a_sum_has_none():
    x, y = tensor(tf.int32), tensor()
    named = dense_inputs({"age": x}, y)
    assert name_of(tf.reshape(tf.cast(x[:, 0], tf.float32), [-1, 1]), named) == "feature age"
    assert name_of(tf.reduce_sum(y, 1), named) == name_of(tensor(), named) == ""


def test_a_graph_remembers_its_inputs(graph):
    x, y = tensor(), tensor()
    assert input_name(x) == ""
    remember_inputs({"age": x}, y)
    assert inputs_of(graph) == [("feature age", x), ("labels", y)]
    assert input_name(tf.identity(x)) == "feature age"


def test_a_label_in_the_log_lines_of_another_call_is_not_the_cause():
    fault = "Received a label value of -1 which is outside the valid range of [0, 3)."
    own = tf.errors.InvalidArgumentError(None, None, fault)
    other = tf.errors.InvalidArgumentError(
        None, None, f"indices[0] = 7 is not in [0, 3)\nRecent warning and error logs:\n  OP_REQUIRES failed: {fault}"
    )
    assert "the value -1" in str(label_error(own))
    assert label_error(other) is None
