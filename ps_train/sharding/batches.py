"""Batches of the shards that were given to this process, in the order in which they were given.

    leased = Leased(reader_of(arrays, job), batch_size=32)
    leased.begin()
    leased.give(Assignment(3, cursor(0), cursor(1)))
    session.run(leased.batches.initializer)
    session.run([leased.batches.features, leased.batches.ticket])

Beside each batch comes its ticket, int64 [3]: the shard, and the cursors before and after the batch.  A ps makes an
update of it only where the shard stands at the first of them (`sharding/progress.py`).  A batch is of one shard only.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import tensorflow as tf

from ps_train.data.pipeline import batches_of
from ps_train.data.stream import no_autograph
from ps_train.sharding.layout import Assignment
from ps_train.sharding.readers import Reader

_NOTHING = Assignment(-1, 0, 0)
"""Its ticket comes with a batch that stands for no examples, where nothing was given."""

_FOR_EVER = 1 << 62


class ShardedBatches:
    """Makes the input in the current graph.

    Attributes:
      count: how many shards there are.
      name: what must be the same for a cursor to mean the same.
    """

    def __init__(self, reader: Reader, batch_size: int) -> None:
        self.count, self.name = reader.count, reader.name
        self._reader, self._batch_size = reader, batch_size
        self._given: deque[Assignment] = deque()
        headers = tf.data.Dataset.range(_FOR_EVER).map(no_autograph(self._header))
        shards = headers.map(no_autograph(lambda header: (header, *reader.read(header))))
        self.batches = batches_of(shards.flat_map(no_autograph(self._batches)), {}, None, "ps_train_input")

    def reset(self) -> None:
        """Forgets what was given; to be followed by the initializer of the batches."""
        self._given.clear()

    def assign(self, assignment: Assignment) -> None:
        self._given.append(assignment)

    def batches_in(self, assignment: Assignment) -> int:
        """How many batches it makes, as far as is known: at least one."""
        return max(1, -(-(self._reader.length(assignment) or 0) // self._batch_size))

    def _header(self, number: tf.Tensor) -> tf.Tensor:
        """A function of Python rather than a generator: that would have to be told when it is not needed any more,
        which TensorFlow does too late where a whole server is reset."""

        def take(_: Any) -> Any:
            try:
                given = self._given.popleft()
            except IndexError:
                given = _NOTHING
            return np.array([given.shard, given.begin, given.end, self._reader.piece(given)], np.int64)

        return tf.ensure_shape(tf.numpy_function(take, [number], tf.int64), [4])

    def _batches(self, given: tf.Tensor, examples: Any, count: tf.Tensor) -> tf.data.Dataset:
        """((features, labels), live, ticket) of what was given at once."""
        total = tf.cast(tf.shape(tf.nest.flatten(examples)[0])[0], tf.int64)
        live = tf.cast(count, tf.float32)

        def with_ticket(number: tf.Tensor, batch: Any) -> Any:
            used = (number + 1) * self._batch_size
            after = tf.where(used < total, given[1] + used, given[2])
            return batch, live, tf.stack([given[0], given[1] + number * self._batch_size, after])

        whole = tf.data.Dataset.from_tensors(examples)
        return whole.rebatch(self._batch_size).enumerate().map(no_autograph(with_ticket))
