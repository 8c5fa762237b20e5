"""Rows of the values of many examples: dense, ragged or sparse tensors [examples, ...].

count_of(examples)                  # int64 scalar
gather_rows(examples, order)        # those rows, in that order, of each value
slice_rows(examples, first, last)
one_row_of_zeros(examples)
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def count_of(examples: Any) -> tf.Tensor:
    """Returns the number of examples, int64 scalar."""
    first = tf.nest.flatten(examples)[0]
    if isinstance(first, tf.SparseTensor):
        return first.dense_shape[0]
    return first.nrows(tf.int64) if isinstance(first, tf.RaggedTensor) else tf.shape(first, tf.int64)[0]


def gather_rows(examples: Any, rows: tf.Tensor) -> Any:
    """Returns some rows of nested values, each at most once.

    Args:
      examples: nested values of the same number of rows.
      rows: whole numbers [k], all different.
    """

    def gather(value: Any) -> Any:
        if not isinstance(value, tf.SparseTensor):
            return tf.gather(value, rows)
        places = tf.scatter_nd(rows[:, tf.newaxis], tf.range(1, tf.size(rows, tf.int64) + 1), value.dense_shape[:1])
        places = tf.gather(places, value.indices[:, 0])  # 1 is the first row, 0 a row that is not wanted
        kept = tf.sparse.retain(value, places > 0)
        places = tf.boolean_mask(places, places > 0) - 1
        indices = tf.concat([places[:, tf.newaxis], kept.indices[:, 1:]], 1)
        shape = _with_rows(value, tf.size(rows, tf.int64))
        return tf.sparse.reorder(tf.SparseTensor(indices, kept.values, shape))

    return tf.nest.map_structure(gather, examples)


def slice_rows(examples: Any, first: tf.Tensor, last: tf.Tensor) -> Any:
    """Returns the rows from `first` to `last`, exclusive (int64 scalars), of nested values."""

    def cut(value: Any) -> Any:
        if not isinstance(value, tf.SparseTensor):
            return value[first:last]
        shape = tf.unstack(value.dense_shape, value.shape.rank)[1:]
        zeros = [tf.constant(0, tf.int64) for _ in shape]
        found = tf.sparse.slice(value, tf.stack([first, *zeros]), tf.stack([last - first, *shape]))
        return tf.SparseTensor(found.indices, found.values, _with_rows(value, last - first))

    return tf.nest.map_structure(cut, examples)


def one_row_of_zeros(examples: Any) -> Any:
    """Returns one example of zeros or empty strings; of ragged and sparse values, one without any."""

    def zeros(value: Any) -> Any:
        if isinstance(value, tf.SparseTensor):
            return tf.SparseTensor(value.indices[:0], value.values[:0], _with_rows(value, tf.constant(1, tf.int64)))
        if isinstance(value, tf.RaggedTensor):
            return tf.RaggedTensor.from_row_lengths(value.values[:0], tf.zeros([1], value.row_splits.dtype))
        shape = tf.concat([[1], tf.shape(value)[1:]], 0)
        return tf.fill(shape, "") if value.dtype == tf.string else tf.zeros(shape, value.dtype)

    return tf.nest.map_structure(zeros, examples)


def _with_rows(value: tf.SparseTensor, count: tf.Tensor) -> tf.Tensor:
    """Returns the dense shape with another number of rows.  A model may need the static sizes of other dimensions."""
    sizes = tf.unstack(value.dense_shape, value.shape.rank)[1:]
    known = [size if size is not None else part for size, part in zip(value.shape[1:], sizes, strict=True)]
    return tf.stack([count, *known])
