"""The default row changes in the steps that use it and in no other, as every row of a table does."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays, embeddings
from tests.cluster.engine.transport.test_vocabulary import assert_same, ids_of, passing, replayed, started
from tests.support.clusters.cluster import InProcessCluster
from tests.support.long import long
from tests.support.models.small import Linear
from tests.support.models.vocabularies import DIMENSION, DIRECTION, FRESH, Visits, book

KNOWN_AFTER_ONE = ids_of([7, 7, 8, 8], *[[7, 8, 7, 8]] * 9)
LATE = {"capacity": 10, "admit_after": 2}


def default_after(cluster: InProcessCluster, *steps: int, run: int = 1) -> list[np.ndarray]:
    """The default row and its slots after so many steps each."""
    found = []
    for number in steps:
        cluster.train(number, run)
        values = cluster.values()
        found.append(np.concatenate([values[key].ravel() for key in sorted(values) if key.startswith("users/default")]))
    return found


@pytest.mark.parametrize(
    ("optimizer", "fields"),
    [
        ("momentum", {"l2": 0.5}),
        long("sgd", {"l2": 0.5}),
        long("lazy_adam", {}),
        ("ftrl", {"update": "sync", "steps_per_run": "4"}),
        long("rmsprop", {"update": "bounded"}),
        long("adagrad", {"l2": 0.5, "push_codec": "int8"}),
        long("momentum", {"push_codec": "top_k:0.5", "update": "sync"}),
        long("momentum", {"prefetch_pulls": 1, "steps_per_run": "2"}),
        long("momentum", {"towers": "2"}),
        long("momentum", {"pull_codec": "int8"}),
    ],
)
@pytest.mark.usual(1)
def test_a_step_that_does_not_use_the_default_row_leaves_it_to_the_bit(optimizer: str, fields: dict) -> None:
    cluster = started(Visits(KNOWN_AFTER_ONE, **LATE), optimizer=optimizer, batch_size=4, **fields)
    run = int(fields.get("steps_per_run", 1))
    used, later = default_after(cluster, 4, 4, run=run)
    assert (used[:DIMENSION] != FRESH).all(), "the first step uses it"
    np.testing.assert_array_equal(used, later)
    assert book(cluster.values()).keys() == {7, 8}


@pytest.mark.long
@pytest.mark.parametrize("update", ["async", long("sync")])
@pytest.mark.parametrize("optimizer", ["ftrl", long("momentum")])
def test_a_default_row_that_no_step_uses_keeps_its_initial_value(optimizer: str, update: str) -> None:
    cluster = started(Visits(KNOWN_AFTER_ONE, capacity=10), 2, 2, optimizer=optimizer, update=update, l2=0.1)
    assert (default_after(cluster, 3)[0][:DIMENSION] == FRESH).all()


@pytest.mark.parametrize("optimizer", [long("momentum"), long("ftrl"), long("lazy_adam")])
def test_a_worker_that_uses_the_default_row_and_one_that_does_not_are_one_process_with_both_batches(
    optimizer: str,
) -> None:
    """Worker 0 meets new ids in every other round, worker 1 never after the first one."""
    news = iter(range(100, 200))
    rounds = [
        [example for _ in range(6) for example in ((next(news) if number % 2 else 7), 8)] for number in range(8)
    ]  # example i is worker i % 2's
    model = Visits(np.array(rounds, np.int64).reshape(-1, 1), **{**LATE, "capacity": 100})
    cluster = started(model, 2, 2, optimizer=optimizer, update="sync")
    cluster.train(8)
    assert_same(cluster.values(), replayed(model, 8, optimizer), 1e-5)


@pytest.mark.long
@pytest.mark.parametrize("optimizer", ["momentum", "ftrl", "lazy_adam"])
def test_expired_ids_and_full_tables_use_the_default_row_as_numpy_does(optimizer: str) -> None:
    for declared in ({"capacity": 20, "admit_after": 3, "expire_steps": 3}, {"capacity": 3, "admit_after": 2}):
        model = Visits(passing(), **declared)
        cluster = started(model, optimizer=optimizer)
        cluster.train(20)
        assert_same(cluster.values(), replayed(model, 20, optimizer), 1e-5)


class OneRow(Visits):
    """The gradient of the row of id 7 is DIRECTION, and no other row is used."""

    def loss(self, outputs, labels):
        return tf.reduce_mean(outputs)


@pytest.mark.long
@pytest.mark.parametrize("clip", ["clip_norm", "clip_global_norm"])
def test_the_decay_of_an_unused_default_row_does_not_count_in_a_norm(clip: str) -> None:
    model = OneRow(ids_of([7, 7, 7, 7]), capacity=10, initializer=100.0)
    cluster = started(model, optimizer="sgd", learning_rate=1.0, batch_size=4, l2=0.5, **{clip: 1.0})
    cluster.train(1)
    gradient = DIRECTION + 0.5 * 100.0
    values = cluster.values()
    np.testing.assert_allclose(values["users"][book(values)[7]], 100.0 - gradient / np.linalg.norm(gradient), rtol=1e-6)
    assert (values["users/default"] == 100.0).all()


class TwoLookups(Linear):
    """Both columns are ids of one table; those of the second are never known."""

    def __init__(self, second: list[int]) -> None:
        self.second = second

    def data(self, split, data_dir):
        return Arrays(
            np.array([[7, 7]] * 4 + [[7, second] for second in self.second], np.int64), np.zeros(12, np.float32)
        )

    def forward(self, features, training):
        return tf.add_n(
            [
                tf.reduce_sum(embeddings.lookup("users", ids, dimension=3, initializer=FRESH, **LATE), 1)
                for ids in tf.unstack(features, axis=1)
            ]
        )

    def loss(self, outputs, labels):
        return tf.reduce_mean(outputs - labels)


@pytest.mark.long
@pytest.mark.parametrize("towers", ["1", long("2")])
def test_it_is_used_if_any_lookup_of_a_step_uses_it(towers: str) -> None:
    for second, is_used in (([7, 7, 7, 7, 7, 7, 7, 7], False), ([7, 7, 7, 1, 7, 7, 7, 2], True)):
        cluster = started(TwoLookups(second), optimizer="momentum", batch_size=4, towers=towers)
        before, after = default_after(cluster, 1, 2)
        assert (before != after).all() == is_used and (before == after).all() == (not is_used)


@pytest.mark.long
def test_a_row_that_is_admitted_by_a_step_that_used_the_default_row_is_not_updated() -> None:
    """A pull ahead of its turn may not see the use before it.  FTRL makes zero of a row with gradient zero."""
    model = Visits(KNOWN_AFTER_ONE, **LATE)
    cluster = started(model, optimizer="ftrl", batch_size=4, prefetch_pulls=1, steps_per_run="2")
    cluster.train(2, run=2)
    values = cluster.values()
    rows = book(values)
    assert rows.keys() == {7, 8}, "the second update admits them"
    assert (values["users"][sorted(rows.values())] != 0).all()


class Fixed(Linear):
    """The loss depends on no row of its tables."""

    def data(self, split, data_dir):
        return Arrays(np.arange(12, dtype=np.int64), np.ones(12, np.float32))

    def forward(self, features, training):
        rows = embeddings.lookup("closed", features, rows=12, dimension=2, initializer=1.0)
        rows += embeddings.lookup("open", features, capacity=20, dimension=2, initializer=1.0)
        return tf.reduce_sum(tf.stop_gradient(rows), 1) * v1.get_variable("w", [], initializer=v1.ones_initializer())


@pytest.mark.long
@pytest.mark.parametrize("num_ps", [1, long(2)])
def test_a_table_that_the_loss_does_not_depend_on_is_not_updated(num_ps: int) -> None:
    cluster = started(Fixed(), num_ps, optimizer="ftrl", batch_size=12, l2=0.5)
    cluster.train(2)
    values = cluster.values()
    assert values["w"] != 1.0
    for name in ("closed", "open/default"):
        assert (values[name] == 1.0).all(), name
    rows = book(values, "open")
    assert rows.keys() == set(range(12)), "its ids are admitted all the same"
    assert (values["open"][sorted(rows.values())] == 1.0).all()
