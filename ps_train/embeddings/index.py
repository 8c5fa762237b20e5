"""Which row an id of an open vocabulary has: three variables say it, and a hash table finds it quickly.

    index = Index(Book(keys, used, clock), table.rows_of_heap, table.expire_steps, shared_name)
    seen = index.look(words)                # seen.row, seen.alive

The variables are what is saved and restored.  The hash table is made of them (`rebuild`), and believed only where they
agree with it: so nobody gets the row of another id, even while rows change hands.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ps_train.embeddings.id_encoding import digests

KEYS, USED, CLOCK, CANDIDATES = "keys", "used", "clock", "candidates"
"""Beginning with the table's name and a slash, names of the variables beside it."""


@dataclasses.dataclass(frozen=True)
class VocabularyVariables:
    """Variables beside the rows of a table, or of a slice of it.

    Attributes:
      keys: int64 [rows, width], the words of the id that has the row.
      used: int64 [rows, 3], by how many updates, 0 where the row is free; by which the last time; and which gave it to
        its id.
      clock: int64 [heaps], number of updates made; a vector because a ps has whole heaps, whatever the number of ps.
    """

    keys: Any
    used: Any
    clock: Any


@dataclasses.dataclass(frozen=True)
class IdStatus:
    """What is known of ids.

    Attributes:
      row: int64 [n], -1 where the id has none.
      alive: bool [n], it has one and has not expired.
      uses: int64 [n], of that row.
      since: int64 [n], the update that gave it.
      blocked: bool [n], another id of the same digest has a row.
    """

    row: tf.Tensor
    alive: tf.Tensor
    uses: tf.Tensor
    since: tf.Tensor
    blocked: tf.Tensor


class RowIndex:
    """Args:
    rows_of_heap: how many rows of the book belong together.
    expire_steps: an id that as many updates in succession have not used has expired; None: none ever has.
    shared_name: the hash table's, of all that use the same book.
    """

    def __init__(
        self, book: VocabularyVariables, rows_of_heap: int, expire_steps: int | None, shared_name: str
    ) -> None:
        self._book, self._rows_of_heap, self._expire_steps = book, rows_of_heap, expire_steps
        # Not a dense one: it reserves two keys, and ids may be any; and it fills up with what was removed from it.
        self._table = tf.raw_ops.MutableHashTableV2(key_dtype=tf.int64, value_dtype=tf.int64, shared_name=shared_name)

    def find(self, words: tf.Tensor, after: Sequence[tf.Tensor] = ()) -> IdStatus:
        """Of ids int64 [n, width]."""
        return self.verify(words, self.locate(words), after)

    def locate(self, words: tf.Tensor) -> tf.Tensor:
        """Where an id's row should be, int64 [n]; -1 where there is none."""
        nowhere = tf.constant(-1, tf.int64)
        return tf.raw_ops.LookupTableFindV2(table_handle=self._table, keys=digests(words), default_value=nowhere)

    def verify(self, words: tf.Tensor, place: tf.Tensor, after: Sequence[tf.Tensor] = ()) -> IdStatus:
        """What is written there, read `after` those tensors."""
        inside = tf.maximum(place, 0)
        with tf.control_dependencies(after):
            keys, used = self._book.keys.sparse_read(inside), self._book.used.sparse_read(inside)
        uses, _, since = tf.unstack(used, axis=1)
        taken = (place >= 0) & (uses > 0)
        same = taken & tf.reduce_all(tf.equal(keys, words), 1)
        alive = same
        if self._expire_steps is not None:
            alive &= tf.logical_not(self.expired(tf.gather(self._book.clock.read_value(), self.group(inside)), used))
        nowhere = tf.fill(tf.shape(place), tf.constant(-1, tf.int64))
        return IdStatus(tf.where(same, place, nowhere), alive, uses, since, taken & tf.logical_not(same))

    def group(self, rows: tf.Tensor) -> tf.Tensor:
        return rows // self._rows_of_heap

    def expired(self, made: tf.Tensor, used: tf.Tensor) -> tf.Tensor:
        """Whether ids have expired when so many updates are made; `used`: of their rows, [..., 3]."""
        if self._expire_steps is None:
            return tf.zeros_like(used[..., 1], tf.bool)
        return made - used[..., 1] >= self._expire_steps

    def put(self, words: tf.Tensor, rows: tf.Tensor) -> tf.Operation:
        return tf.raw_ops.LookupTableInsertV2(table_handle=self._table, keys=digests(words), values=rows)

    def remove(self, words: tf.Tensor) -> tf.Operation:
        return tf.raw_ops.LookupTableRemoveV2(table_handle=self._table, keys=digests(words))

    def used_rows(self) -> tf.Tensor:
        """Which rows ids have, bool [rows]."""
        return self._book.used.read_value()[:, 0] > 0

    def rebuild(self) -> tf.Operation:
        """Makes the hash table anew."""
        rows = tf.where(self.used_rows())[:, 0]
        keys = digests(self._book.keys.sparse_read(rows))
        return tf.raw_ops.LookupTableImportV2(table_handle=self._table, keys=keys, values=rows)
