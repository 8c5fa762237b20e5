"""The parts of a batch: all rows in order, in every structure, and none of them empty."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.data.arrays import Arrays
from ps_train.data.data_shard import WHOLE
from ps_train.data.pipeline import evaluation_batches, training_batches
from ps_train.engine.step.towers import split_batch
from tests.support.long import long


def parts_of(data, batch_size: int, count: int, batches: int):
    """Features, labels and number of examples of the parts of each batch."""
    with tf.Graph().as_default(), v1.Session() as session:
        found = evaluation_batches(data() if callable(data) else data, batch_size)
        parts = split_batch(found, count)
        session.run(found.initializer, found.feeds())
        return [session.run([(part.features, part.labels, part.examples) for part in parts]) for _ in range(batches)]


@pytest.mark.parametrize(("count", "sizes"), [(2, [(3, 2), (1, 0)]), (3, [(2, 2, 1), (1, 0, 0)]), (1, [(5,), (1,)])])
def test_the_parts_are_nearly_equal_and_an_empty_one_gets_an_example_that_does_not_count(count, sizes):
    x = np.arange(12, dtype=np.float32).reshape(6, 2)
    for number, parts in enumerate(parts_of(Arrays(x, x[:, 0]), 5, count, 2)):
        assert tuple(int(examples) for _, _, examples in parts) == sizes[number]
        assert all(len(features) == len(labels) >= 1 for features, labels, _ in parts)
        counted = np.concatenate([features[: int(examples)] for features, _, examples in parts])
        np.testing.assert_array_equal(counted, x[5 * number : 5 * number + 5])


def mixed() -> tf.data.Dataset:
    """Seven examples of nested features and labels."""
    numbers = np.arange(7)
    sparse = tf.sparse.from_dense(np.where(np.arange(3) == numbers[:, None] % 3, numbers[:, None] + 1, 0))
    ragged = tf.ragged.constant([[9] * length for length in (3, 0, 1, 2, 2, 0, 5)], dtype=tf.int64)
    words = np.array([f"word {number}" for number in numbers])
    features = {"sparse": sparse, "pair": (words, np.arange(28).reshape(7, 2, 2))}
    return tf.data.Dataset.from_tensor_slices((features, {"y": numbers, "ragged": ragged}))


def dense(value):
    if isinstance(value, v1.SparseTensorValue):
        found = np.full(value.dense_shape, -1)
        found[tuple(value.indices.T)] = value.values
        return list(found)
    return value.to_list() if hasattr(value, "to_list") else list(value)


@pytest.mark.parametrize("count", [2, long(3)])
def test_sparse_ragged_and_nested_tensors_and_strings_are_divided(count):
    (whole,), parts = parts_of(mixed, 7, 1, 1)[0], parts_of(mixed, 7, count, 1)[0]
    for place in (
        lambda part: part[0]["sparse"],
        lambda part: part[0]["pair"][0],
        lambda part: part[0]["pair"][1],
        lambda part: part[1]["y"],
        lambda part: part[1]["ragged"],
    ):
        joined = [row for part in parts for row in dense(place(part))]
        assert len(joined) == 7
        for found, expected in zip(joined, dense(place(whole)), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_static_sizes_of_other_dimensions_are_kept():
    with tf.Graph().as_default():
        whole = evaluation_batches(mixed(), 7)
        for part in split_batch(whole, 2):
            for found, expected in zip(
                tf.nest.flatten((part.features, part.labels)),
                tf.nest.flatten((whole.features, whole.labels)),
                strict=True,
            ):
                assert found.shape.as_list() == expected.shape.as_list()
                assert type(found) is type(expected)


def test_a_batch_after_the_end_of_the_input_has_no_examples_in_any_part():
    x = np.arange(3, dtype=np.float32)
    with tf.Graph().as_default(), v1.Session() as session:
        batches = training_batches(Arrays(x, x), WHOLE, 3, 1, 0, endless=True)
        parts = split_batch(batches, 2)
        session.run(batches.initializer, batches.feeds())
        counts = [session.run([part.examples for part in parts]) for _ in range(2)]
    assert counts == [[2.0, 1.0], [0.0, 0.0]]


def test_one_part_is_the_batch_itself_and_adds_no_operation():
    with tf.Graph().as_default() as graph:
        batches = evaluation_batches(mixed(), 7)
        before = len(graph.get_operations())
        assert split_batch(batches, 1) == [batches] and len(graph.get_operations()) == before
