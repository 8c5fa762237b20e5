"""Owners of shards change by compare-and-set; cursors begin once."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.updates.shards import shard_ownership
from ps_train.engine.updates.shards.shard_ownership import OwnershipTable

SHARDS = 4


class Table:
    """A table whose ps are this process."""

    def __init__(self, session: v1.Session, ps: int = 2, seats: int = 0) -> None:
        zeros = v1.zeros_initializer()
        self.progress = [v1.get_variable(f"p{i}", [SHARDS], tf.int64, zeros, use_resource=True) for i in range(ps)]
        step = v1.get_variable("step", [], tf.int64, v1.constant_initializer(9), use_resource=True)
        self.table = OwnershipTable(SHARDS, self.progress, step, seats)
        self.session = session
        session.run(v1.global_variables_initializer())

    def swap(self, changes: dict[int, tuple[int, int]]) -> list[int]:
        return self.session.run(self.table.compare_and_set, self.table.feeds(changes))["owners"].tolist()


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shard_ownership, "ps_device", lambda ps: "")
    monkeypatch.setattr(shard_ownership, "ps_index", lambda variable: 0)
    with tf.Graph().as_default(), v1.Session() as found:
        yield found


def test_a_free_shard_gets_an_owner_and_a_lost_race_shows_the_other_one(session: v1.Session) -> None:
    table = Table(session)
    assert table.swap({3: (0, 2), 1: (0, 2)}) == [0, 2, 0, 2]
    assert table.swap({3: (0, 1), 0: (0, 1)}) == [1, 2, 0, 2]  # shard 3 has an owner already
    assert table.swap({3: (2, 0)}) == [1, 2, 0, 0]
    assert table.swap({}) == [1, 2, 0, 0]


def test_all_shards_of_an_owner_are_freed(session: v1.Session) -> None:
    table = Table(session)
    table.swap({0: (0, 2), 1: (0, 1), 3: (0, 2)})
    session.run(table.table.release(tf.constant(2, tf.int64)))
    assert session.run(table.table.read)["owners"].tolist() == [0, 1, 0, 0]


def test_progress_of_each_ps_and_the_step_are_read_too(session: v1.Session) -> None:
    table = Table(session)
    session.run(table.progress[1].assign([1, 2, 3, 4]))
    found = session.run(table.table.read)
    assert found["progress"].tolist() == [[0, 0, 0, 0], [1, 2, 3, 4]] and found["step"] == 9


def test_cursors_begin_where_none_has_begun_and_the_first_ps_decides(session: v1.Session) -> None:
    table = Table(session, seats=2)
    begin = table.table.begin
    assert begin is not None
    session.run(table.progress[0].assign([5, 0, 0, 0]))
    found = session.run(begin, table.table.begin_feeds({0: 7, 2: 8}))
    assert found["progress"].tolist() == [[5, 0, 8, 0], [5, 0, 8, 0]]
    found = session.run(begin, table.table.begin_feeds({0: 1, 3: 4}))
    assert found["progress"].tolist() == [[5, 0, 8, 4], [5, 0, 8, 4]]
    np.testing.assert_array_equal(found["owners"], np.zeros(SHARDS + 2))


def test_without_seats_nothing_begins(session: v1.Session) -> None:
    assert Table(session).table.begin is None
