"""Lookups that are answered together, later: their rows, gradients, and which rows a step may update."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.modeling.tables.deferred_lookups import (
    DeferredLookups,
    DeferredTensor,
    FetchedRows,
    OfVocabularies,
    depends_on,
)
from ps_train.modeling.tables.row_source import rows_at, rows_from
from ps_train.modeling.tables.table import Table

ADS, USERS = Table("ads", 2, rows=9), Table("users", 2, capacity=9, admit_after=2)
ROWS = np.float32([[1, 2], [3, 4], [5, 6]])


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def positions(*numbers: int) -> tf.Tensor:
    return tf.constant(numbers, tf.int64)


def run(fetches: Any) -> Any:
    with v1.Session() as session:
        return session.run(fetches)


def fetched(index: list[int], known: list[bool] | None = None) -> FetchedRows:
    return FetchedRows(tf.constant(ROWS), tf.constant(index), None if known is None else tf.constant(known))


def test_all_lookups_of_a_table_are_one_request_and_each_gets_its_own_rows() -> None:
    lookups = DeferredLookups()
    with rows_from(lookups):
        found = [
            rows_at(ADS, positions(7, 7)).rows,
            rows_at(ADS, positions()).rows,
            rows_at(Table("ad_kinds", 2, rows=5), positions(4)).rows,
            rows_at(ADS, positions(5, 6, 7)).rows,
        ]
    assert {name: run(request).tolist() for name, request in lookups.requests().items()} == {
        "ads": [7, 7, 5, 6, 7],
        "ad_kinds": [4],
    }
    lookups.resolve({"ads": fetched([0, 0, 1, 2, 0]), "ad_kinds": fetched([2])})
    for rows, expected in zip(run(found), [[0, 0], [], [2], [1, 2, 0]], strict=True):
        np.testing.assert_array_equal(rows, ROWS[expected].reshape(-1, 2))


def test_gradients_of_all_lookups_meet_in_the_rows_of_a_table() -> None:
    lookups = DeferredLookups()
    with rows_from(lookups):
        loss = tf.reduce_sum(rows_at(ADS, positions(7, 5)).rows ** 2) + tf.reduce_sum(rows_at(ADS, positions(5)).rows)
    lookups.resolve({"ads": fetched([0, 2, 2])})
    (gradient,) = tf.gradients(loss, list(lookups.rows().values()))
    np.testing.assert_array_equal(run(tf.convert_to_tensor(gradient)), [2 * ROWS[0], [0, 0], 2 * ROWS[2] + 1])


def test_ids_of_an_open_vocabulary_are_known_or_not() -> None:
    lookups = DeferredLookups()
    with rows_from(lookups):
        known = rows_at(USERS, positions(7, 5)[:, tf.newaxis]).known
        assert rows_at(ADS, positions(1)).known is None
    lookups.resolve({"users": fetched([2, 0], [True, True, False]), "ads": fetched([0])})
    assert run(known).tolist() == [False, True]
    used = lookups.used()
    assert list(used) == ["users"] and run(used["users"]).tolist() == [1, 1, 0]


def test_a_vocabulary_that_admits_at_once_knows_all_its_ids() -> None:
    lookups = DeferredLookups()
    with rows_from(lookups):
        rows_at(Table("users", 2, capacity=9), positions(7)[:, tf.newaxis])
    lookups.resolve({"users": fetched([0], [True, True, True])})
    assert lookups.used() == {}


def test_a_row_is_used_if_one_lookup_uses_it() -> None:
    lookups = DeferredLookups()
    with rows_from(lookups):
        rows_at(ADS, positions(1, 2, 3), tf.constant([False, True, False]))
        rows_at(ADS, positions(3, 1, 2), tf.constant([False, False, True]))
        rows_at(Table("plain", 2, rows=5), positions(1))
    lookups.resolve({"ads": fetched([0, 1, 2, 2, 0, 1]), "plain": fetched([0])})
    used = lookups.used()
    assert list(used) == ["ads"] and run(used["ads"]).tolist() == [0, 1, 0], "1 where two lookups use it"


def test_a_lookup_that_says_nothing_uses_all_its_rows() -> None:
    lookups = DeferredLookups()
    with rows_from(lookups):
        rows_at(ADS, positions(1, 2), tf.constant([False, False]))
        rows_at(ADS, positions(2))
    lookups.resolve({"ads": fetched([0, 1, 1])})
    assert run(lookups.used()["ads"]).tolist() == [0, 1, 0]


def test_rows_are_on_the_device_of_all_towers() -> None:
    lookups = DeferredLookups(device="/device:CPU:0")
    with v1.device("/device:CPU:3"), rows_from(lookups):
        rows_at(USERS, positions(1)[:, tf.newaxis])
    assert {rows.device for rows in lookups.rows().values()} == {"/device:CPU:0"}


def test_a_lookup_inside_a_branch_is_refused() -> None:
    with (
        rows_from(DeferredLookups()),
        pytest.raises(ModelError, match=r"table ads is looked up inside a tf\.cond or loop: look it up outside"),
    ):
        tf.cond(tf.constant(True), lambda: rows_at(ADS, positions(1)).rows, lambda: tf.zeros([1, 2]))


@pytest.mark.parametrize("table", [ADS, USERS])
def test_ids_that_depend_on_rows_are_refused(table: Table) -> None:
    lookups = DeferredLookups()
    with rows_from(lookups):
        result = rows_at(USERS, positions(1)[:, tf.newaxis])
        depends = result.rows[:, 0] if table is ADS else tf.cast(result.known, tf.float32)
        rows_at(ADS, tf.cast(depends, tf.int64))
    with pytest.raises(ModelError, match="table ads is looked up with ids that depend on rows of a table"):
        lookups.requests()


def test_a_value_depends_on_a_tensor_by_data_and_by_control() -> None:
    deferred, other = DeferredTensor(tf.float32, []), DeferredTensor(tf.float32, [])
    by_data = tf.exp(deferred.tensor + 1.0)
    with tf.control_dependencies([by_data]):
        by_control = tf.constant(2.0) * 3.0
    assert depends_on(deferred.tensor, [deferred])
    assert depends_on(by_data, [other, deferred]) and depends_on(by_control, [deferred])
    assert not depends_on(by_data, [other]) and not depends_on(by_data, [])


class Vocabularies:
    """Functions that note their calls."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.keys = positions(3)[:, tf.newaxis]

    def functions(self, **options: Any) -> OfVocabularies:
        def draw(*arguments: Any) -> list[tf.Tensor]:
            self.calls.append(arguments)
            return [self.keys]

        def uses(*arguments: Any) -> tf.Tensor:
            self.calls.append(arguments)
            return self.keys

        return OfVocabularies(draw, uses, **options)


def test_draws_and_uses_are_those_of_the_given_functions() -> None:
    given = Vocabularies()
    lookups = DeferredLookups(vocabularies=given.functions(batches_per_update=6, whole=lambda name: tf.constant(name)))
    assert lookups.draw("users", 5, True) == [given.keys] and lookups.uses("users", given.keys) is given.keys
    assert given.calls == [("users", 5, True), ("users", given.keys)]
    assert lookups.batches_per_update() == 6 and run(lookups.whole("ads")) == b"ads"


def test_without_functions_there_are_none_and_a_batch_is_an_update() -> None:
    lookups = DeferredLookups()
    assert lookups.batches_per_update() == 1
    for call in (lambda: lookups.draw("users", 5, True), lambda: lookups.uses("users", positions(1))):
        with pytest.raises(ModelError, match="ids of table users are drawn, or their uses read, in an export"):
            call()
    for some in (lookups, DeferredLookups(vocabularies=Vocabularies().functions())):
        with pytest.raises(ModelError, match="table ads is read whole outside of training: look up rows"):
            some.whole("ads")


def test_ids_are_not_drawn_inside_a_branch() -> None:
    lookups = DeferredLookups(vocabularies=Vocabularies().functions())
    with pytest.raises(ModelError, match=r"inside a tf\.cond or loop"):
        tf.cond(tf.constant(True), lambda: lookups.draw("users", 5, True)[0], lambda: positions(1)[:, tf.newaxis])
