"""Readers of assigned examples: Arrays are read at any index, a Stream by pieces, an unbounded source by partitions.

    reader = reader_of(source.get(), job)      # raises ConfigError if the data have no random access
    examples, counts = reader.read(header)     # in the pipeline: (features, labels) of the whole assignment

A header is int64 [4]: shard, begin and end of an assignment (`layout.py`), and the index of its piece.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ps_train.base.errors import ConfigError
from ps_train.cluster.membership.job_diff import EXAMPLES
from ps_train.config.job import Job
from ps_train.config.job_values import described
from ps_train.config.refusals import refuse
from ps_train.data.arrays import Arrays, Batched
from ps_train.data.example_rows import count_of, gather_rows, one_row_of_zeros
from ps_train.data.pipeline import DataSource, derived_seed
from ps_train.data.shards.shard_layout import EPOCH, Assignment, ShardLayout, default_shard_size, order_name, order_of
from ps_train.data.split import Split, no_examples
from ps_train.data.stream import RandomAccessChunks, Stream
from ps_train.data.unbounded.source import Row, UnboundedSource
from ps_train.data.wrong_data import wrong_data


class Reader(abc.ABC):
    """Random access to the examples of shards.

    Attributes:
      count: number of shards.
      name: identifies the layout; cursors are comparable only between equal names.
      is_endless: True if the shards are partitions of data without an end.
    """

    count: int
    name: str
    is_endless = False

    @abc.abstractmethod
    def length(self, assignment: Assignment) -> int | None:
        """Returns the number of examples in an assignment, or None if it is not known yet."""

    @abc.abstractmethod
    def piece(self, assignment: Assignment) -> int:
        """Returns the index of an assignment's piece, for the header."""

    @abc.abstractmethod
    def read(self, header: tf.Tensor) -> tuple[Any, tf.Tensor]:
        """Returns (features, labels) of an assignment, and whether they count (bool scalar).

        An empty assignment gives one arbitrary example that does not count.
        """


class ArraysReader(Reader):
    """A reader of Arrays, cut by a ShardLayout."""

    def __init__(self, data: Arrays, layout: ShardLayout) -> None:
        self.count, self.name = layout.count, layout.name
        self._arrays, self._layout = (data.features, data.labels), layout

    def length(self, assignment: Assignment) -> int:
        """Returns the number of examples, which the layout always knows."""
        return self._layout.length(assignment)

    def piece(self, assignment: Assignment) -> int:
        """Returns 0: arrays are one piece."""
        return 0

    def read(self, header: tf.Tensor) -> tuple[Any, tf.Tensor]:
        """Returns the examples of an assignment, taken from the arrays by their indices."""
        flat = tf.nest.flatten(self._arrays)
        found = tf.numpy_function(self._rows, [header], [array.dtype for array in flat])
        shaped = [tf.ensure_shape(rows, [None, *array.shape[1:]]) for rows, array in zip(found, flat, strict=True)]
        return tf.nest.pack_sequence_as(self._arrays, shaped), header[0] >= 0

    def _rows(self, header: Any) -> list[Any]:
        shard, begin, end, _ = (int(number) for number in header)
        rows = self._layout.indices(Assignment(shard, begin, end)) if shard >= 0 else np.zeros(1, np.int64)
        return [array[rows] for array in tf.nest.flatten(self._arrays)]


class PiecesReader(Reader):
    """A reader of a stream's pieces.

    Each shard is one piece, chosen by the order of the epoch.  A piece's length is known after its first read.
    """

    def __init__(self, pieces: RandomAccessChunks, seed: int | None) -> None:
        self.count, self.name = pieces.count, f"{pieces.name}_{order_name(seed)}"
        self._pieces, self._seed = pieces, seed
        self._lengths: dict[int, int] = {}

    def length(self, assignment: Assignment) -> int | None:
        """Returns the number of examples; None before the first read of the piece."""
        length = self._lengths.get(self.piece(assignment))
        if length is None:
            return None
        stop = assignment.end % EPOCH if assignment.end // EPOCH == assignment.epoch else length
        return max(0, stop - assignment.begin % EPOCH)

    def piece(self, assignment: Assignment) -> int:
        """Returns the index of the piece that the order of the epoch puts at the shard."""
        if self._seed is None or assignment.shard < 0:
            return max(assignment.shard, 0)
        return int(order_of(self.count, self._seed, assignment.epoch)[assignment.shard])

    def read(self, header: tf.Tensor) -> tuple[Any, tf.Tensor]:
        """Returns the examples of an assignment, in the shuffled order of their piece."""
        examples = self._pieces.read(header[3])
        total = count_of(examples)
        total = tf.ensure_shape(tf.numpy_function(self._record_length, [header[3], total], tf.int64), [])
        epoch = header[1] // EPOCH
        order = tf.range(total)
        if self._seed is not None:
            order = tf.random.experimental.stateless_shuffle(
                order, seed=tf.stack([tf.constant(self._seed, tf.int64), epoch * self.count + header[3]])
            )
        stop = tf.where(tf.equal(header[2] // EPOCH, epoch), header[2] % EPOCH, total)
        rows = tf.where(header[0] >= 0, stop, 1)
        order = order[header[1] % EPOCH : rows]
        is_nonempty = tf.size(order) > 0
        found = tf.cond(
            is_nonempty,
            lambda: gather_rows(examples, order),
            lambda: one_row_of_zeros(examples),
        )
        return found, is_nonempty & (header[0] >= 0)

    def _record_length(self, piece: Any, total: Any) -> Any:
        self._lengths[int(piece)] = int(total)
        return total


class PartitionReader(Reader):
    """A reader of an unbounded source, whose partitions are the shards.

    An assignment is one batch, whose rows have been read before.  A cursor is one more than an offset, and 0 before
    a partition is begun.
    """

    is_endless = True

    def __init__(self, source: UnboundedSource) -> None:
        self.count, self.name = source.most_partitions, f"partitions_of_{source.name}"
        self.source = source
        self._held: dict[tuple[int, int], Sequence[Row]] = {}

    def length(self, assignment: Assignment) -> int:
        """Returns 1: an assignment is one batch."""
        return 1

    def piece(self, assignment: Assignment) -> int:
        """Returns 0: the rows of an assignment are one piece."""
        return 0

    def hold(self, assignment: Assignment, rows: Sequence[Row]) -> None:
        """Keeps the rows of an assignment until they are read."""
        self._held[assignment.shard, assignment.begin] = rows

    def forget(self) -> None:
        """Drops all rows that are held."""
        self._held.clear()

    def read(self, header: tf.Tensor) -> tuple[Any, tf.Tensor]:
        """Returns the examples of an assignment; some of its rows may not be parsable."""
        offsets, strings = tf.numpy_function(self._take, [header], [tf.int64, tf.string])
        width = self.source.width
        strings = tf.ensure_shape(strings, [None, width] if width else [None])
        examples = self.source.examples(header[0], tf.ensure_shape(offsets, [None]), strings)
        is_nonempty = count_of(examples) > 0
        found = tf.cond(is_nonempty, lambda: examples, lambda: one_row_of_zeros(examples))
        return found, is_nonempty

    def _take(self, header: Any) -> tuple[Any, Any]:
        rows = self._held.pop((int(header[0]), int(header[1])), ())
        width = self.source.width
        strings = np.empty((len(rows), width) if width else len(rows), object)
        for number, row in enumerate(rows):
            strings[number] = self.source.strings(row)
        return np.array([row.offset for row in rows], np.int64), strings


def reader_of(data: Any, job: Job) -> Reader:
    """Returns the reader of a job's data.

    Raises:
      ConfigError: the data cannot be cut into shards, or the job sets `shard_examples` for a Stream.
      DataError: the stream has no pieces.
      ModelError: the data are of another type.
    """
    seed = derived_seed(job.seed, "shards") if job.shuffle_buffer else None
    if isinstance(data, Arrays):
        refuse(job, with_end=type(data).__name__)
        size = job.shard_examples or default_shard_size(len(data), job.max_batch_size)
        return ArraysReader(data, ShardLayout(len(data), size, seed))
    if not isinstance(data, Stream | tf.data.Dataset | Batched):
        raise wrong_data(data)
    if isinstance(data, UnboundedSource):
        refuse(job, endless=data.name)
        return PartitionReader(data)
    refuse(job, with_end=type(data).__name__)
    pieces = data.pieces() if isinstance(data, Stream) else None
    if pieces is None:
        raise ConfigError(
            f"{described(job, 'sharding')} needs data with random access, but data() returned "
            f"{type(data).__name__}: return ps_train.Arrays or a Stream with pieces(), or use --sharding=static."
        )
    refuse(job, in_pieces=type(data).__name__)
    if pieces.count == 0:
        raise no_examples(str(Split("train", job.data_dir)))
    return PiecesReader(pieces, seed)


def described_shards(job: Job, source: DataSource) -> dict[str, str]:
    """Returns what describes the data and their cut, on which all tasks must agree; `source` has loaded the data."""
    described = {"data": source.description} if source.description else {}
    if source.count >= 0:
        described[EXAMPLES] = str(source.count)
    if not job.is_dynamic:
        return described
    with tf.Graph().as_default():  # a dataset is made in the current graph
        data = source.get()
        if isinstance(data, UnboundedSource):
            data.check()
        return {**described, "shards": reader_of(data, job).name}
