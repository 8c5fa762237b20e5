"""Features of an export are the same from named tensors and from serialized examples."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.data.served_features import ServedFeatures

TEXTS = [[b"a", b"b"], [], [b"c"]]


def bytes_list(values):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))


def int64_list(values):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def float_list(values):
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def example(**features):
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def values_of(make, examples, feeds=None):
    """Returns the features of serialized examples, or of fed inputs; `make` returns those of a batch."""
    with tf.Graph().as_default():
        served = ServedFeatures(make())
    with tf.Graph().as_default(), v1.Session() as session:
        serialized = v1.placeholder(tf.string, [None])
        features, inputs = served.placeholders(serialized)
        given = {inputs[name]: value for name, value in (feeds or {}).items()}
        return session.run(features, {serialized: [] if feeds else examples, **given})


def of_dataset(elements):
    return v1.data.make_initializable_iterator(tf.data.Dataset.from_tensor_slices(elements).batch(2)).get_next()


@pytest.mark.parametrize("splits", [tf.int32, tf.int64])
def test_ragged_features(splits):
    def make():
        return of_dataset({"words": tf.ragged.constant(TEXTS, row_splits_dtype=splits)})

    parsed = values_of(make, [example(words=bytes_list(words)) for words in TEXTS])["words"]
    fed = values_of(make, [], {"words_values": [b"a", b"b", b"c"], "words_row_splits": [0, 2, 2, 3]})["words"]
    assert parsed.to_list() == fed.to_list() == TEXTS
    assert parsed.row_splits.dtype == fed.row_splits.dtype == splits.as_numpy_dtype
    assert values_of(make, [example()])["words"].to_list() == [[]]


def test_sparse_features_of_any_width_are_lists():
    def make():
        lists = v1.sparse_placeholder(tf.int32, [None, None])
        return {"ids": lists}

    parsed = values_of(make, [example(ids=int64_list(ids)) for ids in ([5, 6], [], [7])])["ids"]
    positions = [[0, 0], [0, 1], [2, 0]]
    fed = values_of(make, [], {"ids_indices": positions, "ids_values": [5, 6, 7], "ids_dense_shape": [3, 2]})["ids"]
    for found in (parsed, fed):
        assert found.indices.tolist() == positions and found.values.tolist() == [5, 6, 7]
        assert found.dense_shape.tolist() == [3, 2] and found.values.dtype == np.int32


def test_sparse_features_of_a_known_width_keep_their_positions():
    def make():
        return of_dataset({"x": tf.sparse.from_dense([[0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 3.0]])})

    examples = [
        example(x_indices=int64_list([1]), x_values=float_list([2.0])),
        example(),
        example(x_indices=int64_list([2, 0]), x_values=float_list([3.0, 1.0])),
    ]
    found = values_of(make, examples)["x"]
    assert found.indices.tolist() == [[0, 1], [2, 0], [2, 2]] and found.values.tolist() == [2.0, 1.0, 3.0]
    assert found.dense_shape.tolist() == [3, 3]


def test_dense_features_keep_their_dtype_and_their_name_is_features_if_they_have_none():
    def make():
        return of_dataset(np.zeros((4, 2), np.float64))

    examples = [example(features=float_list([1.0, 2.0])), example(features=float_list([3.0, 4.0]))]
    found = values_of(make, examples)
    assert found.tolist() == [[1.0, 2.0], [3.0, 4.0]] and found.dtype == np.float64
    assert values_of(make, [], {"features": [[5.0, 6.0]]}).tolist() == [[5.0, 6.0]]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: (tf.zeros([2]), tf.zeros([2])), "feature features is a tuple: an export has dense features"),
        (lambda: {"a": {"b": tf.zeros([2])}}, "feature a is a dict: an export has dense features"),
        (
            lambda: v1.placeholder(tf.float32),
            r"feature features has the shape <unknown>: .*use tf.ensure_shape",
        ),
        (lambda: {"x": v1.placeholder(tf.float32, [None, None])}, r"feature x has the shape \(None, None\): .*ensure"),
        (lambda: tf.ragged.constant([[[1]], [[2], []]]), "feature features has the shape .*; leave out --export_dir"),
        (lambda: {"s": v1.sparse_placeholder(tf.int64)}, "feature s has the shape .*; leave out --export_dir"),
        (
            lambda: {"a": tf.ragged.constant([[1]]), "a_values": tf.zeros([1])},
            "two inputs a_values, of different features: rename one",
        ),
    ],
)
def test_what_cannot_be_served_is_refused(make, words):
    with tf.Graph().as_default(), pytest.raises(ModelError, match=words):
        ServedFeatures(make())
