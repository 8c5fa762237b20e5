"""The way in which batches are formed: all of one size, unless a part of the step puts another way in its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ps_train.data.stream import no_autograph


class Batching:
    """Batches of one size.

    Args:
      ahead: number of batches that are made before their turn.

    Attributes:
      ahead: as given.
    """

    def __init__(self, ahead: int = 2) -> None:
        self.ahead = ahead

    def joined(self, pieces: tf.data.Dataset) -> tf.data.Dataset:
        """Returns batches made from pieces of the smallest size."""
        return pieces

    def cut(
        self, examples: Any, total: tf.Tensor, size: int, made: Callable[[Any, tf.Tensor, tf.Tensor], Any]
    ) -> tf.data.Dataset:
        """Returns a dataset of the batches of `total` examples.

        Args:
          examples: their tensors, in any structure.
          total: int64 scalar.
          size: the largest batch.
          made: function of a batch, its first example, and the first one after it (int64 scalars, the latter at least
            `total` for the last batch); returns the element.
        """
        batches = tf.data.Dataset.from_tensors(examples).rebatch(size).enumerate()
        return batches.map(no_autograph(lambda number, batch: made(batch, number * size, (number + 1) * size)))


ONE_SIZE = Batching()
