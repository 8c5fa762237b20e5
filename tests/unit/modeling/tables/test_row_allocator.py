"""Rows are assigned to ids, freed and assigned again; a model in Python says which."""

from __future__ import annotations

import random
import uuid

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.embeddings import Table
from ps_train.modeling.tables.id_encoding import group_of
from ps_train.modeling.tables.row_allocator import RowAllocator, _rank, scatter_rows
from ps_train.modeling.tables.vocabulary_index import VocabularyVariables


def test_ranks_count_within_groups() -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        found = session.run(_rank(tf.constant([1, 0, 1, 1, 0, 2], tf.int64), 4))
    assert found.tolist() == [0, 0, 1, 2, 1, 0]


class Rows:
    """The allocator of a whole small table."""

    def __init__(self, session: v1.Session, capacity: int, **options: int) -> None:
        self.session, self.table = session, Table("t", dimension=1, capacity=capacity, **options)
        zeros = v1.zeros_initializer()
        shapes = {"keys": [self.table.total, 1], "used": [self.table.total, 3], "clock": [self.table.groups]}
        made = [v1.get_variable(name, shape, tf.int64, zeros, use_resource=True) for name, shape in shapes.items()]
        self.variables = VocabularyVariables(*made)
        self.allocator = RowAllocator(uuid.uuid4().hex, self.variables, 0, self.table.groups, self.table)
        self.given = v1.placeholder(tf.int64, [None])
        keys = self.given[:, tf.newaxis]
        self._allocate = self.allocator.allocate(keys, uses=tf.ones_like(keys[:, 0]))
        self._free = self.allocator.free(self.given)
        self._rebuild = self.allocator.rebuild()
        self._status = self.allocator.index.find(keys)
        self._group = group_of(keys, self.table.groups)
        self._next = self.variables.update_count.assign_add(tf.ones([self.table.groups], tf.int64))
        session.run(v1.global_variables_initializer())
        session.run(self._rebuild)

    def allocate(self, *ids: int) -> list[int]:
        found = self.session.run(self._allocate, {self.given: ids}).tolist()
        self.session.run(self._next.op)
        return found

    def free(self, *rows: int) -> None:
        self.session.run(self._free, {self.given: rows})

    def rows_of(self, *ids: int) -> list[int]:
        return self.session.run(self._status.row, {self.given: ids}).tolist()

    def groups_of(self, *ids: int) -> list[int]:
        return self.session.run(self._group, {self.given: ids}).tolist()

    def rebuild(self) -> None:
        self.session.run(self._rebuild)


@pytest.fixture
def session():
    with tf.Graph().as_default(), v1.Session() as found:
        yield found


def test_ids_get_rows_of_their_groups_and_keep_them(session: v1.Session) -> None:
    rows = Rows(session, capacity=32)
    ids = [*range(1, 9)]
    found = rows.allocate(*ids)
    assert len({*found}) == 8 and min(found) >= 0 and rows.rows_of(*ids) == found
    assert [row // rows.table.rows_per_group for row in found] == rows.groups_of(*ids)
    assert all(row % rows.table.rows_per_group < rows.table.rows_per_group - 1 for row in found)
    rows.allocate(9)
    used = session.run(rows.variables.used)[[*found, *rows.rows_of(9)]]
    assert used.tolist() == [[1, 1, 1]] * 8 + [[1, 2, 2]]  # uses, last update, first update


def test_freed_rows_are_assigned_again_and_a_rebuilt_index_is_the_same(session: v1.Session) -> None:
    rows = Rows(session, capacity=32)
    chance, owners, most = random.Random(1), dict[int, int](), 0
    for number in range(60):
        if owners and chance.random() < 0.4:
            gone = chance.sample(sorted(owners), min(3, len(owners)))
            rows.free(*(owners.pop(one) for one in gone))
            assert rows.rows_of(*gone) == [-1] * len(gone)
        else:
            (row,) = rows.allocate(100 + number)
            assert row not in owners.values()
            owners[100 + number] = row
        if number % 20 == 19:
            rows.rebuild()
        assert rows.rows_of(*owners) == [*owners.values()]
        most = max(most, len(owners))
    assert most > 5


def same_group(rows: Rows, count: int) -> list[int]:
    """Ids of one group."""
    ids = [*range(1, 4000)]
    groups = rows.groups_of(*ids)
    return [one for one, group in zip(ids, groups, strict=True) if group == groups[0]][:count]


def test_a_full_group_frees_the_least_used_id(session: v1.Session) -> None:
    rows = Rows(session, capacity=32)
    room = rows.table.rows_per_group - 1
    ids = same_group(rows, room + 2)
    found = rows.allocate(*ids[:room])
    uses = np.arange(room) + 2
    uses[3] = 1  # the least used
    stamps = np.stack([uses, np.ones(room), np.ones(room)], 1).astype(np.int64)
    session.run(scatter_rows(rows.variables.used, tf.constant(found, tf.int64), tf.constant(stamps)))
    (row,) = rows.allocate(ids[room])
    assert row == found[3] and rows.rows_of(ids[3], ids[room]) == [-1, row]


def test_among_equal_uses_the_least_recent_id_goes(session: v1.Session) -> None:
    rows = Rows(session, capacity=32)
    room = rows.table.rows_per_group - 1
    ids = same_group(rows, room + 1)
    found = [rows.allocate(one)[0] for one in ids[:room]]  # one after the other
    (row,) = rows.allocate(ids[room])
    assert row == found[0] and rows.rows_of(ids[0]) == [-1]


def test_ids_of_this_very_update_are_not_freed_for_others(session: v1.Session) -> None:
    rows = Rows(session, capacity=32)
    room = rows.table.rows_per_group - 1
    ids = same_group(rows, room + 2)
    found = rows.allocate(*ids)
    assert sorted(row >= 0 for row in found) == [False, False] + [True] * room


def test_an_expired_id_goes_before_a_rarely_used_one(session: v1.Session) -> None:
    rows = Rows(session, capacity=32, expire_steps=5)
    room = rows.table.rows_per_group - 1
    ids = same_group(rows, room + 1)
    found = rows.allocate(*ids[:room])
    stamps = np.tile([1, 20, 1], [room, 1])
    stamps[2] = [1000, 3, 1]  # often used, but long ago
    session.run(scatter_rows(rows.variables.used, tf.constant(found, tf.int64), tf.constant(stamps, tf.int64)))
    session.run(rows.variables.update_count.assign(tf.fill([rows.table.groups], tf.constant(20, tf.int64))))
    (row,) = rows.allocate(ids[room])
    assert row == found[2]
