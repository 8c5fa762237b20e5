"""The data of a fit in every process of a job: `sent_data` and `SentData`.

data = sent_data(x, y, batch_size=64)
data.write(directory)
SentData.read(directory).batches(count=2, index=0, deal=False)     # in another process
"""

from __future__ import annotations

import dataclasses
import logging
import os
import pickle
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NoReturn

import keras
import tensorflow as tf

from ps_train.base.errors import ConfigError, DataError
from ps_train.data.arrays import Arrays
from ps_train.data.sent.array_source import ArraySource
from ps_train.data.sent.class_weights import check_class_weight, spec_with_weights, with_class_weights
from ps_train.data.sent.dataset_source import DatasetSource
from ps_train.data.sent.eager import eagerly
from ps_train.data.sent.generator_source import GeneratorSource, OneGenerator
from ps_train.data.sent.given_arrays import are_arrays
from ps_train.data.sent.indexed_source import IndexedSource
from ps_train.data.sent.made_source import MadeSource
from ps_train.data.sent.part import Part, mapped
from ps_train.data.sent.source import INFINITE, UNKNOWN, Source
from ps_train.data.sent.stream_source import StreamSource
from ps_train.data.stream import Stream

log = logging.getLogger("ps_train")

_RECORD = "data.pickle"


class SentData:
    """Batches of a fit, which have numbers that count over all epochs.

    Args:
      source: the batches.
      steps_per_epoch: number of batches in an epoch.
      class_weight: weights of the classes, by their numbers; None for no such weights.

    Attributes:
      element_spec: nested `tf.TensorSpec` of what a `train_step` gets for a batch; the first dimension is None.
      steps_per_epoch: number of batches in an epoch.
    """

    def __init__(self, source: Source, steps_per_epoch: int, class_weight: Mapping[int, float] | None = None) -> None:
        self._source, self.steps_per_epoch, self._class_weight = source, steps_per_epoch, class_weight
        self.element_spec = source.element_spec
        if class_weight is not None:
            check_class_weight(class_weight, source.element_spec)
            self.element_spec = spec_with_weights(source.element_spec)

    def first_batch(self) -> Any:
        """Returns an eager batch to build a model with; the batches of the training are not changed by it."""
        return eagerly(lambda: self._weighted(self._source.first_batch()))

    def batches(self, count: int, index: int, deal: bool, start: Any = 0) -> tf.data.Dataset:
        """Returns an endless dataset of the current graph, which must be one of TensorFlow 1.

        Each element is (batch, examples): the batch as `element_spec` says, and its number of examples, int32 scalar.
        Without `deal`, an empty piece of a batch is the first example of the batch, and examples is 0.

        Args:
          count: number of workers.
          index: this worker.
          deal: True if batch i is that of worker i mod `count`; False if each worker has a piece of every batch.
          start: number of the first batch, int or int64 scalar tensor.
        """
        pairs = self._source.batches(Part(count, index, deal, start))
        return mapped(pairs, lambda pair: (self._weighted(pair[0]), pair[1]))

    def _weighted(self, batch: Any) -> Any:
        return batch if self._class_weight is None else with_class_weights(batch, self._class_weight)

    def write(self, directory: str) -> None:
        """Writes all that another process needs into a directory, which is made with mode 700 if it is not there.

        The files have pickled objects.  So only processes of the same user may write into the directory.

        Raises:
          DataError: data of this kind cannot be read in another process; the error names what to give instead.
        """
        os.makedirs(directory, mode=0o700, exist_ok=True)
        state = self._source.write(directory)
        with open(os.path.join(directory, _RECORD), "wb") as file:
            kind, spec = type(self._source), self._source.element_spec
            pickle.dump((kind, state, spec, self.steps_per_epoch, self._class_weight), file)

    @classmethod
    def read(cls, directory: str) -> SentData:
        """Returns the data that `write` has written.

        Raises:
          DataError: other users may write into the directory, whose pickled objects are code.
        """
        found = os.stat(directory)
        if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise DataError(f"{directory} may be written by other users, so its data are not read: use a mode of 700.")
        with open(os.path.join(directory, _RECORD), "rb") as file:
            kind, state, spec, steps_per_epoch, class_weight = pickle.load(file)
        source = kind.read(directory, state)
        source.agree(spec)
        return cls(source, steps_per_epoch, class_weight)


def sent_data(
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    batch_size: int | None = None,
    shuffle: bool | str = True,
    class_weight: Mapping[int, float] | None = None,
    steps_per_epoch: int | None = None,
    seed: int = 0,
    epochs: int = 1,
) -> SentData:
    """Makes the data of a fit, in eager mode.

    Args:
      x: arrays or nested arrays; a `tf.data.Dataset`, `keras.utils.PyDataset` or generator of batches;
        `ps_train.Arrays` or a `ps_train.Stream`; or a function without arguments that returns one of these, or a tuple
        (x, y) or (x, y, sample_weight) of arrays.  Every process calls the function.
      y: labels, for arrays.
      sample_weight: weights of the examples, for arrays.
      batch_size: examples in a batch of arrays or of a Stream; None for 32, or so many of arrays that
        `steps_per_epoch` batches have them all.
      shuffle: True for a new order of the examples in each epoch (of a PyDataset: of the batches), "batch" for a new
        order of the examples within each batch.
      class_weight: weights of the classes, by their numbers.
      steps_per_epoch: batches in an epoch; None for all of the data.
      seed: of the orders.
      epochs: number of epochs that are planned, for a line if the data end before them.

    Raises:
      ConfigError: arguments do not fit together.
      DataError: the data are not of an allowed kind.
    """
    _check_whole("batch_size", batch_size)
    _check_whole("steps_per_epoch", steps_per_epoch)
    source: Source
    if x is not None and are_arrays(x, y, sample_weight):
        source = ArraySource.of(x, y, sample_weight, batch_size, shuffle, steps_per_epoch, seed)
    else:
        source = _Sources(batch_size, shuffle, seed)(x)
        _check_alone(source.kind, y=y, sample_weight=sample_weight)
        if batch_size is not None and not isinstance(x, Arrays | Stream):
            log.warning("batch_size=%s has no effect: the %s has batches of its own.", batch_size, source.kind)
    return SentData(source, _steps(source, steps_per_epoch, epochs), class_weight)


@dataclasses.dataclass(frozen=True)
class _Sources:
    """Makes the source of any data that are not arrays; it can be pickled, for a process that calls a function.

    Attributes:
      batch_size: for data without batches of their own.
      shuffle: True for a new order in each epoch, where the data have no order of their own.
      seed: of the orders.
    """

    batch_size: int | None
    shuffle: bool | str
    seed: int

    def __call__(self, x: Any, make: Callable[[], Any] | None = None) -> Source:
        """Returns the source of data, and of the function that has made them."""
        if isinstance(x, tf.data.Dataset):
            return DatasetSource.of(x, self.seed)
        if isinstance(x, keras.utils.PyDataset):
            return IndexedSource(x, bool(self.shuffle), self.seed)
        if isinstance(x, Arrays):
            return ArraySource.of(x.features, x.labels, None, self.batch_size, self.shuffle, None, self.seed)
        if isinstance(x, Stream):
            return StreamSource(x, self.batch_size or 32, bool(self.shuffle), self.seed)
        if isinstance(x, Iterator):
            return OneGenerator(x) if make is None else GeneratorSource(make)
        if make is None and callable(x):
            return MadeSource(x, self)
        if make is not None and are_arrays(x):
            given = x if isinstance(x, tuple) else (x,)
            x, y, sample_weight = (*given, None, None)[:3]
            return ArraySource.of(x, y, sample_weight, self.batch_size, self.shuffle, None, self.seed)
        if make is not None and isinstance(x, Iterable):
            return GeneratorSource(lambda: iter(make()))
        return _unknown(x)


def _unknown(x: Any) -> NoReturn:
    raise DataError(
        f"x is of the type {type(x).__name__}, which is not data that fit takes: give arrays, a tf.data.Dataset of "
        "batches, a keras.utils.PyDataset, a source of ps_train, or a function without arguments that makes one of "
        "these or a generator."
    )


def _check_whole(name: str, value: Any) -> None:
    if value is not None and (isinstance(value, bool) or not hasattr(value, "__index__") or value < 1):
        raise ConfigError(f"{name}={value!r} (an argument of fit) is not a whole number above 0.")


def _check_alone(kind: str, **given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise ConfigError(f"{name} (an argument of fit) is given beside a {kind}: put it into the data's batches.")


def _steps(source: Source, steps_per_epoch: int | None, epochs: int) -> int:
    """Returns the number of batches in an epoch.

    Raises:
      ConfigError: the data have no end, and the number was not given.
      DataError: there are no batches.
    """
    count = source.cardinality()
    if steps_per_epoch is None and count == INFINITE:
        raise ConfigError(
            f"the {source.kind} has no end: give fit steps_per_epoch=, the number of batches in an epoch."
        )
    if steps_per_epoch is None and count == UNKNOWN:
        log.info("Counting the batches of the %s, since fit has no steps_per_epoch.", source.kind)
        count = source.counted()
    if count == 0:
        raise DataError(f"the {source.kind} has no batches, so there is nothing to train on: give at least one.")
    if steps_per_epoch is None:
        return count
    if 0 < count < epochs * steps_per_epoch and count % steps_per_epoch:
        log.warning(
            "One pass over the data (%s) has %d batches, and an epoch %d: the data begin again within an epoch.",
            source.kind, count, steps_per_epoch,
        )  # fmt: skip
    return int(steps_per_epoch)
