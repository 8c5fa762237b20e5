"""Open vocabularies are trained as a dictionary of rows would be, an id after the other."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import embeddings
from ps_train.base.errors import ModelError
from ps_train.data.pipeline import derived_seed
from ps_train.engine.variables import initialization
from ps_train.modeling.tables.id_initializer import initial_rows_of_ids
from ps_train.modeling.tables.table import Table
from tests.support.clusters.cluster import InProcessCluster, batches_of
from tests.support.long import long
from tests.support.models.vocabularies import DIMENSION, FRESH, Replay, Visits, book

RATE = 0.05
OPTIMIZERS = [long("sgd"), long("momentum"), "adagrad", long("ftrl"), long("lazy_adam"), long("rowwise_adagrad")]


def started(model: Visits, num_ps: int = 1, workers: int = 1, directory=None, **fields) -> InProcessCluster:
    settings = {"learning_rate": RATE, "batch_size": 12 // workers, "optimizer": "sgd", **fields}
    cluster = InProcessCluster(model, num_ps, workers, directory, **settings)
    cluster.start()
    return cluster


def passing(count: int = 240, seed: int = 3) -> np.ndarray:
    """Two ids an example: frequent ones, rare ones, and ones that are frequent for a while."""
    random = np.random.default_rng(seed)
    ids = np.stack([random.geometric(0.3, count), np.arange(count) // 30 * 100 + random.integers(0, 5, count)], 1)
    return (ids - 100).astype(np.int64)


def replayed(model: Visits, steps: int, optimizer: str = "sgd", size: int = 12) -> Replay:
    declared = {name: model.declared[name] for name in ("admit_after", "expire_steps") if name in model.declared}
    replay = Replay(optimizer, RATE, model.declared["capacity"], **declared)
    replay.default[:] = model.declared["initializer"]
    for ids, labels in batches_of(model, size, steps):
        replay.step(ids, labels)
    return replay


def assert_same(values: dict, replay: Replay, tolerance: float = 1e-6) -> None:
    rows = book(values)
    assert rows.keys() == replay.known.keys()
    for name, entry in replay.known.items():
        row = rows[name]
        assert values["users/used"][row, :2].tolist() == [entry.uses, entry.last], name
        np.testing.assert_allclose(
            values["users"][row], replay.table[entry.state], rtol=tolerance, atol=tolerance, err_msg=str(name)
        )
    np.testing.assert_allclose(values["users/default"], replay.default, rtol=tolerance, atol=tolerance)


def assert_replayed(optimizer: str, declared: dict) -> None:
    model = Visits(passing(), **declared)
    cluster = started(model, optimizer=optimizer)
    cluster.train(20)
    replay = replayed(model, 20, optimizer)
    assert_same(cluster.values(), replay)
    assert (replay.evicted > 0) == (declared["capacity"] == 20), "rows must be given again where there are few"
    assert (replay.expired > 0) == ("expire_steps" in declared), "an id must come back after it has expired"


@pytest.mark.long
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_optimizer_does_to_ids_that_come_and_go_what_numpy_does(optimizer: str) -> None:
    assert_replayed(optimizer, {"capacity": 20, "admit_after": 2, "expire_steps": 3})


@pytest.mark.parametrize(
    "declared",
    [
        long({"capacity": 100}),
        long({"capacity": 20}),
        {"capacity": 20, "admit_after": 3},
        {"capacity": 100, "expire_steps": 2},
    ],
    ids=str,
)
@pytest.mark.usual(1)
def test_rows_are_given_and_taken_as_declared(declared: dict) -> None:
    assert_replayed("adagrad", declared)


@pytest.mark.long
def test_a_table_that_is_filled_in_parts_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(initialization, "CHUNK_BYTES", 7 * 4 * DIMENSION)
    assert_replayed("adagrad", {"capacity": 20})


def ids_of(*steps: list[int]) -> np.ndarray:
    """One id an example, four examples a step."""
    return np.array(steps, np.int64).reshape(-1, 1)


def trained(ids: np.ndarray, **declared) -> InProcessCluster:
    cluster = started(Visits(ids, **declared), batch_size=4)
    cluster.train(len(ids) // 4)
    return cluster


def test_an_id_is_admitted_at_the_first_update_without_admit_after() -> None:
    assert book(trained(ids_of([7, 7, 8, 9]), capacity=10).values()).keys() == {7, 8, 9}


@pytest.mark.long
def test_an_id_is_admitted_at_the_nth_update_that_uses_it_however_often_each_of_them_does() -> None:
    steps = [[7, 7, 7, 8], [7, 1, 2, 3], [7, 4, 5, 6]]
    known = [book(trained(ids_of(*steps[:n]), capacity=10, admit_after=3).values()).keys() for n in (1, 2, 3)]
    assert known == [set(), set(), {7}]


@pytest.mark.long
def test_before_it_is_admitted_an_id_has_the_default_row_which_learns_and_then_a_fresh_one() -> None:
    steps = [[7, 7, 7, 7], [7, 7, 7, 7], [7, 7, 7, 7]]
    before = trained(ids_of(*steps[:1]), capacity=10, admit_after=2).values()
    after = trained(ids_of(*steps[:2]), capacity=10, admit_after=2).values()
    assert (before["users/default"] != FRESH).all() and not book(before)
    np.testing.assert_array_equal(before["users/default"], after["users/default"])
    row = after["users"][book(after)[7]]
    replay = replayed(Visits(ids_of(*steps[:2]), capacity=10, admit_after=2), 2, size=4)
    np.testing.assert_allclose(row, replay.table[0], rtol=1e-6)


@pytest.mark.long
@pytest.mark.parametrize(("pause", "known"), [(1, {7, 1}), (2, {1})])
def test_an_id_that_expire_steps_updates_have_not_used_loses_its_row(pause: int, known: set) -> None:
    steps = [[7, 7, 1, 1], *[[1, 1, 1, 1]] * pause]
    model = Visits(ids_of(*steps), capacity=10, expire_steps=2)
    cluster = started(model, batch_size=4)
    cluster.train(1 + pause)
    replay = replayed(model, 1 + pause, size=4)
    assert {name for name in (1, 7) if replay.alive(replay.known[name])} == known, "the replay's own count"
    assert cluster.score()["mean"] == pytest.approx(replay.outputs(model.ids).mean(), abs=1e-6)


@pytest.mark.long
def test_the_least_used_id_gives_its_row_to_a_new_one_when_all_are_taken_and_of_these_the_longest_unused() -> None:
    steps = [[1, 2, 3, 4], [1, 2, 1, 2], [3, 3, 3, 3], [4, 4, 4, 4], [5, 5, 5, 5]]
    assert book(trained(ids_of(*steps), capacity=4).values()).keys() == {2, 3, 4, 5}, "1 and 2 are unused the longest"
    steps[-1] = [1, 1, 1, 1]
    assert book(trained(ids_of(*steps, [6, 2, 2, 2]), capacity=4).values()).keys() == {1, 2, 4, 6}
    often = [[1, 2, 3, 4], [1, 1, 1, 1], [1, 1, 1, 1], [2, 2, 2, 2], [3, 3, 3, 3], [4, 4, 4, 4], [5, 5, 5, 5]]
    assert book(trained(ids_of(*often), capacity=4).values()).keys() == {1, 3, 4, 5}, "1 is unused the longest"


def test_more_new_ids_than_rows_get_as_many_rows_as_there_are() -> None:
    assert book(trained(ids_of([1, 2, 3, 4], [5, 6, 7, 8]), capacity=3).values()).keys() == {5, 6, 7}


EDGES = [-(2**63), 2**63 - 1, 0, -1, 1, 2**62, -(2**62), 2**31]


@pytest.mark.long
def test_ids_may_be_any_int64() -> None:
    ids = np.array(EDGES * 3, np.int64).reshape(-1, 2)
    values = trained(ids, capacity=8).values()
    rows = book(values)
    assert rows.keys() == set(EDGES)
    replay = replayed(Visits(ids, capacity=8), 3, size=4)
    for name in EDGES:
        np.testing.assert_allclose(values["users"][rows[name]], replay.table[replay.known[name].state], rtol=1e-6)


@pytest.mark.long
def test_ids_of_small_integer_types_and_strings_are_ids_too() -> None:
    for dtype in (np.int8, np.uint8, np.int32):
        assert book(trained(np.array([[1], [2], [3], [1]], dtype), capacity=8).values()).keys() == {1, 2, 3}


WORDS = [b"", b"a", b"b", b"a\0", b"a\0\0", b"fifteen bytes..", "ü".encode(), b"\xff" * 15]
LONG = [b"sixteen bytes...", b"sixteen bytes..!", b"x" * 1000, b"x" * 1001]


def test_strings_are_ids_and_no_two_share_a_row() -> None:
    ids = np.array((WORDS + LONG) * 2, object).reshape(-1, 1)
    model = Visits(ids, capacity=50)
    cluster = started(model)
    cluster.train(2)
    values, replay = cluster.values(), replayed(model, 2)
    rows = book(values)
    assert set(WORDS) < rows.keys() and len(rows) == 12
    for name in WORDS:
        np.testing.assert_allclose(values["users"][rows[name]], replay.table[replay.known[name].state], rtol=1e-6)
    assert cluster.score()["mean"] == pytest.approx(replay.outputs(ids).mean(), abs=1e-6)


def large(count: int = 1200) -> np.ndarray:
    random = np.random.default_rng(4)
    return random.integers(-(2**62), 2**62, 900)[random.zipf(1.3, (count, 2)) % 900]


LATE = {"admit_after": 2, "expire_steps": 4}


@pytest.mark.long
@pytest.mark.parametrize(
    ("num_ps", "workers", "update", "declared"),
    [long(3, 1, "async", {}), (2, 2, "sync", LATE), long(1, 3, "sync", LATE)],
)
def test_several_ps_and_synchronous_workers_compute_what_one_process_does(
    num_ps: int, workers: int, update: str, declared: dict
) -> None:
    model = Visits(large(), capacity=1000, **declared)
    cluster = started(model, num_ps, workers, optimizer="momentum", update=update, batch_size=60 // workers)
    cluster.train(20)
    values, replay = cluster.values(), replayed(model, 20, "momentum", size=60)
    rows = book(values)
    alive = {name for name in replay.known if replay.alive(replay.known[name])}
    assert alive <= rows.keys() <= replay.known.keys() and len(alive) > 40
    assert len({row // (len(values["users"]) // 3) for row in rows.values()}) == 3, "there must be three heaps"
    for name in alive:
        entry = replay.known[name]
        assert values["users/used"][rows[name], :2].tolist() == [entry.uses, entry.last]
        np.testing.assert_allclose(values["users"][rows[name]], replay.table[entry.state], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(values["users/default"], replay.default, rtol=1e-5, atol=1e-5)
    assert values["users/clock"].tolist() == [20] * 3


class Mixed(Visits):
    """With a fixed table, a dense variable, and a second open vocabulary, of strings."""

    def forward(self, features, training):
        names = tf.strings.join(["visitor ", tf.as_string(features % 40)])
        others = embeddings.lookup("others", names, "mean", capacity=60, dimension=2)
        fixed = embeddings.lookup("fixed", features % 10, "sum", rows=10, dimension=2)
        bias = v1.get_variable("bias", [], initializer=v1.zeros_initializer())
        return super().forward(features, training) + tf.reduce_sum(others * fixed, 1) + bias


@pytest.mark.long
def test_open_and_fixed_tables_and_dense_variables_go_together() -> None:
    found = []
    for num_ps, workers in ((1, 1), (2, 2)):
        cluster = started(
            Mixed(large(), capacity=600), num_ps, workers, update="sync", optimizer="adagrad", batch_size=24 // workers
        )
        cluster.train(10)
        found.append(cluster.values())
    one, two = found
    for name in ("fixed", "bias", "users/default", "others/default", "fixed/Adagrad"):
        np.testing.assert_allclose(one[name], two[name], rtol=1e-4, atol=1e-5, err_msg=name)
    for name in ("users", "others"):
        rows, others = book(one, name), book(two, name)
        assert rows.keys() == others.keys() and len(rows) > 30
        for key, row in rows.items():
            np.testing.assert_allclose(one[name][row], two[name][others[key]], rtol=1e-4, atol=1e-5, err_msg=str(key))


def test_an_optimizer_that_rewrites_whole_tables_is_refused() -> None:
    with pytest.raises(ModelError, match=r"all rows of table users at every step, .*use .*lazy_adam"):
        started(Visits(passing(), capacity=20), optimizer="adam")


@pytest.mark.long
def test_a_ps_whose_rows_a_batch_does_not_need_counts_the_update_all_the_same() -> None:
    cluster = started(Visits(np.full([24, 2], 7), capacity=1000, admit_after=2), 3)
    cluster.train(3)
    values = cluster.values()
    assert book(values).keys() == {7} and values["users/clock"].tolist() == [3, 3, 3]


@pytest.mark.parametrize("update", ["async", long("bounded")])
@pytest.mark.long
def test_concurrent_workers_give_each_id_one_row(update: str) -> None:
    cluster = started(Visits(passing(), capacity=20, admit_after=2), 1, 3, update=update, optimizer="adagrad")
    cluster.train(40)
    values = cluster.values()
    used = values["users/used"][:, 0] > 0
    assert used.sum() == 20 and len(book(values)) == 20, "no id may have two rows"
    assert values["users/clock"].tolist() == [120] and np.isfinite(values["users"]).all()


class Checked(Visits):
    """Nothing is learned, so that the row of an id must always be what it began with; a step fails where it is not."""

    def forward(self, features, training):
        rows = embeddings.lookup("users", features, **self.declared)
        table = Table("users", DIMENSION, capacity=self.declared["capacity"])
        first = initial_rows_of_ids(tf.reshape(features, [-1, 1]), table, derived_seed(0, "users"))
        same = tf.reduce_all(tf.abs(tf.reshape(rows, [-1, DIMENSION]) - first) < 1e-7)
        with tf.control_dependencies([tf.debugging.Assert(same | (not training), ["the row of another id"])]):
            return tf.reduce_sum(rows, [1, 2])


@pytest.mark.long
@pytest.mark.parametrize("update", [long("async"), "sync"])
def test_no_pull_gets_the_row_of_another_id_while_rows_change_hands(update: str) -> None:
    ids = np.random.default_rng(3).integers(0, 400, (30_000, 4))
    model = Checked(ids, capacity=60, initializer=None)
    cluster = started(model, 1, 3, update=update, seed=0, learning_rate=1e-30, batch_size=16)
    cluster.train(100)
    used = cluster.values()["users/used"]
    assert (used[:, 0] > 0).sum() == 60 and used[:, 2].max() > used[:, 1].max() - 3, "rows must change hands to the end"
