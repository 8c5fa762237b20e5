"""A slice of an open vocabulary on its ps: what a worker is given for ids, and how ids get rows.

    vocabularies = make_vocabularies(traced, plan, variables, seed)         # slice name to Vocabulary
    rows, known = vocabulary.read(words)                                    # in a pull; changes nothing
    admitted = vocabulary.admit(words)                                      # in an update, under the ps's lock

Ids are counted and admitted by updates, not by pulls.  So a pull needs no lock, and replicas that meet a new id in the
same round begin with the same row and learn it together.  To an id that this step will admit a pull gives the value
that its row is going to have (`embeddings/id_initializer.py`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from ps_train.data.pipeline import derived_seed
from ps_train.embeddings.id_encoding import group_of, unique
from ps_train.embeddings.id_initializer import initial_rows_of_ids
from ps_train.embeddings.index import CANDIDATES, CLOCK, KEYS, USED, IdStatus, VocabularyVariables
from ps_train.embeddings.table import Table
from ps_train.placement.plan import Plan, Slice
from ps_train.placement.trace import ModelVariables
from ps_train.placement.variables import ps_device, scatter_rows
from ps_train.tables.row_allocator import RowAllocator


@dataclasses.dataclass(frozen=True)
class Admission:
    """What an update does to ids.

    Attributes:
      gradient: of the rows that they have now.
      fresh: int64 [k], rows that have just been given to ids; they have their initial values.
      done: when everything is written.
    """

    gradient: tf.IndexedSlices
    fresh: tf.Tensor
    done: tf.Operation


class Vocabulary:
    """Make it on the ps's device.

    Args:
      variables: the slice's own, by what stands behind the table's name; "" for the rows.
      seed: of the table's initial values.
    """

    def __init__(self, piece: Slice, table: Table, variables: Mapping[str, Any], seed: int, training: bool) -> None:
        self._table, self._seed, self._training = table, seed, training
        self._rows, self._clock = variables[""], variables[CLOCK]
        self.width: int = variables[KEYS].shape[1]
        self.pristine = table.rows_per_group - 1
        """A row of the slice that no id ever gets."""
        heaps = piece.begin // table.rows_per_group, piece.shape[0] // table.rows_per_group
        book = VocabularyVariables(variables[KEYS], variables[USED], self._clock)
        self._directory = RowAllocator(piece.name, book, *heaps, table)
        self._candidates: RowAllocator | None = None
        if table.admit_after > 1:
            book = VocabularyVariables(
                variables[f"{CANDIDATES}/{KEYS}"], variables[f"{CANDIDATES}/{USED}"], self._clock
            )
            self._candidates = RowAllocator(f"{piece.name}/{CANDIDATES}", book, *heaps, table)

    def place_of(self, words: tf.Tensor) -> tf.Tensor:
        """Of ids of the whole table, where their heaps begin."""
        return group_of(words, self._table.groups) * self._table.rows_per_group

    def rebuild(self) -> tf.Operation:
        """To be run when the variables have been given values from elsewhere."""
        with tf.device(self._clock.device):
            return tf.group(*[some.rebuild() for some in (self._directory, self._candidates) if some])

    def read(self, words: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Rows float32 [n, dimension] of ids int64 [n, width], zeros where they have none; and bool [n], who has."""
        index = self._directory.index
        place = index.locate(words)
        rows = self._rows.sparse_read(tf.maximum(place, 0))
        seen = index.verify(words, place, after=[rows])  # whose row it was, if it has changed hands in between
        known, otherwise = seen.alive, tf.zeros_like(rows)
        if self._training:
            otherwise = initial_rows_of_ids(words, self._table, self._seed)
            known |= self._sights(words)[0] >= self._table.admit_after
        return tf.where(known[:, tf.newaxis], tf.where(seen.alive[:, tf.newaxis], rows, otherwise), 0.0), known

    def sparse_read(self, words: tf.Tensor) -> tf.Tensor:
        """As of a variable, the values that are there now."""
        return self.read(words)[0]

    def admit(self, gradient: tf.IndexedSlices) -> Admission:
        """Counts the ids (words, as the gradient's indices), and gives rows to those whose turn it is."""
        words, index = unique(gradient.indices)
        row, fresh, done = self._rows_for(words)
        with tf.control_dependencies(done):
            counted = self._clock.assign_add(tf.ones(self._clock.shape, tf.int64), read_value=False)
        rows = tf.gather(row, index)
        there = tf.where(rows >= 0)[:, 0]
        rows, values = tf.gather(rows, there), tf.gather(gradient.values, there)
        return Admission(tf.IndexedSlices(values, rows, gradient.dense_shape), fresh, counted)

    def _rows_for(self, words: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, list[tf.Operation]]:
        """Row of each id, or -1; the rows that have just been given; and what must be waited for."""
        seen = self._directory.index.find(words)
        sights, waiting = self._sights(words)
        wanted = ~seen.alive & ~seen.blocked & (sights >= self._table.admit_after)
        counted = self._count(words, sights, waiting, wanted, seen)
        own = (seen.alive | wanted) & (seen.row >= 0)  # an id that has expired may find its row still there
        again = tf.where(own & ~seen.alive)[:, 0]
        uses = tf.where(seen.alive, seen.uses + 1, self._table.admit_after)
        with tf.control_dependencies([self._begin(tf.gather(seen.row, again), tf.gather(words, again))]):
            touched = _touch(self._directory, own, seen, uses, seen.alive)
        new = tf.where(wanted & (seen.row < 0))
        with tf.control_dependencies([touched]):
            placed = self._directory.allocate(tf.gather_nd(words, new), self._table.admit_after, self._begin)
        row = tf.where(own, seen.row, tf.fill(tf.shape(seen.row), tf.constant(-1, tf.int64)))
        row = tf.tensor_scatter_nd_update(row, new, placed)
        fresh = tf.gather_nd(row, tf.where(wanted & (row >= 0)))
        return row, fresh, [*counted, touched, placed.op]

    def _begin(self, rows: tf.Tensor, words: tf.Tensor) -> tf.Operation:
        """Gives rows the values that their ids begin with."""
        return scatter_rows(self._rows, rows, initial_rows_of_ids(words, self._table, self._seed))

    def _sights(self, words: tf.Tensor) -> tuple[tf.Tensor, IdStatus | None]:
        """By how many updates ids without rows have been used, if this one is counted."""
        if self._candidates is None:
            return tf.ones_like(words[:, 0]), None
        seen = self._candidates.index.find(words)
        return tf.where(seen.alive, seen.uses, 0) + 1, seen

    def _count(
        self, words: tf.Tensor, sights: tf.Tensor, waiting: IdStatus | None, wanted: tf.Tensor, seen: IdStatus
    ) -> list[tf.Operation]:
        """Keeps the sights of ids that go on waiting, and forgets those of the others."""
        if self._candidates is None or waiting is None:
            return []
        there, more = waiting.row >= 0, ~seen.alive & ~wanted
        touched = _touch(self._candidates, more & there, waiting, sights, waiting.alive)
        with tf.control_dependencies([touched]):
            released = self._candidates.free(tf.gather_nd(waiting.row, tf.where(wanted & there)))
        new = more & ~there & ~waiting.blocked
        with tf.control_dependencies([released]):
            placed = self._candidates.allocate(tf.gather_nd(words, tf.where(new)), 1)
        return [touched, released, placed.op]


def _touch(
    directory: RowAllocator, which: tf.Tensor, seen: IdStatus, uses: tf.Tensor, goes_on: tf.Tensor
) -> tf.Operation:
    """Rows of ids that have one are used by this update; for those that do not go on it is the first."""
    which = tf.where(which)[:, 0]
    row, uses, since, goes_on = (tf.gather(some, which) for some in (seen.row, uses, seen.since, goes_on))
    return directory.record_use(row, uses, tf.where(goes_on, since, directory.now(row)))


def make_vocabularies(
    traced: ModelVariables, plan: Plan, variables: Mapping[str, Any], seed: int, training: bool
) -> dict[str, Vocabulary]:
    """Slice name to vocabulary, of all open ones.

    Args:
      variables: slice name to variable.
      training: whether pulls give ids the rows that they are going to have.
    """
    found = {}
    for name in traced.tables():
        table = traced.variables[name].table
        if table is None or not table.is_open:
            continue
        for piece in plan.slices_of(name):
            parts = ["", *(other[len(name) + 1 :] for other in traced.variables if _is_beside(other, name))]
            own = {part: variables[_slice_of(plan, f"{name}/{part}" if part else name, piece.index)] for part in parts}
            with tf.device(ps_device(piece.ps)):
                found[piece.name] = Vocabulary(piece, table, own, derived_seed(seed, name), training)
    return found


def rebuild_all(vocabularies: Mapping[str, Vocabulary]) -> tf.Operation:
    """Makes the indices of all anew."""
    return tf.group(*[vocabulary.rebuild() for vocabulary in vocabularies.values()])


def _is_beside(name: str, table: str) -> bool:
    parts = (KEYS, USED, CLOCK, f"{CANDIDATES}/{KEYS}", f"{CANDIDATES}/{USED}")
    return name in {f"{table}/{part}" for part in parts}


def _slice_of(plan: Plan, name: str, index: int) -> str:
    return plan.slices_of(name)[index].name
