"""Batches of a `ps_train.Stream`, such as Parquet, TFRecord or text files: pairs of features and labels.

A synchronous worker reads the whole stream, and takes its part of each batch.  An asynchronous one reads its own shard,
as in the training of a `ps_train.Model`: its batches are not every count-th batch of one reader.
"""

from __future__ import annotations

import os
from typing import Any

import tensorflow as tf

from ps_train.base.errors import DataError
from ps_train.data.data_shard import WHOLE, DataShard
from ps_train.data.pipeline import repeated_chunks
from ps_train.data.sent.dataset_graph import spec_of_batches
from ps_train.data.sent.packed import packed, unpacked
from ps_train.data.sent.part import Part
from ps_train.data.sent.scratch_session import first_element, number_of_elements
from ps_train.data.sent.source import UNKNOWN, Source
from ps_train.data.stream import Stream
from ps_train.data.unbounded.source import UnboundedSource

_STREAM = "stream.pickle"

_SHUFFLED = 10_000
"""Examples that are shuffled among each other, about; the default of --shuffle_buffer."""


class StreamSource(Source):
    """Batches of a stream.

    Args:
      stream: the stream.
      batch_size: examples in a batch; the last one of an epoch may be shorter.
      shuffle: True for a new order in each epoch.
      seed: of the orders.

    Raises:
      DataError: the stream has no end.
    """

    def __init__(self, stream: Stream, batch_size: int, shuffle: bool, seed: int) -> None:
        if isinstance(stream, UnboundedSource):
            raise DataError(
                f"{stream.name} is of the type {type(stream).__name__}, whose partitions grow while they are read: "
                "return it from the data() of a ps_train.Model, with --sharding=dynamic, which keeps the place of "
                "each partition."
            )
        self._stream, self._batch_size, self._shuffle, self._seed = stream, batch_size, shuffle, seed
        self.kind = type(stream).__name__
        with tf.Graph().as_default():
            self.element_spec = spec_of_batches(self.kind, self._pass().element_spec)

    def _pass(self) -> tf.data.Dataset:
        """Returns the batches of one pass in the order of the data."""
        return self._stream.chunks(WHOLE, None).rebatch(self._batch_size)

    def cardinality(self) -> int:
        """Returns UNKNOWN."""
        return int(UNKNOWN)

    def counted(self) -> int:
        """Returns the number of batches in one pass, which is read for it."""
        return number_of_elements(self._pass)

    def first_batch(self) -> Any:
        """Returns an eager batch."""
        try:
            return first_element(self._pass)
        except StopIteration:
            raise DataError(f"the {self.kind} has no examples, so there is nothing to train on.") from None

    def batches(self, part: Part) -> tf.data.Dataset:
        """Returns the endless pairs of a part's batches and their examples."""
        shard = DataShard(part.index, part.count) if part.deal else WHOLE
        if part.deal:  # the own batches before the first one, in the order of one shard
            start = (tf.cast(part.start, tf.int64) - part.index + part.count - 1) // part.count
            part = Part(start=tf.maximum(start, 0))
        if not self._shuffle:
            return part.of(self._stream.chunks(shard, None).rebatch(self._batch_size).repeat())
        seed = tf.constant(self._seed, tf.int64)
        # Whole batches in each pool, so that only the last one of an epoch is shorter.
        pool = -(-_SHUFFLED // self._batch_size) * self._batch_size
        pools = repeated_chunks(self._stream.chunks(shard, seed), 0, pool, seed)
        cut = lambda *examples: tf.data.Dataset.from_tensors(examples).rebatch(self._batch_size)  # noqa: E731
        return part.of(pools.flat_map(tf.autograph.experimental.do_not_convert(cut)))

    def write(self, directory: str) -> Any:
        """Writes the pickled stream; raises DataError if it cannot be pickled."""
        with open(os.path.join(directory, _STREAM), "wb") as file:
            file.write(packed(f"x, a {self.kind}", self._stream))
        return self._batch_size, self._shuffle, self._seed

    @classmethod
    def read(cls, directory: str, state: Any) -> StreamSource:
        """Returns the source of a pickled stream."""
        with open(os.path.join(directory, _STREAM), "rb") as file:
            return cls(unpacked(file.read()), *state)
