"""Batches of the shards that were given to this process, in the order in which they were given.

    leased = Leased(arrays, layout_of(arrays, job), batch_size=32)
    leased.begin()
    leased.give(Assignment(3, cursor(0), cursor(1)))
    session.run(leased.batches.initializer)
    session.run([leased.batches.features, leased.batches.ticket])

Beside each batch comes its ticket, int64 [3]: the shard, and the cursors before and after the batch.  A ps makes an
update of it only where the shard stands at the first of them (`updates/ledger.py`).  A batch is of one shard only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from ps_train.config import Job, described
from ps_train.data.arrays import Arrays
from ps_train.data.layout import Assignment, Layout, usual_size
from ps_train.data.shard import Source, batches_of, derived_seed
from ps_train.data.stream import as_written
from ps_train.errors import ConfigError

_NOTHING = Assignment(-1, 0, 0)
"""Its ticket comes with a batch that stands for no examples, where nothing was given."""


class Leased:
    """Makes the input in the current graph."""

    def __init__(self, data: Arrays, layout: Layout, batch_size: int) -> None:
        self.layout = layout
        self._data, self._batch_size = data, batch_size
        self._given: deque[Assignment] = deque()
        self.batches = batches_of(self._dataset(), {}, None, "ps_train_input")

    def begin(self) -> None:
        """Forgets what was given; to be followed by the initializer of the batches."""
        self._given = deque()  # a reader from before may still have the old one

    def give(self, assignment: Assignment) -> None:
        self._given.append(assignment)

    def count(self, assignment: Assignment) -> int:
        """How many batches it makes."""
        return -(-self.layout.length(assignment) // self._batch_size)

    def _read(self) -> Iterator[Any]:
        given = self._given
        while True:
            try:
                assignment = given.popleft()
            except IndexError:
                assignment = _NOTHING
            rows = np.zeros(1, np.int64) if assignment is _NOTHING else self.layout.indices(assignment)
            examples = tf.nest.map_structure(lambda values, rows=rows: values[rows], self._arrays())
            yield np.array([assignment.shard, assignment.begin, assignment.end]), examples

    def _arrays(self) -> Any:
        return self._data.features, self._data.labels

    def _dataset(self) -> tf.data.Dataset:
        examples = tf.nest.map_structure(lambda a: tf.TensorSpec([None, *a.shape[1:]], a.dtype), self._arrays())
        signature = (tf.TensorSpec([3], tf.int64), examples)
        shards = tf.data.Dataset.from_generator(self._read, output_signature=signature)
        return shards.flat_map(as_written(self._batches))

    def _batches(self, given: tf.Tensor, examples: Any) -> tf.data.Dataset:
        """((features, labels), live, ticket) of what was given at once."""
        total = tf.cast(tf.shape(tf.nest.flatten(examples)[0])[0], tf.int64)
        live = tf.cast(given[0] >= 0, tf.float32)

        def with_ticket(number: tf.Tensor, batch: Any) -> Any:
            used = (number + 1) * self._batch_size
            after = tf.where(used < total, given[1] + used, given[2])
            return batch, live, tf.stack([given[0], given[1] + number * self._batch_size, after])

        whole = tf.data.Dataset.from_tensors(examples)
        return whole.rebatch(self._batch_size).enumerate().map(as_written(with_ticket))


def layout_of(data: Any, job: Job) -> Layout:
    """How a job cuts its data.  ConfigError: they cannot be handed out in shards."""
    if not isinstance(data, Arrays):
        raise ConfigError(
            f"{described(job, 'sharding')} needs data that can be read at any place, but data() returned "
            f"{type(data).__name__}: return ps_train.Arrays, or use --sharding=static."
        )
    seed = derived_seed(job.seed, "shards") if job.shuffle_buffer else None
    return Layout(len(data), job.shard_examples or usual_size(len(data), job.batch_size), seed)


def described_shards(job: Job, source: Source) -> dict[str, str]:
    """How the data are cut, on which all tasks must agree; nothing where shards are not handed out."""
    if not job.is_dynamic:
        return {}
    with tf.Graph().as_default():  # where a dataset would be made
        return {"shards": layout_of(source.get(), job).name}
