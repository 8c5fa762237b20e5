"""The index of an open vocabulary: an id never gets the row of another one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ps_train.modeling.tables.id_encoding import digests
from ps_train.modeling.tables.vocabulary_index import RowIndex
from tests.support.graphs.vocabularies import Session, keys_of, vocabulary_variables

EXPIRE = 10
IDS = [11, 12, 13, 14, 15, 16]
USED = [[3, 20, 2], [1, 25, 25], [0, 0, 0], [2, 14, 4], [9, 15, 15], [1, 24, 24]]
"""Of each row: uses, last update that used it, update that assigned it.  Row 2 is free."""


class Index:
    """An index of two groups of three rows, which have made so many updates."""

    def __init__(self, expire: int | None = EXPIRE, updates: tuple[int, int] = (25, 24), width: int = 1) -> None:
        self.variables = vocabulary_variables(len(USED), groups=2, width=width)
        self.index = RowIndex(self.variables, 3, expire, "index")
        session = self.session = Session(width)
        self.status = self.index.find(session.keys)
        self.located = self.index.locate(session.keys)
        self.put = self.index.put(session.keys, session.vector("rows"))
        self.remove = self.index.remove(session.keys)
        self.rebuild = self.index.rebuild()
        self.used_rows = self.index.used_rows()
        self.uses = self.index.uses(session.keys)
        keys = keys_of(IDS) if width == 1 else np.zeros([6, 2], np.int64)
        values = [(self.variables.keys, keys), (self.variables.used, USED), (self.variables.update_count, updates)]
        session.run([variable.assign(value) for variable, value in values])

    def draw(self, by_uses: bool) -> np.ndarray:
        return self.session.run(self.index.draw(4000, by_uses))

    def find(self, keys: Any) -> dict[str, list[Any]]:
        return {name: value.tolist() for name, value in self.session.run(vars(self.status), keys).items()}


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def test_ids_are_found_by_the_rebuilt_index_and_the_variables_say_how_they_are() -> None:
    index = Index()
    assert index.find(keys_of([11, 99]))["row"] == [-1, -1], "nothing is entered yet"
    index.session.run(index.rebuild)
    found = index.find(keys_of([16, 11, 12, 13, 14, 15, 99]))
    assert found["row"] == [5, 0, 1, -1, 3, 4, -1]
    assert found["alive"] == [True, True, True, False, False, True, False], "13 is free, 14 was last used 10 ago"
    assert found["blocked"] == [False] * 7
    assert [found[name][:3] for name in ("uses", "since")] == [[1, 3, 1], [24, 2, 25]]
    assert index.session.run(index.used_rows).tolist() == [True, True, False, True, True, True]


def test_without_a_limit_no_id_expires() -> None:
    index = Index(expire=None, updates=(10**6, 10**6))
    index.session.run(index.rebuild)
    assert index.find(keys_of(IDS))["alive"] == [True, True, False, True, True, True]
    assert np.unique(index.draw(False)[:, 0]).tolist() == [11, 12, 14, 15, 16]


@pytest.mark.parametrize(("updates", "alive"), [(29, True), (30, False), (31, False)])
def test_an_id_expires_after_so_many_updates_of_its_group_without_a_use(updates: int, alive: bool) -> None:
    index = Index(updates=(updates, 10**6))
    index.session.run(index.rebuild)
    assert index.find(keys_of([11]))["alive"] == [alive]


def test_a_row_that_was_given_to_another_id_is_not_found_by_the_one_before() -> None:
    index = Index()
    index.session.run(index.put, keys_of([77, 11, 50]), rows=[0, 2, 1])
    found = index.find(keys_of([77, 11, 50]))
    assert found["row"] == [-1, -1, -1] and found["alive"] == [False] * 3
    assert found["blocked"] == [True, False, True], "the row in the table has another id; row 2 is free"


def test_entries_are_put_replaced_and_removed() -> None:
    index = Index()
    index.session.run(index.put, keys_of([11, 12]), rows=[4, 1])
    index.session.run(index.put, keys_of([11]), rows=[0])
    assert index.session.run(index.located, keys_of([11, 12, 13])).tolist() == [0, 1, -1]
    index.session.run(index.remove, keys_of([12, 13]))
    assert index.session.run(index.located, keys_of([11, 12])).tolist() == [0, -1]
    index.session.run(index.put, keys_of([99]), rows=[3])
    index.session.run(index.rebuild)
    assert index.session.run(index.located, keys_of([99, 14])).tolist() == [-1, 3], "nothing else is left"


def test_ids_with_one_digest_are_told_from_each_other() -> None:
    index = Index(width=2)
    first, second = np.int64([[5, 7]]), np.int64([[0, 8]])
    of_both = digests(index.session.keys)
    index.session.run(index.variables.keys.assign(np.zeros([6, 2], np.int64)))
    one, other = index.session.run(of_both, np.concatenate([first, second]))
    second[0, 0] = one ^ other  # a digest is the exclusive or of the first number and a mix of the second
    assert len(set(index.session.run(of_both, np.concatenate([first, second])).tolist())) == 1
    index.session.run(index.variables.keys.assign(np.concatenate([first, np.zeros([5, 2], np.int64)])))
    index.session.run(index.put, first, rows=[0])
    found = index.find(np.concatenate([first, second]))
    assert found["row"] == [0, -1] and found["blocked"] == [False, True]


def test_uses_are_counted_since_the_id_has_its_row_or_from_the_begin() -> None:
    index = Index()
    index.session.run(index.rebuild)
    found = index.session.run(index.uses, keys_of([11, 12, 13, 14, 99]))
    assert found.tolist() == [[3, 24], [1, 1], [0, 26], [0, 26], [0, 26]]


@pytest.mark.parametrize("by_uses", [True, False])
def test_ids_are_drawn_as_often_as_they_are_used_or_all_equally(by_uses: bool) -> None:
    index = Index()
    drawn = index.draw(by_uses)
    weights = {11: 3, 12: 1, 15: 9, 16: 1} if by_uses else dict.fromkeys((11, 12, 15, 16), 1)
    total = sum(weights.values())
    assert drawn.shape == (4000, 3) and set(drawn[:, 2]) == {total}
    for name, weight in weights.items():
        own = drawn[drawn[:, 0] == name]
        share = weight / total
        assert set(own[:, 1]) == {weight}
        assert abs(len(own) / 4000 - share) < 5 * np.sqrt(share * (1 - share) / 4000)
    assert set(drawn[:, 0]) == set(weights), "neither a free row nor an expired id"


def test_nothing_is_drawn_while_no_id_has_a_row() -> None:
    index = Index()
    index.session.run(index.variables.used.assign(np.zeros([6, 3], np.int64)))
    assert index.draw(True).shape == (0, 3)
