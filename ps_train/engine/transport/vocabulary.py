"""A slice of an open vocabulary on its ps: the rows of ids in a pull, and their admission in an update.

    vocabularies = make_vocabularies(model_variables, plan, variables, seed, training=True)     # by slice name
    rows, known = vocabulary.read(keys)                                     # in a pull; changes nothing
    admission = vocabulary.admit(gradient)                                  # in an update, under the ps's mutex

Updates count and admit ids, pulls do not.  So a pull needs no mutex, and replicas that use a new id in the same round
start from the same row.  If this step will admit an id, the pull returns the initial value of its future row
(`modeling/tables/id_initializer.py`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ps_train.data.pipeline import derived_seed
from ps_train.engine.transport.beside_rows import flat_rows
from ps_train.engine.variables.old_rows import OldRows, keep_old_rows
from ps_train.engine.variables.plan import Plan, Slice
from ps_train.engine.variables.trace import ModelVariables
from ps_train.engine.variables.variables import ps_device
from ps_train.modeling.tables.id_encoding import group_of, unique
from ps_train.modeling.tables.id_initializer import initial_rows_of_ids
from ps_train.modeling.tables.row_allocator import RowAllocator, scatter_rows
from ps_train.modeling.tables.table import Table
from ps_train.modeling.tables.vocabulary_index import (
    CANDIDATES,
    KEYS,
    UPDATE_COUNT,
    USED,
    IdStatus,
    VocabularyVariables,
)


@dataclasses.dataclass(frozen=True)
class Admission:
    """The result of an update's admission of ids.

    Attributes:
      gradient: the gradient of the rows that the ids now have.
      new_rows: int64 [k], rows assigned by this update; they have their initial values.
      done: ends when all variables are written.
    """

    gradient: tf.IndexedSlices
    new_rows: tf.Tensor
    done: tf.Operation


class Vocabulary:
    """An open vocabulary's slice.  Make it on the ps's device.

    Args:
      piece: the slice of the table's rows.
      variables: the slice's variables by the part of their name after the table's name; "" for the rows.
      seed: seed of the table's initial values.
      training: True if pulls return the future rows of ids that the step will admit.
      keeps_rows: True if updates keep old rows for checkpoints.

    Attributes:
      width: numbers in a key.
      old_rows: the variables of which updates keep old rows.
    """

    def __init__(
        self,
        piece: Slice,
        table: Table,
        variables: Mapping[str, Any],
        seed: int,
        training: bool,
        keeps_rows: bool = False,
    ) -> None:
        self.old_rows: list[OldRows] = []
        self._table, self._seed, self._training = table, seed, training
        self._rows, self._update_count = variables[""], variables[UPDATE_COUNT]
        self.width: int = variables[KEYS].shape[1]
        self.unassigned_row = table.rows_per_group - 1
        """Row of the slice that is never assigned to an id."""
        groups = piece.begin // table.rows_per_group, piece.shape[0] // table.rows_per_group
        admitted = VocabularyVariables(variables[KEYS], variables[USED], self._update_count)
        keep = self._keep(piece, piece.name, [self._rows, admitted.keys, admitted.used]) if keeps_rows else None
        self._allocator = RowAllocator(piece.name, admitted, *groups, table, keep)
        self._candidates: RowAllocator | None = None
        if table.admit_after > 1:
            candidates = VocabularyVariables(
                variables[f"{CANDIDATES}/{KEYS}"], variables[f"{CANDIDATES}/{USED}"], self._update_count
            )
            name = f"{piece.name}/{CANDIDATES}"
            keep = self._keep(piece, name, [candidates.keys, candidates.used]) if keeps_rows else None
            self._candidates = RowAllocator(name, candidates, *groups, table, keep)

    def _keep(self, piece: Slice, name: str, variables: list[Any]) -> Callable[[tf.Tensor], tf.Operation]:
        old = OldRows(name, variables)
        self.old_rows.append(old)
        return lambda rows: keep_old_rows(piece.ps, [(old, rows)])

    def place_of(self, keys: tf.Tensor) -> tf.Tensor:
        """Returns the position in the whole table at which each key's group begins, int64 [n]."""
        return group_of(keys, self._table.groups) * self._table.rows_per_group

    def rebuild(self) -> tf.Operation:
        """Rebuilds the indices; to run after the variables are restored."""
        with tf.device(self._update_count.device):
            return tf.group(*[some.rebuild() for some in (self._allocator, self._candidates) if some])

    def read(self, keys: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the rows of keys (int64 [n, width]), and which ids are known.

        Returns:
          rows: float32 [n, dimension], zeros for an unknown id.
          known: bool [n], the id has a row or, in training, gets one in this step.
        """
        index = self._allocator.index
        located = index.locate(keys)
        rows = self._rows.sparse_read(tf.maximum(located, 0))
        status = index.verify(keys, located, after=[rows])  # the row may be reassigned before the read
        known, otherwise = status.alive, tf.zeros_like(rows)
        if self._training:
            otherwise = initial_rows_of_ids(keys, self._table, self._seed)
            known |= self._uses_before(keys)[0] + 1 >= self._table.admit_after
        return tf.where(known[:, tf.newaxis], tf.where(status.alive[:, tf.newaxis], rows, otherwise), 0.0), known

    def read_ahead(self, keys: tf.Tensor, slots: Sequence[Any]) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the rows of keys (int64 [n, width]) for several steps, which may admit their ids.

        Args:
          keys: int64 [n, width].
          slots: the slots of the slice's rows.

        Returns:
          rows: float32 [n, dimension]; for an id without a row, the one that it will have.
          columns: float32 [n, slots' columns + 1]: the slots, then how many uses an id needs to be known, 0 for none.
        """
        index = self._allocator.index
        located = index.locate(keys)
        place = tf.maximum(located, 0)
        read = [one.sparse_read(place) for one in (self._rows, *slots)]
        alive = index.verify(keys, located, after=read).alive  # the row may be reassigned before the read
        unassigned = tf.fill(tf.shape(place), tf.constant(self.unassigned_row, tf.int64))
        otherwise = [
            initial_rows_of_ids(keys, self._table, self._seed),
            *(one.sparse_read(unassigned) for one in slots),
        ]
        rows, *others = (
            tf.where(tf.reshape(alive, [-1] + [1] * (one.shape.rank - 1)), one, other)
            for one, other in zip(read, otherwise, strict=True)
        )
        needed = self._table.admit_after - self._uses_before(keys)[0]
        missing = tf.cast(tf.where(alive, tf.zeros_like(needed), needed), tf.float32)[:, tf.newaxis]
        return rows, tf.concat([*map(flat_rows, others), missing], 1)

    def draw(self, count: int, by_uses: bool, after: tf.Tensor) -> tf.Tensor:
        """Draws ids of the slice after `after`; see `RowIndex.draw`."""
        return self._allocator.index.draw(count, by_uses, [after])

    def uses(self, keys: tf.Tensor, after: tf.Tensor) -> tf.Tensor:
        """Returns the uses of ids after `after`; see `RowIndex.uses`."""
        return self._allocator.index.uses(keys, [after])

    def sparse_read(self, keys: tf.Tensor) -> tf.Tensor:
        """Returns the current rows of keys, float32 [n, dimension], as a variable's `sparse_read` does."""
        return self.read(keys)[0]

    def admit(
        self,
        gradient: tf.IndexedSlices,
        used: tf.Tensor | None = None,
        uses: tf.Tensor | None = None,
        steps: int | tf.Tensor = 1,
    ) -> Admission:
        """Counts the ids of a gradient (its indices are keys), and assigns rows to those used often enough.

        Args:
          gradient: values float32 [n, dimension].
          used: float32 [n], above 0 for the keys whose rows the step has used.  The gradient is that of these rows.
            For other keys the step has used the default row, so their rows must not be updated.  None: all are used.
          uses: float32 [n], how many of the update's steps have used the keys; a key of 0 is not counted.  None: one.
          steps: number of steps that the update stands for.  What several replicas have used is not counted more often.
        """
        keys, index = unique(gradient.indices)
        number = tf.cast(steps, tf.int64)
        if uses is None:
            counts = tf.ones_like(keys[:, 0])
        else:
            summed = tf.math.unsorted_segment_sum(tf.cast(tf.round(uses), tf.int64), index, tf.shape(keys)[0])
            counts = tf.minimum(summed, tf.maximum(number, 1))
        row, new_rows, done = self._rows_for(keys, counts, number)
        with tf.control_dependencies(done):
            counted = self._update_count.assign_add(tf.fill(self._update_count.shape, number), read_value=False)
        rows = tf.gather(row, index)
        present = tf.where(rows >= 0 if used is None else (rows >= 0) & (used > 0))[:, 0]
        rows, values = tf.gather(rows, present), tf.gather(gradient.values, present)
        return Admission(tf.IndexedSlices(values, rows, gradient.dense_shape), new_rows, counted)

    def _rows_for(
        self, keys: tf.Tensor, counts: tf.Tensor, steps: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, list[tf.Operation]]:
        """Returns the row of each id or -1, the rows assigned by this update, and the operations to wait for.

        Args:
          keys: int64 [n, width].
          counts: int64 [n], how many of the update's steps have used the ids.
          steps: int64 scalar, number of steps that the update stands for.
        """
        status = self._allocator.index.find(keys)
        before, candidate = self._uses_before(keys)
        use_counts, is_counted = before + counts, counts > 0
        admitted = ~status.alive & ~status.blocked & is_counted & (use_counts >= self._table.admit_after)
        counted = self._count_candidates(keys, use_counts, candidate, admitted, status, is_counted, steps)
        has_row = (status.alive | admitted) & (status.row >= 0)  # an expired id may still have its row
        readmitted = tf.where(has_row & ~status.alive)[:, 0]
        # One that found no room before has been used more often; what it gets counts from here.
        first_uses = tf.minimum(use_counts, self._table.admit_after + counts - 1)
        uses = tf.where(status.alive, status.uses + counts, first_uses)
        with tf.control_dependencies([self._allocator.keep(tf.gather(status.row, tf.where(has_row)[:, 0]))]):
            reset = self._initialize(tf.gather(status.row, readmitted), tf.gather(keys, readmitted))
        with tf.control_dependencies([reset]):
            recorded = _record_use(self._allocator, has_row & is_counted, status, uses, status.alive, steps)
        new = tf.where(admitted & (status.row < 0))
        with tf.control_dependencies([recorded]):
            allocated = self._allocator.allocate(
                tf.gather_nd(keys, new), tf.gather_nd(first_uses, new), steps, self._initialize
            )
        row = tf.where(has_row, status.row, tf.fill(tf.shape(status.row), tf.constant(-1, tf.int64)))
        row = tf.tensor_scatter_nd_update(row, new, allocated)
        new_rows = tf.gather_nd(row, tf.where(admitted & (row >= 0)))
        return row, new_rows, [*counted, recorded, allocated.op]

    def _initialize(self, rows: tf.Tensor, keys: tf.Tensor) -> tf.Operation:
        """Sets rows to the initial values of their ids."""
        return scatter_rows(self._rows, rows, initial_rows_of_ids(keys, self._table, self._seed))

    def _uses_before(self, keys: tf.Tensor) -> tuple[tf.Tensor, IdStatus | None]:
        """Returns the use counts of ids without rows before this update, int64 [n]; and their candidate status."""
        if self._candidates is None:
            return tf.zeros_like(keys[:, 0]), None
        candidate = self._candidates.index.find(keys)
        return tf.where(candidate.alive, candidate.uses, 0), candidate

    def _count_candidates(
        self,
        keys: tf.Tensor,
        use_counts: tf.Tensor,
        candidate: IdStatus | None,
        admitted: tf.Tensor,
        status: IdStatus,
        is_counted: tf.Tensor,
        steps: tf.Tensor,
    ) -> list[tf.Operation]:
        """Stores the use counts of ids that remain candidates, and frees those of the admitted ids."""
        if self._candidates is None or candidate is None:
            return []
        was_counted, remains = candidate.row >= 0, ~status.alive & ~admitted & is_counted
        recounted = remains & was_counted
        with tf.control_dependencies([self._candidates.keep(tf.gather(candidate.row, tf.where(recounted)[:, 0]))]):
            recorded = _record_use(self._candidates, recounted, candidate, use_counts, candidate.alive, steps)
        with tf.control_dependencies([recorded]):
            freed = self._candidates.free(tf.gather_nd(candidate.row, tf.where(admitted & was_counted)))
        new = tf.where(remains & ~was_counted & ~candidate.blocked)
        with tf.control_dependencies([freed]):
            allocated = self._candidates.allocate(tf.gather_nd(keys, new), tf.gather_nd(use_counts, new), steps)
        return [recorded, freed, allocated.op]


def _record_use(
    allocator: RowAllocator,
    which: tf.Tensor,
    status: IdStatus,
    uses: tf.Tensor,
    keeps_since: tf.Tensor,
    steps: tf.Tensor,
) -> tf.Operation:
    """Records that this update of some steps uses the rows of `which` ids (bool [n]).

    If `keeps_since` (bool [n]) is false for an id, this update counts as the one that assigned its row.
    """
    which = tf.where(which)[:, 0]
    row, uses, since, keeps = (tf.gather(some, which) for some in (status.row, uses, status.since, keeps_since))
    return allocator.record_use(row, uses, tf.where(keeps, since, allocator.now(row, steps)), steps)


def make_vocabularies(
    model_variables: ModelVariables,
    plan: Plan,
    variables: Mapping[str, Any],
    seed: int,
    training: bool,
    keeps_rows: Collection[str] = (),
) -> dict[str, Vocabulary]:
    """Returns all open vocabularies by slice name.

    Args:
      model_variables: has the tables.
      plan: the slices of all variables.
      variables: slice name to variable.
      seed: the job's seed.
      training: True if pulls return the future rows of ids that the step will admit.
      keeps_rows: names of the slices whose old rows updates keep for checkpoints.
    """
    found = {}
    for name in model_variables.tables():
        table = model_variables.variables[name].table
        if table is None or not table.is_open:
            continue
        for piece in plan.slices_of(name):
            parts = ["", *(other[len(name) + 1 :] for other in model_variables.variables if _belongs_to(other, name))]
            own = {part: variables[_slice_of(plan, f"{name}/{part}" if part else name, piece.index)] for part in parts}
            with tf.device(ps_device(piece.ps)):
                seeded = derived_seed(seed, name)
                found[piece.name] = Vocabulary(piece, table, own, seeded, training, piece.name in keeps_rows)
    return found


def rebuild_all(vocabularies: Mapping[str, Vocabulary]) -> tf.Operation:
    """Rebuilds the indices of all vocabularies."""
    return tf.group(*[vocabulary.rebuild() for vocabulary in vocabularies.values()])


def _belongs_to(name: str, table: str) -> bool:
    parts = (KEYS, USED, UPDATE_COUNT, f"{CANDIDATES}/{KEYS}", f"{CANDIDATES}/{USED}")
    return name in {f"{table}/{part}" for part in parts}


def _slice_of(plan: Plan, name: str, index: int) -> str:
    return plan.slices_of(name)[index].name
