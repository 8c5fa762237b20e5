"""Batches whose size is read when they are made: tf.data's part of a batch size that follows the network.

    sizes = DynamicBatches(lower=64, upper=512, read=variable.read_value, ahead=False)
    batches = sizes.merge(dataset.batch(64))         # batches of 64, 128, 256 or 512 examples, in the same order
    parts = sizes.parts(total)                       # (start, stop) of the batches of `total` examples

No example is left out or used twice, whatever sizes are read.  Only the last batch has another size.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

_ENDLESS = 1 << 62
_plain = tf.autograph.experimental.do_not_convert


@dataclasses.dataclass(frozen=True)
class DynamicBatches:
    """The size of batches, which may be another for each one.

    Attributes:
      lower: the smallest size; each other size is a multiple of it.
      upper: the largest size.
      read: returns the present size inside a dataset's function, int64 scalar.
      ahead: True if batches may be made before their turn, with a size that has changed since.
    """

    lower: int
    upper: int
    read: Callable[[], tf.Tensor]
    ahead: bool

    def merge(self, pieces: tf.data.Dataset) -> tf.data.Dataset:
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
            .scan((zero, zero), _plain(count))
            .group_by_window(
                key_func=_plain(lambda whole, piece: whole),
                reduce_func=_plain(lambda whole, window: self._joined(window)),
                window_size_func=_plain(lambda whole: whole),
            )
        )

    def _joined(self, window: tf.data.Dataset) -> tf.data.Dataset:
        pieces = window.map(_plain(lambda whole, piece: piece))
        leaves = tf.nest.flatten(pieces.element_spec)
        if all(isinstance(leaf, tf.TensorSpec) for leaf in leaves):
            return pieces.rebatch(self.upper)
        return pieces.unbatch().batch(self.upper)  # slower, but also joins sparse and ragged tensors

    def parts(self, total: tf.Tensor) -> tf.data.Dataset:
        """Returns a dataset of the places of batches among `total` examples (int64 scalar): start and stop.

        The size of a batch is read when it is made.
        """

        def cut(start: tf.Tensor, number: tf.Tensor) -> Any:
            stop = tf.minimum(start + self.read(), total)
            return stop, (start, stop)

        places = tf.data.Dataset.range(_ENDLESS).scan(tf.constant(0, tf.int64), _plain(cut))
        return places.take_while(_plain(lambda start, stop: start < total))
