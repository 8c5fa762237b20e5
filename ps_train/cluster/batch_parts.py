"""The parts into which a worker's batch is divided, one for each tower.

    parts = split_batch(batches, 2)
    [part.examples for part in parts]           # 3 and 2 of 5 examples

A part is never empty, because the mean of no examples is not a number.  In place of an empty part a tower gets one
example of another part, and counts no examples.
"""

from __future__ import annotations

import dataclasses
import itertools

import tensorflow as tf

from ps_train.data.pipeline import Batches
from ps_train.example_rows import count_of, slice_rows


def split_batch(batches: Batches, count: int) -> list[Batches]:
    """Returns the parts of a batch in order; their sizes differ by one example at most, and the first is the largest.

    Args:
      batches: the batch.
      count: number of parts; 1 returns the batch itself.
    """
    if count == 1:
        return [batches]
    rows = count_of(batches.labels)
    weight = tf.math.divide_no_nan(batches.examples, tf.cast(rows, tf.float32))
    edges = [(rows * number + count - 1) // count for number in range(count + 1)]
    parts = []
    for begin, end in itertools.pairwise(edges):
        first = tf.minimum(begin, tf.maximum(rows - 1, 0))
        last = tf.maximum(end, first + 1)
        features, labels = slice_rows((batches.features, batches.labels), first, last)
        examples = tf.cast(end - begin, tf.float32) * weight
        parts.append(dataclasses.replace(batches, features=features, labels=labels, examples=examples))
    return parts
