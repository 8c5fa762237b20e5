"""Rows of an open vocabulary are assigned, freed and assigned again, as plain Python does it."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.modeling.tables.id_encoding import group_of
from ps_train.modeling.tables.row_allocator import RowAllocator, scatter_rows
from ps_train.modeling.tables.table import Table
from tests.support.graphs.vocabularies import Session, keys_of, vocabulary_variables


class Rows:
    """An allocator of some groups of a table; each operation is made at its first use."""

    def __init__(self, table: Table, first_group: int = 0, groups: int = 1, keep: Any = None) -> None:
        self.variables = vocabulary_variables(groups * table.rows_per_group, groups)
        self.allocator = RowAllocator("users", self.variables, first_group, groups, table, keep)
        self.session, self.noted = Session(), list[Any]()
        self._made: dict[Any, Any] = {}
        self._clear = v1.global_variables_initializer()
        self.rebuild()

    def clear(self) -> Rows:
        """Begins again."""
        self.noted.clear()
        self.session.run(self._clear)
        self.rebuild()
        return self

    def rebuild(self) -> None:
        self._run("rebuild", self.allocator.rebuild)

    def allocate(self, ids: Any, uses: int = 1, prepare: Any = None) -> list[int]:
        keys = self.session.keys
        make = functools.partial(self.allocator.allocate, keys, uses, prepare)
        return self._run(("allocate", uses, prepare), make, keys_of(ids)).tolist()

    def free(self, rows: list[int]) -> None:
        self._run("free", lambda: self.allocator.free(self.session.vector("rows")), rows=rows)

    def record(self, rows: list[int], uses: list[int], since: list[int]) -> None:
        given = {"rows": rows, "uses": uses, "since": since}
        self._run("record", lambda: self.allocator.record_use(*map(self.session.vector, given)), **given)

    def now(self, rows: list[int]) -> list[int]:
        return self._run("now", lambda: self.allocator.now(self.session.vector("rows")), rows=rows).tolist()

    def end_update(self) -> None:
        count = self.variables.update_count
        self._run("count", lambda: count.assign_add(tf.ones(count.shape, tf.int64)))

    def rows_of(self, ids: Any) -> list[int]:
        return self._run("find", lambda: self.allocator.index.find(self.session.keys).row, keys_of(ids)).tolist()

    def used(self) -> dict[int, list[int]]:
        """Id to row, uses, last update and update of the assignment."""
        keys, used = self.session.run([self.variables.keys, self.variables.used])
        return {int(keys[row, 0]): [row, *used[row].tolist()] for row in np.flatnonzero(used[:, 0])}

    def note(self, *tensors: tf.Tensor) -> tf.Operation:
        """Returns the operation that notes the present values of tensors."""

        def note(*values: Any) -> np.int64:
            self.noted.append(tuple(value.tolist() for value in values))
            return np.int64(0)

        return tf.numpy_function(note, tensors, tf.int64).op

    def _run(self, name: Any, make: Any, *keys: Any, **vectors: Any) -> Any:
        if name not in self._made:
            self._made[name] = make()
        return self.session.run(self._made[name], *keys, **vectors)


@functools.cache
def _of_five() -> tuple[tf.Graph, Rows]:
    with tf.Graph().as_default() as graph:
        return graph, Rows(Table("users", 2, capacity=5))


@pytest.fixture
def five():
    """The rows of five ids."""
    graph, rows = _of_five()
    with graph.as_default():
        yield rows.clear()


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def test_rows_of_a_variable_are_written_by_their_numbers() -> None:
    variable = v1.Variable(tf.zeros([4, 2]), use_resource=True)
    write = scatter_rows(variable, tf.constant([3, 1]), tf.constant([[1.0, 2.0], [3.0, 4.0]]))
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(write)
        assert session.run(variable).tolist() == [[0, 0], [3, 4], [0, 0], [1, 2]]


def test_the_first_rows_come_first_and_the_last_one_never(five: Rows) -> None:
    assert five.allocate([70, 60]) == [0, 1] and five.allocate([50, 40, 30], uses=4) == [2, 3, 4]
    assert five.used() == {
        70: [0, 1, 1, 1],
        60: [1, 1, 1, 1],
        50: [2, 4, 1, 1],
        40: [3, 4, 1, 1],
        30: [4, 4, 1, 1],
    }
    assert five.rows_of([30, 70, 1]) == [4, 0, -1]
    assert five.allocate([20]) == [-1], "all rows are of this update"
    assert five.allocate([]) == [] and five.rows_of([20]) == [-1]


def test_a_freed_row_is_the_next_one_and_its_id_has_none(five: Rows) -> None:
    five.allocate([70, 60, 50, 40])
    five.free([0, 2])
    assert five.rows_of([70, 60, 50, 40]) == [-1, 1, -1, 3] and set(five.used()) == {60, 40}
    assert five.allocate([30, 20, 10]) == [2, 0, 4]


def test_a_use_is_recorded_with_the_present_update(five: Rows) -> None:
    five.allocate([70, 60])
    for _ in range(2):
        five.end_update()
    assert five.now([1, 0]) == [3, 3]
    five.record([1], [8], [1])
    assert five.used() == {70: [0, 1, 1, 1], 60: [1, 8, 3, 1]}


def test_after_a_restore_the_free_rows_are_those_without_an_id(five: Rows) -> None:
    five.allocate([70, 60, 50])
    five.free([1])
    five.session.run(five.variables.used[1:2].assign([[0, 9, 9]]))  # what a free row keeps is not known
    five.rebuild()
    assert five.rows_of([70, 60, 50]) == [0, -1, 2]
    assert five.session.run(five.variables.used)[1].tolist() == [0, 0, 0]
    assert five.allocate([40, 30, 20]) == [1, 3, 4]


def test_a_row_is_prepared_when_its_key_is_written_and_before_its_id_is_found(five: Rows) -> None:
    def prepare(rows: tf.Tensor, keys: tf.Tensor) -> tf.Operation:
        return five.note(five.allocator.index.locate(keys), five.variables.keys.sparse_read(rows))

    assert five.allocate([70, 60], 2, prepare) == [0, 1]
    assert five.noted == [([-1, -1], [[70], [60]])]
    assert five.rows_of([70, 60]) == [0, 1] and five.used()[70] == [0, 2, 1, 1]


def test_rows_are_kept_for_a_checkpoint_before_they_are_written() -> None:
    def keep(at: tf.Tensor) -> tf.Operation:
        return rows.note(at, rows.variables.keys.sparse_read(at)[:, 0], rows.variables.used.sparse_read(at)[:, 0])

    rows = Rows(Table("users", 2, capacity=5), keep=keep)
    rows.allocate([70, 60])
    rows.free([1])
    assert rows.noted == [([0, 1], [0, 0], [0, 0]), ([1], [60], [1])]


class Replay:
    """The same by plain Python: one group, one id after the other."""

    def __init__(self, capacity: int, expire: int | None) -> None:
        self.ids: dict[int, list[int]] = {}  # row, uses, last, since
        self.free, self.updates, self.expire = [*range(capacity)][::-1], 0, expire

    def expired(self, name: int) -> bool:
        return self.expire is not None and self.updates - self.ids[name][2] >= self.expire

    def allocate(self, names: list[int]) -> list[int]:
        short = len(names) - len(self.free)
        if short > 0:
            old = [name for name in self.ids if self.ids[name][2] <= self.updates]
            old.sort(key=lambda name: (0 if self.expired(name) else self.ids[name][1], *self.ids[name][2::-2]))
            self.free += [self.ids.pop(name)[0] for name in old[:short]]
        rows = [self.free.pop() if self.free else -1 for _ in names]
        for name, row in zip(names, rows, strict=True):
            if row >= 0:
                self.ids[name] = [row, 1, self.updates + 1, self.updates + 1]
        return rows

    def use(self, names: list[int]) -> None:
        for name in names:
            self.ids[name][1:3] = [self.ids[name][1] + 1, self.updates + 1]


@pytest.mark.parametrize("expire", [None, 3])
def test_over_many_updates_rows_go_to_new_ids_from_expired_then_least_used_ones(expire: int | None) -> None:
    rows, replay = Rows(Table("users", 2, capacity=12, expire_steps=expire)), Replay(12, expire)
    random, missed = np.random.default_rng(5), 0
    for _ in range(60):
        batch = np.unique(np.minimum(random.geometric(0.12, 9), 40)).tolist()
        present = [name for name in batch if name in replay.ids]
        new = [name for name in batch if name not in replay.ids]
        replay.use(present)
        at = [replay.ids[name] for name in present]
        rows.record(*([one[i] for one in at] for i in (0, 1, 3)))
        expected = replay.allocate(new)
        assert rows.allocate(new) == expected
        missed += expected.count(-1)
        assert rows.used() == replay.ids
        assert rows.rows_of([*replay.ids]) == [one[0] for one in replay.ids.values()]
        rows.end_update()
        replay.updates += 1
    assert not missed and replay.updates == 60


def grouped(table: Table, count: int) -> dict[int, list[int]]:
    """Ids by their group."""
    with tf.Graph().as_default(), v1.Session() as session:
        ids = np.arange(count)
        groups = session.run(group_of(tf.constant(keys_of(ids)), table.groups))
    return {group: ids[groups == group].tolist() for group in range(table.groups)}


def test_each_group_has_rows_and_free_rows_of_its_own() -> None:
    table = Table("users", 2, capacity=600)
    ids = grouped(table, 60)
    rows = Rows(table, groups=2)
    mixed = [ids[1][0], ids[0][0], ids[1][1], ids[0][1]]
    assert rows.allocate(mixed) == [371, 0, 372, 1]
    rows.free([371, 1])
    assert rows.allocate([ids[0][5], ids[1][5], ids[0][6]]) == [1, 371, 2]


def test_a_ps_counts_its_groups_from_its_first_one() -> None:
    table = Table("users", 2, capacity=600)
    rows = Rows(table, first_group=1)
    assert rows.allocate(grouped(table, 60)[1][:3]) == [0, 1, 2]


def test_only_the_group_that_lacks_rows_frees_some_and_a_few_at_once() -> None:
    table = Table("users", 2, capacity=600)
    ids, rows = grouped(table, 900), Rows(table, groups=2)
    full, other = ids[0][:370], ids[1][:3]
    assert -1 not in rows.allocate(full) and -1 not in rows.allocate(other)
    rows.end_update()
    rows.record([*range(10, 370)], [2] * 360, [1] * 360)
    (row,) = rows.allocate([ids[0][370]])
    gone = [name for name in full if name not in rows.used()]
    assert gone == full[:5] and row == 4, "a 64th of 370 rows, the least used and first ones"
    assert set(other) <= set(rows.used())
    assert rows.allocate(ids[0][371:375]) == [3, 2, 1, 0]


def test_a_use_count_beyond_31_bits_still_goes_before_the_time_of_the_use() -> None:
    rows = Rows(Table("users", 2, capacity=2))
    rows.allocate([70, 60])
    rows.record([0, 1], [(1 << 31) + 5, (1 << 31) - 2], [1, 1])
    for _ in range(2):
        rows.end_update()
    assert rows.allocate([50]) == [1]
