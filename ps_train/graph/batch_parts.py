"""The parts into which a worker's batch is divided, one for each tower.

    parts = split_batch(batches, 2)
    [part.examples for part in parts]           # 3 and 2 of 5 examples

A part is never empty, because the mean of no examples is not a number.  In place of an empty part a tower gets one
example of another part, and counts no examples.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import tensorflow as tf

from ps_train.data.pipeline import Batches


def split_batch(batches: Batches, count: int) -> list[Batches]:
    """Returns the parts of a batch in order; their sizes differ by one example at most, and the first is the largest.

    Args:
      batches: the batch.
      count: number of parts; 1 returns the batch itself.
    """
    if count == 1:
        return [batches]
    rows = tf.cast(tf.shape(tf.nest.flatten(batches.labels)[0])[0], tf.int64)
    weight = tf.math.divide_no_nan(batches.examples, tf.cast(rows, tf.float32))
    edges = [(rows * number + count - 1) // count for number in range(count + 1)]
    parts = []
    for begin, end in itertools.pairwise(edges):
        first = tf.minimum(begin, tf.maximum(rows - 1, 0))
        last = tf.maximum(end, first + 1)
        features, labels = tf.nest.map_structure(
            lambda value, first=first, last=last: _rows(value, first, last), (batches.features, batches.labels)
        )
        examples = tf.cast(end - begin, tf.float32) * weight
        parts.append(dataclasses.replace(batches, features=features, labels=labels, examples=examples))
    return parts


def _rows(value: Any, first: tf.Tensor, last: tf.Tensor) -> Any:
    """Returns the rows from `first` to `last`, exclusive, of a tensor, SparseTensor or RaggedTensor."""
    if not isinstance(value, tf.SparseTensor):
        return value[first:last]
    shape = tf.unstack(value.dense_shape, value.shape.rank)[1:]
    zeros = [tf.constant(0, tf.int64) for _ in shape]
    found = tf.sparse.slice(value, tf.stack([first, *zeros]), tf.stack([last - first, *shape]))
    # A model may need the static sizes of the other dimensions.
    known = [size if size is not None else part for size, part in zip(value.shape[1:], shape, strict=True)]
    return tf.SparseTensor(found.indices, found.values, tf.stack([last - first, *known]))
