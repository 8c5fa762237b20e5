"""Batches whose size is read when they are made: tf.data's part of a batch size that follows the network.

    sizes = DynamicBatches(lower=64, upper=512, read=variable.read_value, ahead=0)
    batches = sizes.joined(dataset.batch(64))        # batches of 64, 128, 256 or 512 examples, in the same order

No example is left out or used twice, whatever sizes are read.  Only the last batch has another size.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ps_train.data.batching import Batching
from ps_train.data.example_rows import slice_rows
from ps_train.data.stream import no_autograph

_ENDLESS = 1 << 62


@dataclasses.dataclass(frozen=True)
class DynamicBatches(Batching):
    """The size of batches, which may be another for each one.

    Attributes:
      lower: the smallest size; each other size is a multiple of it.
      upper: the largest size.
      read: returns the present size inside a dataset's function, int64 scalar.
      ahead: number of batches that are made before their turn, with a size that may have changed since.
    """

    lower: int
    upper: int
    read: Callable[[], tf.Tensor]
    ahead: int

    def joined(self, pieces: tf.data.Dataset) -> tf.data.Dataset:
        """Returns batches joined from pieces of `lower` examples, which alone are read ahead.

        The size of a batch is read together with its first piece.
        """

        def count(state: Any, piece: Any) -> Any:
            left, whole = state
            whole = tf.where(left > 0, whole, self.read() // self.lower)
            left = tf.where(left > 0, left, whole)
            return (left - 1, whole), (whole, piece)

        zero = tf.constant(0, tf.int64)
        # Pieces of one batch come together, so the number of its pieces serves as the key of its window.
        return (
            pieces.prefetch(2 * self.upper // self.lower)
            .scan((zero, zero), no_autograph(count))
            .group_by_window(
                key_func=no_autograph(lambda whole, piece: whole),
                reduce_func=no_autograph(lambda whole, window: self._joined(window)),
                window_size_func=no_autograph(lambda whole: whole),
            )
        )

    def _joined(self, window: tf.data.Dataset) -> tf.data.Dataset:
        pieces = window.map(no_autograph(lambda whole, piece: piece))
        leaves = tf.nest.flatten(pieces.element_spec)
        if all(isinstance(leaf, tf.TensorSpec) for leaf in leaves):
            return pieces.rebatch(self.upper)
        return pieces.unbatch().batch(self.upper)  # slower, but also joins sparse and ragged tensors

    def cut(
        self, examples: Any, total: tf.Tensor, size: int, made: Callable[[Any, tf.Tensor, tf.Tensor], Any]
    ) -> tf.data.Dataset:
        """Returns the batches of `total` examples; the size of each is read when it is made."""

        def place(start: tf.Tensor, number: tf.Tensor) -> Any:
            stop = tf.minimum(start + self.read(), total)
            return stop, (start, stop)

        places = tf.data.Dataset.range(_ENDLESS).scan(tf.constant(0, tf.int64), no_autograph(place))
        return places.take_while(no_autograph(lambda start, stop: start < total)).map(
            no_autograph(lambda start, stop: made(slice_rows(examples, start, stop), start, stop))
        )
