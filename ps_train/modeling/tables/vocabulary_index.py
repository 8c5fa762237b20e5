"""The map from an open vocabulary's ids to rows: three variables, and a hash table as their index.

    variables = VocabularyVariables(keys, used, update_count)
    index = RowIndex(variables, table.rows_per_group, table.expire_steps, shared_name)
    status = index.find(encode_ids(table, ids))         # status.row, status.alive

Checkpoints contain the variables.  The hash table is rebuilt from them (`rebuild`), and every row that it finds is
verified against them.  So an id never gets the row of another id, even while rows are being reassigned.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.modeling.tables.id_encoding import digests

KEYS, USED, UPDATE_COUNT, CANDIDATES = "keys", "used", "clock", "candidates"
"""Names of the vocabulary's variables, after the table's name and a slash."""


@dataclasses.dataclass(frozen=True)
class VocabularyVariables:
    """Variables that map ids to the rows of a table, or of a slice of it.

    Attributes:
      keys: int64 [rows, width], the key of the id that has the row; see `id_encoding.py`.
      used: int64 [rows, 3]: use count in updates (0 for a free row), last update that used the row, and update that
        assigned it.
      update_count: int64 [groups], number of applied updates; one element for each group, because a ps holds whole
        groups.
    """

    keys: Any
    used: Any
    update_count: Any


@dataclasses.dataclass(frozen=True)
class IdStatus:
    """The status of ids in a vocabulary.

    Attributes:
      row: int64 [n], the id's row, or -1 if it has none.
      alive: bool [n], the id has a row and has not expired.
      uses: int64 [n], use count of the row.
      since: int64 [n], update that assigned the row.
      blocked: bool [n], another id with the same digest has a row.
    """

    row: tf.Tensor
    alive: tf.Tensor
    uses: tf.Tensor
    since: tf.Tensor
    blocked: tf.Tensor


class RowIndex:
    """A hash table from digests to rows, verified against the variables.

    Args:
      variables: the map from ids to rows.
      rows_per_group: consecutive rows that belong to one group.
      expire_steps: number of successive updates without a use after which an id has expired; None: ids never expire.
      shared_name: name of the hash table, shared by all indices of the same variables.
    """

    def __init__(
        self, variables: VocabularyVariables, rows_per_group: int, expire_steps: int | None, shared_name: str
    ) -> None:
        self._variables, self._rows_per_group, self._expire_steps = variables, rows_per_group, expire_steps
        # A dense hash table does not serve: it reserves two keys, and removed entries keep filling it.
        self._table = tf.raw_ops.MutableHashTableV2(key_dtype=tf.int64, value_dtype=tf.int64, shared_name=shared_name)

    def find(self, keys: tf.Tensor, after: Sequence[tf.Tensor] = ()) -> IdStatus:
        """Returns the status of ids by their keys, int64 [n, width]; the variables are read after `after`."""
        return self.verify(keys, self.locate(keys), after)

    def locate(self, keys: tf.Tensor) -> tf.Tensor:
        """Returns the row that the hash table has for each key, int64 [n]; -1 if there is none."""
        none = tf.constant(-1, tf.int64)
        return tf.raw_ops.LookupTableFindV2(table_handle=self._table, keys=digests(keys), default_value=none)

    def verify(self, keys: tf.Tensor, row: tf.Tensor, after: Sequence[tf.Tensor] = ()) -> IdStatus:
        """Returns the status of ids whose rows were located, from the variables as read after `after`.

        Args:
          keys: int64 [n, width].
          row: int64 [n], result of `locate`.
          after: tensors that must be computed before the read.
        """
        inside = tf.maximum(row, 0)
        with tf.control_dependencies(after):
            stored, used = self._variables.keys.sparse_read(inside), self._variables.used.sparse_read(inside)
        uses, _, since = tf.unstack(used, axis=1)
        taken = (row >= 0) & (uses > 0)
        same = taken & tf.reduce_all(tf.equal(stored, keys), 1)
        alive = same
        if self._expire_steps is not None:
            updates = tf.gather(self._variables.update_count.read_value(), self.group(inside))
            alive &= tf.logical_not(self.expired(updates, used))
        none = tf.fill(tf.shape(row), tf.constant(-1, tf.int64))
        return IdStatus(tf.where(same, row, none), alive, uses, since, taken & tf.logical_not(same))

    def group(self, rows: tf.Tensor) -> tf.Tensor:
        """Returns the group of each row."""
        return rows // self._rows_per_group

    def expired(self, update_count: tf.Tensor, used: tf.Tensor) -> tf.Tensor:
        """Returns whether ids have expired after `update_count` updates, bool [...].

        Args:
          update_count: int64, broadcast to [...].
          used: int64 [..., 3], the rows' part of `VocabularyVariables.used`.
        """
        if self._expire_steps is None:
            return tf.zeros_like(used[..., 1], tf.bool)
        return update_count - used[..., 1] >= self._expire_steps

    def put(self, keys: tf.Tensor, rows: tf.Tensor) -> tf.Operation:
        """Enters the rows (int64 [n]) of keys into the hash table."""
        return tf.raw_ops.LookupTableInsertV2(table_handle=self._table, keys=digests(keys), values=rows)

    def remove(self, keys: tf.Tensor) -> tf.Operation:
        """Removes keys from the hash table."""
        return tf.raw_ops.LookupTableRemoveV2(table_handle=self._table, keys=digests(keys))

    def draw(self, count: int, by_uses: bool, after: Sequence[tf.Tensor] = ()) -> tf.Tensor:
        """Draws ids that have rows and have not expired, with replacement; it goes over all use counts.

        Args:
          count: number of draws; none are made while no id has a row.
          by_uses: True draws an id as often as updates have used it, False draws all equally often.
          after: tensors that must be computed before the variables are read.

        Returns:
          int64 [count or 0, width + 2]: the key of each drawn id, its weight, and the sum of all weights.
        """
        with tf.control_dependencies(after):
            used = self._variables.used.read_value()
            updates = tf.repeat(self._variables.update_count.read_value(), self._rows_per_group)
        uses = tf.where(self.expired(updates, used), tf.zeros_like(used[:, 0]), used[:, 0])
        weights = uses if by_uses else tf.minimum(uses, 1)
        ends = tf.cumsum(weights)
        total = ends[-1]
        numbers = v1.random_uniform([count], 0, tf.maximum(total, 1), tf.int64)
        numbers = numbers[: tf.where(total > 0, count, 0)]
        rows = tf.searchsorted(ends, numbers, side="right", out_type=tf.int64)
        weight = tf.stack([tf.gather(weights, rows), tf.fill(tf.shape(rows), total)], 1)
        return tf.concat([self._variables.keys.sparse_read(rows), weight], 1)

    def uses(self, keys: tf.Tensor, after: Sequence[tf.Tensor] = ()) -> tf.Tensor:
        """Returns how often updates have used ids, and since when, int64 [n, 2].

        The first number is the use count; 0 for an id without a row, or an expired one.  The second is the number of
        updates from the one that assigned the row to the next one; without a row, of all updates and the next one.

        Args:
          keys: int64 [n, width].
          after: tensors that must be computed before the variables are read.
        """
        status = self.find(keys, after)
        updates = self._variables.update_count.read_value()[0] + 1
        return tf.stack(
            [tf.where(status.alive, status.uses, 0), tf.where(status.alive, updates - status.since, updates)], 1
        )

    def used_rows(self) -> tf.Tensor:
        """Returns which rows belong to an id, bool [rows]."""
        return self._variables.used.read_value()[:, 0] > 0

    def rebuild(self) -> tf.Operation:
        """Rebuilds the hash table from the variables."""
        rows = tf.where(self.used_rows())[:, 0]
        keys = digests(self._variables.keys.sparse_read(rows))
        return tf.raw_ops.LookupTableImportV2(table_handle=self._table, keys=keys, values=rows)
