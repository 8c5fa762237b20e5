"""One ps's part of the map from ids to rows of an open vocabulary: rows are given, taken, and given again.

    directory = Directory("ads", Book(keys, used, clock), first_heap=0, heaps=251, table=table)
    seen = directory.index.look(words)
    directory.touch(seen.row[seen.alive], uses, since)
    rows = directory.place(words of others, uses)           # -1 where there is no room

Everything but `index.look` is to be used under the ps's lock, each operation after those that were made before it (each
ends when what it returns is there).  What is free is kept on a stack for each heap, which, like the index, is made anew
of the book after a restore.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.embeddings.id_encoding import group_of
from ps_train.embeddings.index import RowIndex, VocabularyVariables
from ps_train.embeddings.table import Table
from ps_train.placement.variables import scatter_rows

_EVICTED_SHARE = 64
"""Who looks for the least used row of a full heap looks at all of them: then so many of them, one in 64, are freed."""

Prepare = Callable[[tf.Tensor, tf.Tensor], tf.Operation]

_LIMIT = 1 << 31
_NEVER = (1 << 63) - 1


class RowAllocator:
    """Make it on the ps's device; `name` is unique on that ps.

    Args:
      first_heap, heaps: which of the table's heaps are here.
    """

    def __init__(self, name: str, book: VocabularyVariables, first_heap: int, heaps: int, table: Table) -> None:
        self._book, self._first_heap, self._heaps, self._table = book, first_heap, heaps, table
        self._size = table.rows_per_group
        self.index = RowIndex(book, self._size, table.expire_steps, f"ps_train/index/{name}")
        self._free = _make_variable(f"ps_train/free/{name}", [heaps * self._size], tf.int32)
        self._top = _make_variable(f"ps_train/top/{name}", [heaps], tf.int64)

    def rebuild(self) -> tf.Operation:
        """Makes index and stacks of the book."""
        free = tf.logical_not(self.index.used_rows())
        theirs = tf.tile(tf.range(self._size) < self._size - 1, [self._heaps])  # all but the last of each heap
        rows = tf.where(free & theirs)[:, 0]
        heap = self.index.group(rows)
        counts = self._counts(heap)
        rank = tf.range(tf.size(rows, tf.int64), dtype=tf.int64) - tf.gather(tf.cumsum(counts, exclusive=True), heap)
        place = heap * self._size + tf.gather(counts, heap) - 1 - rank  # the first row is on top
        return tf.group(
            self.index.rebuild(),
            scatter_rows(self._book.used, rows, tf.zeros([tf.size(rows), 3], tf.int64)),
            scatter_rows(self._free, place, tf.cast(rows, tf.int32)),
            self._top.assign(counts, read_value=False),
        )

    def now(self, rows: tf.Tensor) -> tf.Tensor:
        """The number of the update that is being made, for each row's heap."""
        return tf.gather(self._book.clock.read_value(), self.index.group(rows)) + 1

    def record_use(self, rows: tf.Tensor, uses: tf.Tensor, since: tf.Tensor) -> tf.Operation:
        """Those rows are used by this update; `uses`: with it, by how many; `since`: the one that gave them."""
        return scatter_rows(self._book.used, rows, tf.stack([uses, self.now(rows), since], 1))

    def allocate(self, words: tf.Tensor, uses: int, prepare: Prepare | None = None) -> tf.Tensor:
        """Rows for ids that have none, each once; where a heap is full, those of the least used ids that this update
        does not use.  -1 where there are not enough of them.

        Args:
          prepare: given rows and the words of their ids, makes the rows ready to be found.
        """
        heap = group_of(words, self._table.groups) - self._first_heap
        needed, before = self._counts(heap), self._top.read_value()
        short = needed - before
        evict = v1.cond(tf.reduce_any(short > 0), lambda: self._evict(short), tf.no_op)
        with tf.control_dependencies([evict]):
            top = self._top.read_value()
        rank = _rank(heap, self._heaps)
        there = rank < tf.gather(top, heap)
        place = tf.where(there, heap * self._size + tf.gather(top, heap) - 1 - rank, 0)
        row = tf.cast(self._free.sparse_read(place), tf.int64)
        which = tf.where(there)[:, 0]
        given, words = tf.gather(row, which), tf.gather(words, which)
        fill = tf.fill(tf.shape(given), tf.constant(uses, tf.int64))
        # First the keys: who had a row and reads it now sees that it is his no more.  Last the index: who is to have it
        # does not find it before it is his.
        with tf.control_dependencies([scatter_rows(self._book.keys, given, words), row]):
            ready = prepare(given, words) if prepare else tf.no_op()
        with tf.control_dependencies([ready]):
            done = [
                self.record_use(given, fill, self.now(given)),
                self.index.put(words, given),
                self._top.assign(top - tf.minimum(needed, top), read_value=False),
            ]
        with tf.control_dependencies(done):
            return tf.where(there, row, tf.fill(tf.shape(row), tf.constant(-1, tf.int64)))

    def free(self, rows: tf.Tensor) -> tf.Operation:
        """Frees rows that ids have, each once."""
        heap, top = self.index.group(rows), self._top.read_value()
        place = heap * self._size + tf.gather(top, heap) + _rank(heap, self._heaps)
        with tf.control_dependencies([self.index.remove(self._book.keys.sparse_read(rows)), place]):
            return tf.group(
                scatter_rows(self._book.used, rows, tf.zeros([tf.size(rows), 3], tf.int64)),
                scatter_rows(self._free, place, tf.cast(rows, tf.int32)),
                self._top.assign(top + self._counts(heap), read_value=False),
            )

    def _evict(self, short: tf.Tensor) -> tf.Operation:
        """Frees rows of the heaps that are short of some: of expired ids first, then of those that were used least, of
        these the one whose use is longest ago."""
        heap = tf.where(short > 0)
        used = self._book.used.sparse_read(heap * self._size + tf.range(self._size - 1, dtype=tf.int64))
        uses, last, _ = tf.unstack(used, axis=2)
        made = tf.gather(self._book.clock.read_value(), heap)
        counts = tf.where(self.index.expired(made, used), tf.zeros_like(uses), tf.minimum(uses, _LIMIT - 1))
        worth = counts * _LIMIT + last
        worth = tf.where((uses > 0) & (last <= made), worth, _NEVER)
        wanted = tf.maximum(tf.gather(short, heap), (self._size - 1) // _EVICTED_SHARE)
        most = tf.minimum(tf.cast(tf.reduce_max(wanted), tf.int32), self._size - 1)
        found, place = tf.math.top_k(-worth, most)
        chosen = (tf.range(most, dtype=tf.int64) < wanted) & (found > -_NEVER)
        return self.free(tf.gather_nd(heap * self._size + tf.cast(place, tf.int64), tf.where(chosen)))

    def _counts(self, heap: tf.Tensor) -> tf.Tensor:
        return tf.math.unsorted_segment_sum(tf.ones_like(heap), heap, self._heaps)


def _rank(heap: tf.Tensor, heaps: int) -> tf.Tensor:
    """Which of those of the same heap each is: 0, 1, …"""
    order = tf.argsort(heap, stable=True)
    counts = tf.math.unsorted_segment_sum(tf.ones_like(heap), heap, heaps)
    first = tf.gather(tf.cumsum(counts, exclusive=True), tf.gather(heap, order))
    return tf.gather(tf.range(tf.size(heap, tf.int64), dtype=tf.int64) - first, tf.math.invert_permutation(order))


def _make_variable(name: str, shape: list[int], dtype: tf.DType) -> Any:
    return v1.get_variable(name, shape, dtype, v1.zeros_initializer(), trainable=False, use_resource=True)
