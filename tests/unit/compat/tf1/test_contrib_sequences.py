"""Columns of sequences become the input of a recurrent network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.tf1.contrib_sequences import sequence_input_layer

column = tf.feature_column
IDS = [[2, 1], [0], []]
PRICES = [[0.5, 1.5], [4.0], []]


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


def sparse(rows: list[list[Any]], dtype: tf.DType) -> tf.SparseTensor:
    return tf.RaggedTensor.from_row_splits(
        tf.constant([value for row in rows for value in row], dtype), np.cumsum([0, *map(len, rows)])
    ).to_sparse()


def features() -> dict[str, tf.SparseTensor]:
    return {"ids": sparse(IDS, tf.int64), "price": sparse(PRICES, tf.float32)}


def values(*tensors: Any) -> Any:
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        return session.run(tensors)


def test_the_values_of_a_position_are_those_of_all_columns_by_name() -> None:
    categorical = column.sequence_categorical_column_with_identity("ids", 3)
    rows = np.array([[0, 1], [2, 3], [4, 5]], np.float32)
    columns = [
        column.sequence_numeric_column("price"),
        column.embedding_column(categorical, 2, initializer=v1.constant_initializer(rows)),
        column.indicator_column(categorical),
    ]
    found, lengths = values(*sequence_input_layer(features(), columns))
    np.testing.assert_array_equal(lengths, [2, 1, 0])
    expected = np.zeros([3, 2, 2 + 3 + 1])
    for i, (ids, prices) in enumerate(zip(IDS, PRICES, strict=True)):
        for j, (one, price) in enumerate(zip(ids, prices, strict=True)):
            expected[i, j] = [*rows[one], *np.eye(3)[one], price]
    np.testing.assert_array_equal(found, expected)
    names = [variable.op.name for variable in v1.trainable_variables()]
    assert names == ["sequence_input_layer/ids_embedding/embedding_weights"]


def test_a_shared_embedding_is_that_of_all_sequences_and_of_single_values() -> None:
    rows = np.array([[0, 1], [2, 3], [4, 5]], np.float32)
    item = column.categorical_column_with_identity("item", 3)
    sequences = [column.sequence_categorical_column_with_identity(name, 3) for name in ("ids", "seen")]
    initializer = v1.constant_initializer(rows)
    shared = v1.feature_column.shared_embedding_columns([item, *sequences], 2, initializer=initializer)
    given = {
        "ids": sparse(IDS, tf.int64),
        "seen": sparse([[1, 1], [2], []], tf.int64),
        "item": tf.constant([[1], [0], [2]]),
    }
    layer = sequence_input_layer(given, shared[1:])
    of_item = v1.feature_column.input_layer(given, shared[:1])
    (variable,) = v1.trainable_variables()
    gradient = tf.convert_to_tensor(tf.gradients([tf.reduce_sum(layer[0]), tf.reduce_sum(of_item)], variable)[0])
    found, lengths, single, slopes = values(*layer, of_item, gradient)
    np.testing.assert_array_equal(lengths, [2, 1, 0])
    np.testing.assert_array_equal(single, rows[[1, 0, 2]])
    expected = np.zeros([3, 2, 4])
    expected[0, :, :2], expected[1, 0, :2] = rows[[2, 1]], rows[0]
    expected[0, :, 2:], expected[1, 0, 2:] = rows[[1, 1]], rows[2]
    np.testing.assert_array_equal(found, expected)
    assert variable.op.name == "sequence_input_layer/ids_item_seen_shared_embedding/embedding_weights"
    np.testing.assert_array_equal(slopes, np.tile([[2], [4], [3]], 2))  # how often each row is read


def test_variables_that_are_not_trained_and_further_collections() -> None:
    categorical = column.sequence_categorical_column_with_identity("ids", 3)
    sequence_input_layer(features(), [column.embedding_column(categorical, 2)], ["mine"], trainable=False)
    assert v1.trainable_variables() == [] and v1.get_collection("mine") == v1.global_variables()


def test_sequences_of_two_lengths_are_an_error() -> None:
    other = {**features(), "price": sparse([[1.0], [1.0, 1.0], []], tf.float32)}
    ids = column.indicator_column(column.sequence_categorical_column_with_identity("ids", 3))
    layer = sequence_input_layer(other, [ids, column.sequence_numeric_column("price")])
    with pytest.raises(tf.errors.InvalidArgumentError):
        values(*layer)


def test_a_column_without_sequences_is_refused() -> None:
    with pytest.raises(ValueError, match="x is not a column of sequences"):
        sequence_input_layer({"x": tf.zeros([3, 1])}, [column.numeric_column("x")])
