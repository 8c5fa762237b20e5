"""Batches of a `keras.utils.PyDataset`, which are asked for by their numbers in each process.

A process asks only for batches that it trains on.  `on_epoch_begin` and `on_epoch_end` are called in every process.
While they run, the random numbers of Python and numpy are the same in all of them: so a shuffle there, as many write
it, gives one order.  `workers` threads ask for batches; `use_multiprocessing` has no effect, since each worker is a
process.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ps_train.data.pipeline import derived_seed
from ps_train.data.sent.eager import eagerly
from ps_train.data.sent.order import permutation
from ps_train.data.sent.packed import packed, unpacked
from ps_train.data.sent.part import Part, mapped
from ps_train.data.sent.python_batches import PEEKED, arrays_of, eager_batch, packed_as, spec_of, specs_in
from ps_train.data.sent.source import INFINITE, Source
from ps_train.data.stream import no_autograph

_OBJECT = "py_dataset.pickle"


class IndexedSource(Source):
    """Batches of a PyDataset.

    Args:
      data: the object.
      shuffle: True to ask for the batches in a new order in each epoch; without an end there is no such order.
      seed: of the orders.
    """

    kind = "keras.utils.PyDataset"

    def __init__(self, data: keras.utils.PyDataset, shuffle: bool, seed: int) -> None:
        self._data, self._seed = data, seed
        self._count: int | None = data.num_batches
        self._shuffle = shuffle and self._count is not None
        self._epoch = -1
        peeked = PEEKED if self._count is None else min(PEEKED, self._count)
        self._first = [data[number] for number in range(peeked)]
        self.element_spec = spec_of(self.kind, self._first)

    def cardinality(self) -> int:
        """Returns the number of batches in an epoch."""
        return int(INFINITE) if self._count is None else self._count

    def counted(self) -> int:
        """Returns the number of batches in an epoch."""
        return self.cardinality()

    def first_batch(self) -> Any:
        """Returns an eager batch."""
        return eagerly(lambda: eager_batch(self.kind, self._first[0], self.element_spec))

    def batches(self, part: Part) -> tf.data.Dataset:
        """Returns the endless pairs of a part's batches and their examples."""
        specs = specs_in(self.element_spec)

        def read(number: Any) -> list[np.ndarray[Any, Any]]:
            return arrays_of(self.kind, self._data[self._place(int(number))], self.element_spec)

        def batch(number: tf.Tensor) -> Any:
            tensors = tf.numpy_function(read, [number], [spec.dtype for spec in specs])
            for tensor, spec in zip(tensors, specs, strict=True):
                tensor.set_shape(spec.shape)
            return packed_as(self.element_spec, tensors)

        def batches_of(numbers: tf.data.Dataset) -> tf.data.Dataset:
            workers = self._data.workers
            return mapped(numbers, batch, workers if workers > 1 else None)

        batches = batches_of(part.numbers()) if self._count is None else self._epochs(part, batches_of)
        return mapped(batches, part.cut)

    def _epochs(self, part: Part, batches_of: Callable[[tf.data.Dataset], tf.data.Dataset]) -> tf.data.Dataset:
        """Returns a part's batches, made of their numbers.

        The batches of an epoch are all read, also by several threads, before the object is told of the next epoch.
        """

        def begin(epoch: Any) -> Any:
            self._begin(int(epoch))
            return epoch

        def of_epoch(epoch: tf.Tensor) -> tf.data.Dataset:
            begun = tf.ensure_shape(tf.numpy_function(begin, [epoch], tf.int64), [])
            return batches_of(part.numbers_from(begun * self._count, (begun + 1) * self._count))

        first = tf.cast(part.start, tf.int64) // self._count
        return tf.data.Dataset.range(first, part.endless).flat_map(no_autograph(of_epoch))

    def _place(self, number: int) -> int:
        """Returns the index of a batch by its number, which counts over all epochs."""
        if self._count is None:
            return number
        epoch, place = divmod(number, self._count)
        return int(permutation(self._count, self._seed, epoch)[place]) if self._shuffle else place

    def _begin(self, epoch: int) -> None:
        """Tells the object of the ends and begins of epochs up to that of a given one."""
        while self._epoch < epoch:
            with _same_random_numbers(derived_seed(self._seed, self._epoch)):
                if self._epoch >= 0:
                    self._data.on_epoch_end()
                self._data.on_epoch_begin()
            self._epoch += 1

    def write(self, directory: str) -> Any:
        """Writes the pickled object; raises DataError if it cannot be pickled."""
        with open(os.path.join(directory, _OBJECT), "wb") as file:
            file.write(packed(f"x, a {self.kind}", self._data))
        return self._shuffle, self._seed

    @classmethod
    def read(cls, directory: str, state: Any) -> IndexedSource:
        """Returns the source of a pickled object."""
        with open(os.path.join(directory, _OBJECT), "rb") as file:
            return cls(unpacked(file.read()), *state)


@contextlib.contextmanager
def _same_random_numbers(seed: int) -> Iterator[None]:
    """Gives the body random numbers that depend on a seed alone, and the process its own ones afterwards."""
    ours, of_numpy = random.getstate(), np.random.get_state()
    random.seed(seed)
    np.random.seed(seed)
    try:
        yield
    finally:
        random.setstate(ours)
        np.random.set_state(of_numpy)
