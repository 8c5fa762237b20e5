"""Owners of data shards: changed by compare-and-set, freed together, begun by one replica for all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.updates.shards.shard_ownership import OwnershipTable
from ps_train.engine.variables.variables import ps_device
from tests.support.graphs.local import LocalSession

SHARDS, NUM_PS = 5, 2


class Table:
    """A table with its session."""

    def __init__(self, seats: int = 0) -> None:
        with tf.Graph().as_default() as graph:
            self.cursors = []
            for ps in range(NUM_PS):
                with v1.device(ps_device(ps)):
                    self.cursors.append(v1.Variable(tf.zeros([SHARDS], tf.int64), use_resource=True))
            self.step = v1.Variable(tf.constant(77, tf.int64), use_resource=True)
            self.ownership = OwnershipTable(SHARDS, self.cursors, self.step, seats)
            self.leaver = v1.placeholder(tf.int64, [])
            self.release = self.ownership.release(self.leaver)
            self.given = v1.placeholder(tf.int64, [SHARDS])
            self.advance = [cursors.assign(self.given, read_value=False) for cursors in self.cursors]
        self.session = LocalSession(graph)

    def swap(self, changes: dict[int, tuple[int, int]]) -> list[int]:
        found = self.session.run(self.ownership.compare_and_set, self.ownership.feeds(changes))
        return found["owners"].tolist()

    def owners(self) -> list[int]:
        return self.read()["owners"].tolist()

    def read(self) -> dict[str, Any]:
        return self.session.run(self.ownership.read)


def test_a_snapshot_has_owners_cursors_of_each_ps_and_the_step() -> None:
    table = Table()
    table.session.run(table.advance[1], {table.given: np.arange(SHARDS)})
    found = table.read()
    assert found["owners"].tolist() == [0] * SHARDS and found["step"] == 77
    assert found["progress"].tolist() == [[0] * SHARDS, [*range(SHARDS)]]
    after = table.session.run(table.ownership.compare_and_set, table.ownership.feeds({}))
    assert {name: value.tolist() for name, value in after.items()} == {
        name: value.tolist() for name, value in found.items()
    }


def test_a_shard_changes_its_owner_only_from_the_expected_one() -> None:
    table = Table(seats=2)
    assert table.swap({3: (0, 2), 1: (0, 2), SHARDS + 1: (0, 2)}) == [0, 2, 0, 2, 0, 0, 2]
    assert table.swap({3: (0, 1), 1: (2, 1), 0: (0, 1)}) == [1, 1, 0, 2, 0, 0, 2], "shard 3 was lost in a race"
    assert table.swap({}) == table.owners() == [1, 1, 0, 2, 0, 0, 2]


def test_all_shards_of_one_owner_are_freed() -> None:
    table = Table(seats=1)
    table.swap({0: (0, 1), 1: (0, 2), 3: (0, 1), SHARDS: (0, 1)})
    table.session.run(table.release, {table.leaver: 1})
    assert table.owners() == [0, 2, 0, 0, 0, 0]


def test_shards_begin_at_the_cursors_of_the_first_replica_that_comes() -> None:
    table = Table(seats=1)
    assert table.ownership.begin is not None

    def begin(cursors: dict[int, int]) -> list[list[int]]:
        return table.session.run(table.ownership.begin, table.ownership.begin_feeds(cursors))["progress"].tolist()

    assert begin({0: 5, 3: 7}) == [[5, 0, 0, 7, 0]] * NUM_PS
    assert begin({0: 6, 1: 8}) == [[5, 8, 0, 7, 0]] * NUM_PS, "the one that came first counts"
    assert table.read()["progress"].tolist() == [[5, 8, 0, 7, 0]] * NUM_PS


def test_where_only_the_first_ps_has_begun_the_others_follow_it() -> None:
    table = Table(seats=1)
    table.session.run(table.advance[0], {table.given: [9, 4, 0, 0, 0]})
    found = table.session.run(table.ownership.begin, table.ownership.begin_feeds({0: 5, 2: 3}))
    assert found["progress"].tolist() == [[9, 4, 3, 0, 0], [9, 0, 3, 0, 0]], "shard 1 is not of this replica"


def test_without_seats_no_cursor_is_set() -> None:
    table = Table()
    assert table.ownership.begin is None
    with pytest.raises(AssertionError, match="seats"):
        table.ownership.begin_feeds({})
