"""Rows of dense, ragged and sparse values are taken as numpy takes those of a dense array."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.data.example_rows import count_of, gather_rows, one_row_of_zeros, slice_rows

DENSE = np.array([[1, 2, 0], [0, 0, 0], [3, 0, 4], [0, 0, 5]])
LISTS = [[1, 2], [], [3, 4, 6], [5]]


def values(wide=True):
    sparse = tf.sparse.from_dense(DENSE)
    if not wide:
        sparse = tf.SparseTensor(sparse.indices, sparse.values, v1.placeholder_with_default(sparse.dense_shape, [2]))
    return {"dense": tf.constant(DENSE), "ragged": tf.ragged.constant(LISTS), "sparse": sparse, "one": tf.range(4)}


def found(make, wide=True):
    """Returns nested values of `make` as dense arrays and lists."""
    with tf.Graph().as_default(), v1.Session() as session:
        result = make(values(wide))
        result["sparse"] = tf.sparse.to_dense(result["sparse"])
        found = session.run(result)
        return {**found, "ragged": found["ragged"].to_list()}


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("rows", [[2, 0, 3, 1], [0, 1, 2, 3], [3], [1, 2], [1], []])
def test_rows_in_an_order(rows, wide):
    got = found(lambda all_values: gather_rows(all_values, tf.constant(rows, tf.int64)), wide)
    np.testing.assert_array_equal(got["dense"], DENSE[rows].reshape(-1, 3))
    np.testing.assert_array_equal(got["sparse"], DENSE[rows].reshape(-1, 3))
    assert got["ragged"] == [LISTS[row] for row in rows] and got["one"].tolist() == rows


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize(("first", "last"), [(0, 4), (1, 3), (2, 2), (3, 4)])
def test_rows_from_and_to(first, last, wide):
    def cut(all_values):
        return slice_rows(all_values, tf.constant(first, tf.int64), tf.constant(last, tf.int64))

    got = found(cut, wide)
    np.testing.assert_array_equal(got["dense"], DENSE[first:last])
    np.testing.assert_array_equal(got["sparse"], DENSE[first:last])
    assert got["ragged"] == LISTS[first:last] and got["one"].tolist() == list(range(first, last))


@pytest.mark.parametrize("wide", [True, False])
def test_one_row_of_zeros(wide):
    got = found(one_row_of_zeros, wide)
    assert got["dense"].tolist() == got["sparse"].tolist() == [[0, 0, 0]] and got["ragged"] == [[]]
    assert got["one"].tolist() == [0]


def test_texts_become_empty_texts():
    with tf.Graph().as_default(), v1.Session() as session:
        assert session.run(one_row_of_zeros(tf.constant(["a", "b"]))).tolist() == [b""]


@pytest.mark.parametrize("name", ["dense", "ragged", "sparse", "one"])
def test_the_number_of_examples_is_that_of_the_first_value(name):
    with tf.Graph().as_default(), v1.Session() as session:
        count = count_of([values(wide=False)[name], tf.zeros([9])])
        assert count.dtype == tf.int64 and session.run(count) == 4


@pytest.mark.parametrize("function", [lambda v: gather_rows(v, tf.constant([1, 0], tf.int64)), one_row_of_zeros])
def test_the_static_width_of_a_sparse_value_stays(function):
    with tf.Graph().as_default():
        assert function(values()["sparse"]).shape[1] == 3
