"""Data that are batches already: they are used as they come, without sharding, shuffling or another size.

batched = Batched(dataset)                     # elements are features, or (features, labels)
batches = training_batches(batched, WHOLE, batch_size=1, epochs=1, shuffle_buffer=0)
batches.features                               # Batch(features, labels)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import tensorflow as tf

from ps_train.data.stream import no_autograph
from ps_train.example_rows import count_of

Restart = Callable[[tf.data.Dataset], tf.Operation]


class Batch(NamedTuple):
    """The features and labels of a batch, tensors or nested tensors [batch, ...]; labels are None without any."""

    features: Any
    labels: Any


class Complete(Protocol):
    """A function that takes an element inside the training graph and returns the batch."""

    def __call__(self, element: Any, restart: Restart) -> Batch:
        """Returns the features and labels; `restart` makes the input begin with another dataset of such elements."""


class Batched:
    """Batches of the user's own making.

    Args:
      dataset: its elements are batches.
      complete: makes the batch of an element.
      size: number of examples in each batch, if the elements do not tell.
      is_fed: True if the dataset has placeholders: an operation of `restart` starts the input, run with their values.
    """

    def __init__(
        self, dataset: tf.data.Dataset, complete: Complete, size: int | None = None, is_fed: bool = False
    ) -> None:
        self.dataset, self._complete, self._batch_size, self.is_fed = dataset, complete, size, is_fed

    def elements(self, dataset: tf.data.Dataset | None = None) -> tf.data.Dataset:
        """Returns a dataset of pairs: an element, and zeros float32 [batch] that stand for its labels.

        Args:
          dataset: used in place of the own one.
        """

        def with_size(*element: Any) -> tuple[Any, tf.Tensor]:
            whole = element[0] if len(element) == 1 else element
            size = _size(whole) if self._batch_size is None else tf.constant(self._batch_size)
            return whole, tf.zeros(tf.reshape(size, [1]))

        return (self.dataset if dataset is None else dataset).map(no_autograph(with_size))

    def batch(self, element: Any, restart: Restart) -> Batch:
        """Returns the features and labels of an element of the iterator; see `Complete`."""
        return self._complete(element, restart)


def _size(element: Any) -> tf.Tensor:
    """Returns the number of examples of a batch, int32 scalar; 1 for a batch of scalars."""
    first = tf.nest.flatten(element)[0]
    return tf.constant(1) if first.shape.rank == 0 else tf.cast(count_of(first), tf.int32)
