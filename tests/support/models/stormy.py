"""A model whose values count what its job has done: updates, updates of rows, and uses of each example.

Whatever the mode, the workers and the codec, its gradients are whole numbers that each type of 16 bits has.  So a value
that is not the expected number is an update, or a use, too many or too few.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays, Model, embeddings
from tests.support.data.recording import Ones
from tests.support.models.small import paced

HOT = 8
"""Rows of the table that every example looks up."""

CAPACITY = 1024
"""Rows of the open vocabulary: more than it gets ids."""


class Stormy(Model):
    """Every update adds 1 to each element of `first` and `second`.

    Args:
      count: examples, which are the numbers below it.
      tables: every update also adds 1 to each row of the table `hot`, and to the rows of HOT ids of the vocabulary
        `open`.
      uses: every use of an example adds 1 to its element of `first_uses` and `second_uses`; with `tables` to its row
        of the table `uses`.
      joined: whether the uses of an update come as a mean over workers, as under sync.
    """

    default_learning_rate = 1.0

    def __init__(self, count: int = 6400, tables: bool = False, uses: bool = False, joined: bool = False) -> None:
        self.count, self.tables, self.uses, self.joined = count, tables, uses, joined

    def data(self, split, data_dir):
        if split == "test":
            return None
        return Arrays(np.arange(self.count), np.zeros(self.count, np.float32))

    def forward(self, features, training):
        numbers = paced(features)
        zeros = v1.zeros_initializer()
        total = sum(tf.reduce_sum(v1.get_variable(name, [4], initializer=zeros)) for name in ("first", "second"))
        if self.tables:
            ids = tf.tile(tf.range(HOT, dtype=numbers.dtype)[tf.newaxis], [tf.shape(numbers)[0], 1])
            for rows in (
                embeddings.lookup("hot", ids, rows=HOT, dimension=2, initializer=0.0),
                embeddings.lookup("open", ids * 1_000_003, capacity=CAPACITY, dimension=2, initializer=0.0),
            ):
                total += tf.reduce_sum(tf.reduce_mean(rows, 0))
        # Under sync a round is the mean over its examples.
        weight = 1 / tf.maximum(tf.cast(tf.size(numbers), tf.float32), 1) if self.joined else 1.0
        if self.uses and self.tables:
            ids = numbers[:, tf.newaxis]
            total += weight * tf.reduce_sum(
                embeddings.lookup("uses", ids, rows=self.count, dimension=1, initializer=0.0)
            )
        elif self.uses:
            used = tf.stop_gradient(tf.reduce_sum(tf.one_hot(numbers, self.count), 0))
            for name in ("first_uses", "second_uses"):
                total += weight * tf.reduce_sum(used * v1.get_variable(name, [self.count], initializer=zeros))
        return -total

    def loss(self, outputs, labels):
        return outputs

    def optimizer(self, name, learning_rate):
        plain = v1.train.GradientDescentOptimizer(learning_rate)
        ones = Ones() if self.joined else plain
        return {"": plain, "first_uses": ones, "second_uses": ones, "uses": ones}
