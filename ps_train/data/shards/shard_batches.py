"""Batches of the shards that are assigned to this process, in the order of their assignment.

    sharded = ShardedBatches(reader_of(arrays, job), batch_size=32)
    sharded.reset()
    sharded.assign(Assignment(3, progress_value(0), progress_value(1)))
    session.run(sharded.batches.initializer)
    session.run([sharded.batches.features, sharded.batches.progress])

Each batch comes with its progress, int64 [3]: the shard, and the shard's cursor before and after the batch.  A ps
applies the batch's update only if the shard stands at the cursor before it
(`engine/updates/shards/shard_progress.py`).  A batch never spans two shards.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import tensorflow as tf

from ps_train.data.batching import ONE_SIZE, Batching
from ps_train.data.example_rows import count_of
from ps_train.data.pipeline import batches_of
from ps_train.data.shards.shard_layout import Assignment
from ps_train.data.shards.shard_readers import Reader
from ps_train.data.stream import no_autograph

_NO_ASSIGNMENT = Assignment(-1, 0, 0)
"""Read when nothing is assigned; its batch stands for no examples."""

_ENDLESS = 1 << 62


class ShardedBatches:
    """The input of one worker under dynamic sharding; made in the current graph.

    Args:
      reader: the reader of the shards.
      batch_size: examples in the largest batch.
      batching: the way in which batches are formed.

    Attributes:
      batches: the batches of the assigned shards.
      reader: the reader of the shards.
      count: number of shards.
      name: identifies the layout; cursors are comparable only between equal names.
    """

    def __init__(self, reader: Reader, batch_size: int, batching: Batching = ONE_SIZE) -> None:
        self.count, self.name = reader.count, reader.name
        self.reader, self._batch_size, self._batching = reader, batch_size, batching
        self._assigned: deque[Assignment] = deque()
        headers = tf.data.Dataset.range(_ENDLESS).map(no_autograph(self._header))
        shards = headers.map(no_autograph(lambda header: (header, *reader.read(header))))
        self.batches = batches_of(shards.flat_map(no_autograph(self._batches)), {}, None, "ps_train_input")

    def reset(self) -> None:
        """Forgets all assignments.  Run the initializer of the batches afterwards."""
        self._assigned.clear()

    def assign(self, assignment: Assignment) -> None:
        """Appends an assignment to those that are read."""
        self._assigned.append(assignment)

    def batches_in(self, assignment: Assignment) -> int:
        """Returns the number of batches of an assignment, at least 1; 1 if its length is not known yet.

        If their size is chosen at run time, it is the smallest possible number.
        """
        return max(1, -(-(self.reader.length(assignment) or 0) // self._batch_size))

    def _header(self, number: tf.Tensor) -> tf.Tensor:
        """Returns the header (see `readers.py`) of the next assignment.

        A Python function serves here, not a generator.  TensorFlow finalizes a generator too late when a whole server
        is reset.
        """

        def take(_: Any) -> Any:
            try:
                assignment = self._assigned.popleft()
            except IndexError:
                assignment = _NO_ASSIGNMENT
            return np.array(
                [assignment.shard, assignment.begin, assignment.end, self.reader.piece(assignment)], np.int64
            )

        return tf.ensure_shape(tf.numpy_function(take, [number], tf.int64), [4])

    def _batches(self, header: tf.Tensor, examples: Any, counts: tf.Tensor) -> tf.data.Dataset:
        """Returns elements ((features, labels), weight, progress) of one assignment."""
        total = count_of(examples)
        weight = tf.cast(counts, tf.float32)

        def with_progress(batch: Any, start: tf.Tensor, stop: tf.Tensor) -> Any:
            after = tf.where(stop < total, header[1] + stop, header[2])
            return batch, weight, tf.stack([header[0], header[1] + start, after])

        return self._batching.cut(examples, total, self._batch_size, with_progress)
