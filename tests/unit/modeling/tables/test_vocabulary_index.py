"""The map from ids to rows: found rows are verified, expired ids are not alive."""

from __future__ import annotations

import uuid
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.modeling.tables.vocabulary_index import RowIndex, VocabularyVariables

ROWS, GROUP = 6, 3


class Vocabulary:
    """Two groups of three rows: rows 0, 1 and 4 belong to the ids 10, 11 and 14."""

    def __init__(self, session: v1.Session, expire_steps: int | None = None) -> None:
        self.session = session
        keys = [[10], [11], [0], [0], [14], [0]]
        used = [[5, 2, 1], [1, 9, 3], [0, 0, 0], [0, 0, 0], [4, 7, 7], [0, 0, 0]]
        made = [
            v1.get_variable(name, initializer=tf.constant(value, tf.int64), use_resource=True)
            for name, value in (("keys", keys), ("used", used), ("clock", [9, 9]))
        ]
        self.variables = VocabularyVariables(*made)
        self.index = RowIndex(self.variables, GROUP, expire_steps, uuid.uuid4().hex)
        self.rebuild = self.index.rebuild()
        session.run(v1.global_variables_initializer())
        session.run(self.rebuild)

    def find(self, *ids: int) -> dict[str, list[Any]]:
        status = self.index.find(tf.constant(ids, tf.int64)[:, tf.newaxis])
        return {name: value.tolist() for name, value in self.session.run(vars(status)).items()}


@pytest.fixture
def session():
    with tf.Graph().as_default(), v1.Session() as found:
        yield found


def test_ids_have_their_rows(session: v1.Session) -> None:
    found = Vocabulary(session).find(10, 14, 12)
    assert found["row"] == [0, 4, -1] and found["alive"] == [True, True, False]
    assert found["uses"][:2] == [5, 4] and found["since"][:2] == [1, 7] and found["blocked"] == [False] * 3


def test_a_row_that_has_another_id_by_now_is_not_given(session: v1.Session) -> None:
    vocabulary = Vocabulary(session)
    session.run(vocabulary.variables.keys.scatter_nd_update([[0]], [[77]]))
    found = vocabulary.find(10, 11)
    assert found["row"] == [-1, 1] and found["blocked"] == [True, False] and found["alive"] == [False, True]
    session.run(vocabulary.variables.used.scatter_nd_update([[1]], [[0, 0, 0]]))  # it is free
    assert vocabulary.find(11)["row"] == [-1] and vocabulary.find(11)["blocked"] == [False]


def test_an_id_expires_after_so_many_updates_without_a_use(session: v1.Session) -> None:
    vocabulary = Vocabulary(session, expire_steps=2)
    assert vocabulary.find(10, 11, 14)["alive"] == [False, True, False]  # used last in 2, 9 and 7 of 9 updates
    assert vocabulary.find(10)["row"] == [0]  # it keeps its row until another id needs it


def test_rows_are_entered_and_removed(session: v1.Session) -> None:
    vocabulary = Vocabulary(session)
    key = tf.constant([[10]], tf.int64)
    session.run(vocabulary.index.remove(key))
    assert vocabulary.find(10)["row"] == [-1]
    session.run(vocabulary.index.put(key, tf.constant([0], tf.int64)))
    assert vocabulary.find(10)["row"] == [0]


def test_draws_follow_the_uses_or_treat_all_ids_alike(session: v1.Session) -> None:
    vocabulary = Vocabulary(session)
    v1.set_random_seed(3)
    for by_uses, weights in ((True, {10: 5, 11: 1, 14: 4}), (False, {10: 1, 11: 1, 14: 1})):
        found = session.run(vocabulary.index.draw(3000, by_uses))
        total = sum(weights.values())
        assert (found[:, 2] == total).all() and {*found[:, 0]} == {*weights}
        for number, weight in weights.items():
            drawn = found[found[:, 0] == number]
            assert (drawn[:, 1] == weight).all()
            assert len(drawn) == pytest.approx(3000 * weight / total, abs=150)


def test_nothing_is_drawn_where_no_id_has_a_row_or_all_have_expired(session: v1.Session) -> None:
    vocabulary = Vocabulary(session, expire_steps=1)
    assert {*session.run(vocabulary.index.draw(50, True))[:, 0]} == {11}
    session.run(vocabulary.variables.update_count.assign([10, 10]))
    assert session.run(vocabulary.index.draw(50, True)).shape == (0, 3)


def test_uses_and_their_beginning(session: v1.Session) -> None:
    vocabulary = Vocabulary(session)
    found = session.run(vocabulary.index.uses(tf.constant([[10], [12], [14]], tf.int64)))
    np.testing.assert_array_equal(found, [[5, 9], [0, 10], [4, 3]])
    np.testing.assert_array_equal(session.run(vocabulary.index.used_rows()), [1, 1, 0, 0, 1, 0])
