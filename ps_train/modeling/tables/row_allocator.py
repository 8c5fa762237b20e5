"""The allocator of an open vocabulary's rows on one ps: rows are assigned to ids, freed, and assigned again.

    variables = VocabularyVariables(keys, used, update_count)
    allocator = RowAllocator("ads", variables, first_group=0, groups=251, table=table)
    status = allocator.index.find(keys)
    allocator.record_use(status.row[status.alive], uses, since)
    rows = allocator.allocate(keys_without_rows, uses_of_keys)      # -1 if there is no room

All operations except `index.find` must run under the ps's mutex, each after the operations built before it.  An
operation has ended when its result is computed.  Each group keeps its free rows on a stack.  The stacks and the index
are rebuilt from the variables after a restore.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.modeling.tables.id_encoding import group_of
from ps_train.modeling.tables.table import Table
from ps_train.modeling.tables.vocabulary_index import RowIndex, VocabularyVariables


def scatter_rows(variable: Any, rows: tf.Tensor, values: tf.Tensor) -> tf.Operation:
    """Returns the operation that assigns some rows of an initialized variable.

    Args:
      variable: the variable, or one slice of it.
      rows: int32 or int64 [k], row numbers.
      values: [k, …], their new values.
    """
    return tf.raw_ops.ResourceScatterUpdate(resource=variable.handle, indices=rows, updates=values)


_EVICTION_DIVISOR = 64
"""A search for least used rows reads a whole group, so an eviction frees at least one in 64 of the group's rows."""

Prepare = Callable[[tf.Tensor, tf.Tensor], tf.Operation]
"""Maps rows int64 [n] and the keys of their ids to the operation that initializes the rows."""

_LIMIT = 1 << 31
_NEVER = (1 << 63) - 1


class RowAllocator:
    """The allocator of one slice's rows.  Make it on the ps's device.

    Args:
      name: unique on the ps.
      variables: the vocabulary's variables of the slice.
      first_group: first group of the table that the ps holds.
      groups: number of groups that the ps holds.
      keep: makes the operation that keeps rows (int64 [n]) for a checkpoint before they are written; None: no
        operation.

    Attributes:
      index: the map from ids to rows.
    """

    def __init__(
        self,
        name: str,
        variables: VocabularyVariables,
        first_group: int,
        groups: int,
        table: Table,
        keep: Callable[[tf.Tensor], tf.Operation] | None = None,
    ) -> None:
        self._keep = keep
        self._variables, self._first_group, self._groups, self._table = variables, first_group, groups, table
        self._size = table.rows_per_group
        self.index = RowIndex(variables, self._size, table.expire_steps, f"ps_train/index/{name}")
        self._free = _counts(f"ps_train/free/{name}", tf.int32, groups * self._size)
        self._top = _counts(f"ps_train/top/{name}", tf.int64, groups)

    def rebuild(self) -> tf.Operation:
        """Rebuilds the index and the stacks from the variables."""
        free = tf.logical_not(self.index.used_rows())
        assignable = tf.tile(tf.range(self._size) < self._size - 1, [self._groups])  # all but the last of each group
        rows = tf.where(free & assignable)[:, 0]
        group = self.index.group(rows)
        counts = self._counts(group)
        rank = tf.range(tf.size(rows, tf.int64), dtype=tf.int64) - tf.gather(tf.cumsum(counts, exclusive=True), group)
        slot = group * self._size + tf.gather(counts, group) - 1 - rank  # the first row is on top
        return tf.group(
            self.index.rebuild(),
            scatter_rows(self._variables.used, rows, tf.zeros([tf.size(rows), 3], tf.int64)),
            scatter_rows(self._free, slot, tf.cast(rows, tf.int32)),
            self._top.assign(counts, read_value=False),
        )

    def now(self, rows: tf.Tensor, steps: int | tf.Tensor = 1) -> tf.Tensor:
        """Returns the number of the current update, of so many steps, in each row's group, int64 [n]."""
        return tf.gather(self._variables.update_count.read_value(), self.index.group(rows)) + steps

    def keep(self, rows: tf.Tensor) -> tf.Operation:
        """Keeps rows (int64 [n]) for a checkpoint, before they are written."""
        return tf.no_op() if self._keep is None else self._keep(rows)

    def record_use(
        self, rows: tf.Tensor, uses: tf.Tensor, since: tf.Tensor, steps: int | tf.Tensor = 1
    ) -> tf.Operation:
        """Records that the current update uses rows; to run after `keep`.

        Args:
          rows: int64 [n].
          uses: int64 [n], use count of each row with this update.
          since: int64 [n], update that assigned each row.
          steps: number of steps that the update stands for.
        """
        return scatter_rows(self._variables.used, rows, tf.stack([uses, self.now(rows, steps), since], 1))

    def allocate(
        self, keys: tf.Tensor, uses: tf.Tensor, steps: int | tf.Tensor = 1, prepare: Prepare | None = None
    ) -> tf.Tensor:
        """Assigns rows to ids without one, and returns the rows, int64 [n]; -1 where too few rows can be freed.

        A full group first frees the rows of its least used ids that this update does not use.

        Args:
          keys: int64 [n, width], distinct.
          uses: int64 [n], use count of the new rows.
          steps: number of steps that the update stands for.
          prepare: initializes the rows before other replicas can find them.
        """
        group = group_of(keys, self._table.groups) - self._first_group
        needed, before = self._counts(group), self._top.read_value()
        short = needed - before
        evict = v1.cond(tf.reduce_any(short > 0), lambda: self._evict(short), tf.no_op)
        with tf.control_dependencies([evict]):
            top = self._top.read_value()
        rank = _rank(group, self._groups)
        has_room = rank < tf.gather(top, group)
        slot = tf.where(has_room, group * self._size + tf.gather(top, group) - 1 - rank, 0)
        row = tf.cast(self._free.sparse_read(slot), tf.int64)
        which = tf.where(has_room)[:, 0]
        assigned, keys = tf.gather(row, which), tf.gather(keys, which)
        use_counts = tf.gather(uses, which)
        # The keys are written first: a pull by the earlier id then sees that the row is no longer its own.  The index
        # is written last: the new id must not find the row before it is initialized.
        with tf.control_dependencies([self.keep(assigned)]):
            taken = scatter_rows(self._variables.keys, assigned, keys)
        with tf.control_dependencies([taken, row]):
            ready = prepare(assigned, keys) if prepare else tf.no_op()
        with tf.control_dependencies([ready]):
            done = [
                self.record_use(assigned, use_counts, self.now(assigned, steps), steps),
                self.index.put(keys, assigned),
                self._top.assign(top - tf.minimum(needed, top), read_value=False),
            ]
        with tf.control_dependencies(done):
            return tf.where(has_room, row, tf.fill(tf.shape(row), tf.constant(-1, tf.int64)))

    def free(self, rows: tf.Tensor) -> tf.Operation:
        """Frees rows that ids have; each row must occur once."""
        group, top = self.index.group(rows), self._top.read_value()
        slot = group * self._size + tf.gather(top, group) + _rank(group, self._groups)
        removed = self.index.remove(self._variables.keys.sparse_read(rows))
        with tf.control_dependencies([removed, slot, self.keep(rows)]):
            return tf.group(
                scatter_rows(self._variables.used, rows, tf.zeros([tf.size(rows), 3], tf.int64)),
                scatter_rows(self._free, slot, tf.cast(rows, tf.int32)),
                self._top.assign(top + self._counts(group), read_value=False),
            )

    def _evict(self, short: tf.Tensor) -> tf.Operation:
        """Frees rows of groups that lack some (`short` > 0, int64 [groups]).

        Expired ids lose their rows first, then the least used ids.  Among equal counts, the least recently used id
        loses its row.
        """
        group = tf.where(short > 0)
        used = self._variables.used.sparse_read(group * self._size + tf.range(self._size - 1, dtype=tf.int64))
        uses, last, _ = tf.unstack(used, axis=2)
        update_count = tf.gather(self._variables.update_count.read_value(), group)
        counts = tf.where(self.index.expired(update_count, used), tf.zeros_like(uses), tf.minimum(uses, _LIMIT - 1))
        rating = counts * _LIMIT + last
        rating = tf.where((uses > 0) & (last <= update_count), rating, _NEVER)
        target = tf.maximum(tf.gather(short, group), (self._size - 1) // _EVICTION_DIVISOR)
        most = tf.minimum(tf.cast(tf.reduce_max(target), tf.int32), self._size - 1)
        found, place = tf.math.top_k(-rating, most)
        chosen = (tf.range(most, dtype=tf.int64) < target) & (found > -_NEVER)
        return self.free(tf.gather_nd(group * self._size + tf.cast(place, tf.int64), tf.where(chosen)))

    def _counts(self, group: tf.Tensor) -> tf.Tensor:
        return tf.math.unsorted_segment_sum(tf.ones_like(group), group, self._groups)


def _rank(group: tf.Tensor, groups: int) -> tf.Tensor:
    """Returns the index of each element among those of the same group: 0, 1, and so on."""
    order = tf.argsort(group, stable=True)
    counts = tf.math.unsorted_segment_sum(tf.ones_like(group), group, groups)
    first = tf.gather(tf.cumsum(counts, exclusive=True), tf.gather(group, order))
    return tf.gather(tf.range(tf.size(group, tf.int64), dtype=tf.int64) - first, tf.math.invert_permutation(order))


def _counts(name: str, dtype: tf.DType, size: int) -> Any:
    zeros = v1.zeros_initializer()
    return v1.get_variable(name, [size], dtype, zeros, trainable=False, use_resource=True)
