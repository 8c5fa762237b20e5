"""The part of all batches that one worker trains on.

Part(count=2, index=0).cut((x, y))                # the first half of a batch, and its number of examples
Part(count=2, index=0, deal=True).numbers()       # 0, 2, 4, ...: the numbers of its batches
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ps_train.data.example_rows import count_of, slice_rows
from ps_train.data.stream import no_autograph


@dataclasses.dataclass(frozen=True)
class Part:
    """One of several parts.

    Attributes:
      count: number of parts.
      index: this part, 0 to `count` - 1.
      deal: True for whole batches, batch i to part i mod `count`; False for a piece of each batch.
      start: number of the batch to begin with, int or int64 scalar tensor.
    """

    count: int = 1
    index: int = 0
    deal: bool = False
    start: Any = 0

    endless = 1 << 62
    """A number that no batch reaches."""

    @property
    def has_whole_batches(self) -> bool:
        """True if the part's batches are not cut."""
        return self.deal or self.count == 1

    def numbers(self) -> tf.data.Dataset:
        """Returns an endless dataset of the numbers of the batches that the part has something of."""
        return self.numbers_from(tf.zeros([], tf.int64), self.endless)

    def numbers_from(self, first: tf.Tensor, stop: Any) -> tf.data.Dataset:
        """Returns the numbers from `first` on and below `stop`, int64 scalars, of batches that the part has some of."""
        first = tf.maximum(first, tf.cast(self.start, tf.int64))
        if not self.deal:
            return tf.data.Dataset.range(first, stop)
        return tf.data.Dataset.range(first + tf.math.floormod(self.index - first, self.count), stop, self.count)

    def bounds(self, size: Any) -> tuple[Any, Any]:
        """Returns the first row of a batch's piece, and the row after its last one; ints or tensors as `size` is.

        The pieces of all parts are the batch, and differ in size by one at most.
        """
        if self.has_whole_batches:
            return 0 * size, size
        return size * self.index // self.count, size * (self.index + 1) // self.count

    def of(self, batches: tf.data.Dataset) -> tf.data.Dataset:
        """Returns pairs, as `cut` does, of an endless dataset of all batches."""
        batches = batches if isinstance(self.start, int) and not self.start else batches.skip(self.start)
        if self.deal and self.count > 1:
            # Skipping moves the numbers.
            first = tf.math.floormod(self.index - tf.cast(self.start, tf.int64), self.count)
            batches = batches.shard(self.count, first)
        return mapped(batches, self.cut)

    def cut(self, batch: Any) -> tuple[Any, tf.Tensor]:
        """Returns a batch's piece and its number of examples, int32 scalar.

        An empty piece is the batch's first example, which counts for nothing: a model needs one to run.
        """
        if self.has_whole_batches:
            return batch, tf.cast(on_tensors(count_of, batch), tf.int32)
        size = on_tensors(count_of, batch)
        first, last = self.bounds(size)
        begin = tf.where(first < last, first, 0)
        piece = repacked(lambda tensors: slice_rows(tensors, begin, tf.maximum(last, begin + 1)), batch)
        return piece, tf.cast(last - first, tf.int32)


def on_tensors(function: Callable[[Sequence[Any]], Any], batch: Any) -> Any:
    """Returns a function's value for the list of a batch's tensors; a batch may have None besides."""
    return function([leaf for leaf in tf.nest.flatten(batch) if leaf is not None])


def repacked(function: Callable[[Sequence[Any]], Sequence[Any]], batch: Any) -> Any:
    """Returns a batch with other tensors, those that a function makes of the list of its tensors."""
    leaves = tf.nest.flatten(batch)
    changed = iter(on_tensors(function, batch))
    return tf.nest.pack_sequence_as(batch, [None if leaf is None else next(changed) for leaf in leaves])


def mapped(batches: tf.data.Dataset, function: Callable[[Any], Any], parallel: int | None = None) -> tf.data.Dataset:
    """Returns a dataset with a function of whole elements applied; tf.data alone would unpack tuples."""
    is_tuple = type(batches.element_spec) is tuple
    called = (lambda *element: function(element)) if is_tuple else function
    return batches.map(no_autograph(called), num_parallel_calls=parallel)
