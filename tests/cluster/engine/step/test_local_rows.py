"""Rows of tables in rounds of local steps, against numpy, and against the same job without rounds.

Values are float32, those of numpy float64: a dozen steps differ by some 1e-6 of the largest value.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays, Model, embeddings, negatives
from ps_train.base.errors import ModelError
from tests.cluster.test_local_steps import ran_on
from tests.support.clusters.cluster import InProcessCluster, batches_of
from tests.support.clusters.local_bags import RoundsOfBags
from tests.support.long import long
from tests.support.models.tables import (
    COMBINERS,
    DIMENSION,
    MISSING,
    ROWS,
    AddedBags,
    Bags,
    NumpyRule,
    gradients_of_bags,
)
from tests.support.models.vocabularies import Visits, book

RATE, BATCH = 0.05, 12
TOLERANCE = 3e-6


def cluster_of(num_ps: int, workers: int, model: Model | None = None, **fields: Any) -> InProcessCluster:
    settings = {"learning_rate": RATE, "batch_size": BATCH // workers, **fields}
    cluster = InProcessCluster(model or Bags(), num_ps, workers, **settings)
    cluster.start()
    return cluster


@pytest.mark.parametrize("local_tables", [True, long(False)])
def test_slots_of_the_outer_optimizer_may_be_missing_in_a_checkpoint_and_those_of_rows_not(local_tables: bool) -> None:
    """A job may begin with local steps, but not with an optimizer for tables that has other slots."""
    cluster = cluster_of(
        2, 1, optimizer="adagrad", update="sync", local_steps=4, outer_optimizer="nesterov", local_tables=local_tables
    )
    slots = {entry.key: entry.optional for entry in cluster.steps[0].ps.entries if "/" in entry.key}
    slots = {key: optional for key, optional in slots.items() if not key.startswith("ps_train/")}
    assert slots == {f"{name}/Adagrad": False for name in COMBINERS}


@pytest.mark.parametrize(
    ("optimizer", "update"),
    [
        long("sgd", "async"),
        long("adagrad", "async"),
        long("rowwise_adagrad", "async"),
        ("ftrl", "async"),
        long("sgd", "sync"),
        long("adagrad", "sync"),
        long("rowwise_adagrad", "sync"),
        long("ftrl", "sync"),
    ],
)
def test_rounds_of_one_worker_train_rows_as_plain_steps_do(optimizer: str, update: str) -> None:
    cluster = cluster_of(2, 1, optimizer=optimizer, update=update, local_steps=4)
    initial = cluster.values()
    cluster.rounds([4, 3, 1])
    tables = {name: initial[name].astype(np.float64) for name in COMBINERS}
    rules = {name: NumpyRule(optimizer, RATE, (ROWS, DIMENSION)) for name in COMBINERS}
    for ids, labels in batches_of(Bags(), BATCH, 8):
        for name, (rows, gradient) in gradients_of_bags(tables, ids, labels).items():
            rules[name].apply(tables[name], rows, gradient)
    found = cluster.values()
    assert cluster.global_step() == 8
    for name in COMBINERS:
        np.testing.assert_allclose(found[name], tables[name], atol=TOLERANCE, rtol=TOLERANCE, err_msg=name)
    slots = {key: value for key, value in found.items() if key.partition("/")[0] in COMBINERS and "/" in key}
    assert len(slots) == {"sgd": 0, "ftrl": 6}.get(optimizer, 3)
    for key, value in slots.items():
        rule = rules[key.partition("/")[0]]
        wanted = rule.b if "linear" in key or key.endswith("_1") else rule.a
        np.testing.assert_allclose(value, wanted, atol=TOLERANCE, rtol=TOLERANCE, err_msg=key)


def assert_close(found: Any, wanted: Any, name: str, tolerance: float = TOLERANCE) -> None:
    np.testing.assert_allclose(found, wanted, atol=tolerance, rtol=tolerance, err_msg=name)


def check(cluster: InProcessCluster, rounds: RoundsOfBags, tolerance: float = TOLERANCE) -> None:
    """Compares rows, slots and counts."""
    found = cluster.values()
    for name in COMBINERS:
        assert_close(found[name], rounds.tables[name], name, tolerance)
    for key, value in found.items():
        name, _, slot = key.partition("/")
        if name in COMBINERS and slot:
            rule = rounds.rules[name]
            assert_close(value, rule.b if slot.endswith("_1") else rule.a, key, tolerance)
    counts = {"examples": rounds.examples, "skipped": rounds.skipped}
    assert {name: found[f"ps_train/{name}"] for name in counts} == counts
    assert cluster.global_step() == rounds.step


def begin(cluster: InProcessCluster, index: int, length: int) -> None:
    """A worker reads the batches of a round, and pulls their rows."""
    session, step = cluster.sessions[index], cluster.steps[index]
    session.run(step.fronts(length))
    session.run(step.calls.pull)


def end(cluster: InProcessCluster, index: int, length: int) -> None:
    """A worker makes the steps of a round, and pushes."""
    session, step = cluster.sessions[index], cluster.steps[index]
    if length > 1:
        session.run(step.local_steps(length - 1))
    session.run(step.steps_per_call(1))


@pytest.mark.parametrize(
    ("optimizer", "num_ps", "workers"),
    [
        ("adagrad", 2, 2),
        long("sgd", 1, 2),
        long("sgd", 2, 3),
        long("adagrad", 1, 3),
        long("rowwise_adagrad", 2, 3),
        long("ftrl", 2, 2),
    ],
)
def test_rows_of_synchronous_rounds_move_by_the_mean_and_slots_by_the_sum(
    optimizer: str, num_ps: int, workers: int
) -> None:
    cluster = cluster_of(num_ps, workers, optimizer=optimizer, update="sync", local_steps=4)
    rounds = RoundsOfBags(cluster)
    for length in (4, 3, 1, 4):
        cluster.rounds([length])
        rounds.together(length)
    check(cluster, rounds)


@pytest.mark.parametrize(
    ("optimizer", "update", "num_ps", "workers"),
    [
        ("adagrad", "async", 2, 2),
        long("sgd", "async", 1, 2),
        long("sgd", "bounded", 2, 3),
        long("adagrad", "bounded", 1, 2),
        long("ftrl", "async", 1, 3),
    ],
)
def test_rows_of_one_worker_after_the_other_move_by_their_parts(
    optimizer: str, update: str, num_ps: int, workers: int
) -> None:
    """Some begin while others are in the middle of a round: what these change meanwhile is kept."""
    ahead: dict[str, Any] = {"max_steps_ahead": 5} if update == "bounded" else {}
    cluster = cluster_of(num_ps, workers, optimizer=optimizer, update=update, local_steps=4, **ahead)
    rounds, last = RoundsOfBags(cluster), workers - 1
    for index, length in ((0, 4), (last, 3), (0, 1), (last, 4)):
        cluster.rounds([length], workers=[index])
        rounds.alone(index, length)
    check(cluster, rounds)
    begin(cluster, 0, 4)
    rounds.begin(0, 4)
    begin(cluster, last, 2)
    rounds.begin(last, 2)
    for index, length in ((last, 2), (0, 4)):
        end(cluster, index, length)
        rounds.end(index)
    check(cluster, rounds)


@pytest.mark.long
@pytest.mark.parametrize("optimizer", [long("sgd"), "adagrad"])
def test_rows_count_by_the_examples_of_a_worker_when_its_input_ends(optimizer: str) -> None:
    """Of 55 examples one worker has 28, which are 5 batches, the other 27, of which the last batch has 3."""
    cluster = cluster_of(2, 2, Bags(count=55), optimizer=optimizer, update="sync", local_steps=3, epochs=1)
    rounds = RoundsOfBags(cluster)
    for _ in range(3):
        cluster.rounds([3])
        rounds.together(3)
        check(cluster, rounds)
    assert (rounds.step, rounds.examples) == (5, 55), "a round without examples is none"


@pytest.mark.long
def test_the_worker_whose_input_ends_first_adds_nothing_to_later_rounds() -> None:
    """Of 37 examples one worker has 19, which are 4 batches, the other 18, which are 3."""
    cluster = cluster_of(2, 2, Bags(count=37), optimizer="adagrad", update="sync", local_steps=2, epochs=1)
    rounds = RoundsOfBags(cluster)
    for _ in range(3):
        cluster.rounds([2])
        rounds.together(2)
        check(cluster, rounds)
    assert (rounds.step, rounds.examples) == (4, 37)


class Bad(Bags):
    """The labels of some examples are no numbers."""

    def __init__(self, first: int, last: int) -> None:
        super().__init__()
        self._bad = slice(first, last)

    def data(self, split: str, data_dir: str) -> Arrays:
        arrays: Any = super().data(split, data_dir)
        arrays.labels[self._bad] = np.nan
        return arrays


@pytest.mark.long
@pytest.mark.parametrize("update", ["async", long("bounded"), long("sync")])
def test_a_bad_batch_of_a_round_touches_no_row_and_no_slot(update: str) -> None:
    workers = 2 if update == "sync" else 1
    cluster = cluster_of(2, workers, Bad(13, 14), optimizer="adagrad", update=update, local_steps=3, on_nan="skip")
    rounds = RoundsOfBags(cluster)
    for _ in range(2):
        cluster.rounds([3])
        rounds.together(3) if update == "sync" else rounds.alone(0, 3)
    check(cluster, rounds)
    assert rounds.skipped == 1


@pytest.mark.long
@pytest.mark.parametrize("update", ["async", "sync"])
def test_a_round_of_bad_batches_alone_changes_no_row(update: str) -> None:
    cluster = cluster_of(2, 1, Bad(36, 72), optimizer="adagrad", update=update, local_steps=3, on_nan="skip")
    rounds = RoundsOfBags(cluster)
    for _ in range(3):
        cluster.rounds([3])
        rounds.alone(0, 3)
        check(cluster, rounds)
    assert (rounds.skipped, rounds.step) == (3, 6)


@pytest.mark.long
@pytest.mark.parametrize("update", ["sync", long("async")])
def test_nesterov_gives_momentum_to_dense_values_and_none_to_rows(update: str) -> None:
    workers = 2 if update == "sync" else 1
    cluster = cluster_of(
        2, workers, Bags(dense=True), optimizer="sgd", update=update, local_steps=3, outer_optimizer="nesterov"
    )
    rounds = RoundsOfBags(cluster)
    for length in (3, 3, 2):
        cluster.rounds([length])
        rounds.together(length)
        check(cluster, rounds)
        assert_close(cluster.values()["bias"], rounds.bias, "bias")
    assert abs(rounds.bias) > 0.1


@pytest.mark.long
@pytest.mark.parametrize(
    ("update", "codecs"),
    [
        ("sync", {"push_codec": "int8", "pull_codec": "bfloat16"}),
        long("async", {"push_codec": "int8", "pull_codec": "bfloat16"}),
        long("async", {"push_codec": "int8"}),
        long("sync", {"pull_codec": "bfloat16"}),
    ],
    ids=str,
)
def test_codecs_round_rows_and_no_slots(update: str, codecs: dict[str, Any]) -> None:
    """The gradients do not depend on rows, so slots are exact however these are rounded."""
    workers = 2 if update == "sync" else 1
    cluster = cluster_of(2, workers, AddedBags(), optimizer="adagrad", update=update, local_steps=3, **codecs)
    rounds = RoundsOfBags(cluster)
    before = {name: table.copy() for name, table in rounds.tables.items()}
    for _ in range(3):
        cluster.rounds([3])
        rounds.together(3)
    found = cluster.values()
    for name in COMBINERS:
        assert_close(found[f"{name}/Adagrad"], rounds.rules[name].a, name)
        moved = np.abs(rounds.tables[name] - before[name]).max()
        difference = np.abs(found[name] - rounds.tables[name]).max()
        assert difference < 3 * moved / 64, (name, moved)
        assert ("push_codec" in codecs) == (difference > 1e-5), "what is sent is rounded"


@pytest.mark.parametrize("update", ["async", long("sync")])
def test_local_steps_of_tables_send_no_message(update: str) -> None:
    cluster = cluster_of(2, 1, Bags(dense=True), optimizer="adagrad", update=update, local_steps=5)
    session, step = cluster.sessions[0], cluster.steps[0]
    session.run(step.fronts(2))
    for fetches in (step.fronts(3), step.local_steps(4)):
        tasks, sent = ran_on(cluster, fetches)
        assert tasks == {"job:worker/task:0"} and not sent
        session.run(step.calls.pull)
    tasks, sent = ran_on(cluster, step.steps_per_call(1))
    assert tasks == {"job:worker/task:0", "job:ps/task:0", "job:ps/task:1"} and sent


@pytest.mark.parametrize("update", ["async", long("sync")])
def test_a_round_in_one_call_is_that_of_several_calls(update: str) -> None:
    settings = {"update": update, "optimizer": "adagrad", "local_steps": 4, "batch_size": BATCH}
    calls, whole = (cluster_of(2, 1, Bags(dense=True), **settings) for _ in range(2))
    calls.rounds([4, 3, 4, 1, 4, 4, 4])
    whole.rounds([4, 3, 4, 1, 4, 4, 4], joined=2)
    wanted = calls.values()
    for name, found in whole.values().items():
        assert_close(found, wanted[name], name)
    told = whole.sessions[0].run({**whole.steps[0].whole_rounds(3)})
    assert (told["step"], told["made"], told["examples"]) == (27, 3, 3 * BATCH)


def test_a_hook_fetches_the_last_batch_of_a_round_and_reads_no_other() -> None:
    plain, local = cluster_of(2, 1, optimizer="adagrad"), cluster_of(2, 1, optimizer="adagrad", local_steps=4)
    plain.train(8)
    given, batches = batches_of(Bags(), BATCH, 8), local.steps[0].worker.batches
    for length, last in ((4, 3), (1, 4), (3, 7)):
        begin(local, 0, length)
        if length > 1:
            local.sessions[0].run(local.steps[0].local_steps(length - 1))
        fetches = [local.steps[0].steps_per_call(1), batches.features, batches.labels, batches.examples]
        _, *found = local.sessions[0].run(fetches)
        for one, wanted in zip(found, [*given[last], BATCH], strict=True):
            np.testing.assert_array_equal(one, wanted)
    found, wanted = local.values(), plain.values()
    for name in found:
        assert_close(found[name], wanted[name], name)


@pytest.mark.parametrize("update", ["async", long("sync")])
def test_an_abandoned_round_leaves_no_row_no_slot_and_no_batch(update: str) -> None:
    workers = 2 if update == "async" else 1
    cluster = cluster_of(2, workers, optimizer="adagrad", update=update, local_steps=4)
    rounds = RoundsOfBags(cluster)
    cluster.rounds([4, 2], workers=[0])
    rounds.alone(0, 4)
    rounds.alone(0, 2)
    begin(cluster, 0, 4)
    cluster.sessions[0].run(cluster.steps[0].local_steps(2))
    cluster.open_again(0)
    rounds.leave(0, 4)
    check(cluster, rounds)
    cluster.sessions[0].run(cluster.steps[0].fronts(3))
    cluster.open_again(0)
    rounds.leave(0, 3)
    for length in (4, 1, 3):
        cluster.rounds([length], workers=[0])
        rounds.alone(0, length)
    check(cluster, rounds)


def passing(count: int = 120) -> np.ndarray:
    """Two ids an example: frequent ones, and ones that are frequent for a while."""
    random = np.random.default_rng(3)
    return np.stack([random.geometric(0.3, count), np.arange(count) // 30 * 100 + random.integers(0, 5, count)], 1)


def by_id(values: dict[str, np.ndarray]) -> dict[int, tuple[int, np.ndarray]]:
    """The uses of each id that has a row, and its row with its slots; ids may have other rows in another job."""
    rows, size = book(values), len(values["users"])
    of_rows = [
        value
        for key, value in sorted(values.items())
        if key.partition("/")[0] == "users" and len(np.atleast_1d(value)) == size and value.dtype == np.float32
    ]
    return {
        one: (int(values["users/used"][row, 0]), np.concatenate([np.ravel(some[row]) for some in of_rows]))
        for one, row in rows.items()
    }


def waiting(values: dict[str, np.ndarray]) -> dict[int, int]:
    """The uses of each id that waits for a row."""
    if "users/candidates/used" not in values:
        return {}
    keys, uses = values["users/candidates/keys"][:, 0], values["users/candidates/used"][:, 0]
    return dict(zip(keys[uses > 0].tolist(), uses[uses > 0].tolist(), strict=True))


def assert_same_ids(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    mine, others = by_id(found), by_id(wanted)
    assert mine.keys() == others.keys() and len(mine) > 5
    for one, (uses, values) in others.items():
        assert mine[one][0] == uses, one
        assert_close(mine[one][1], values, str(one), 1e-5)
    assert waiting(found) == waiting(wanted)
    for key in ("users/clock", "ps_train/examples", "global_step"):
        np.testing.assert_array_equal(found[key], wanted[key], err_msg=key)
    for key in wanted:
        if key.startswith("users/default"):
            assert_close(found[key], wanted[key], key, 1e-5)


@pytest.mark.long
@pytest.mark.parametrize(
    ("update", "optimizer", "num_ps", "declared"),
    [
        ("async", "adagrad", 1, {"admit_after": 3}),
        long("async", "sgd", 2, {}),
        long("sync", "adagrad", 2, {"admit_after": 3}),
        long("sync", "ftrl", 1, {"admit_after": 2, "expire_steps": 12}),
        long("async", "rowwise_adagrad", 2, {"admit_after": 3, "expire_steps": 12}),
    ],
    ids=str,
)
def test_ids_come_and_go_in_rounds_of_one_worker_as_in_plain_steps(
    update: str, optimizer: str, num_ps: int, declared: dict[str, Any]
) -> None:
    model = Visits(passing(), capacity=300, **declared)
    plain = cluster_of(num_ps, 1, model, update=update, optimizer=optimizer)
    plain.train(10)
    local = cluster_of(num_ps, 1, model, update=update, optimizer=optimizer, local_steps=4)
    local.rounds([4, 3, 1, 2])
    assert_same_ids(local.values(), plain.values())


@pytest.mark.long
@pytest.mark.parametrize("update", ["async", "sync"])
def test_an_id_expires_between_rounds(update: str) -> None:
    """With 1 example a step: 7 is not used for the 4 steps of a round, and comes back as a new one."""
    ids = np.array([7, 1, 7, 7, 1, 1, 1, 1, 7, 1, 1, 7])[:, np.newaxis]
    model, fields = Visits(ids, capacity=10, expire_steps=4), {"update": update, "optimizer": "adagrad"}
    plain = cluster_of(1, 1, model, batch_size=1, **fields)
    plain.train(12)
    local = cluster_of(1, 1, model, batch_size=1, local_steps=4, **fields)
    local.rounds([4, 4, 4])
    found, wanted = by_id(local.values()), by_id(plain.values())
    assert found.keys() == wanted.keys() == {1, 7} and wanted[7][0] == found[7][0] == 2
    for one in (1, 7):
        assert_close(found[one][1], wanted[one][1], str(one), 1e-5)


@pytest.mark.long
def test_uses_of_several_synchronous_workers_count_once_for_each_step() -> None:
    mine, others = [[7, 1], [7, 1], [7, 2]], [[7, 3], [8, 1], [8, 8]]
    ids = np.array([one for pair in zip(mine, others, strict=True) for both in zip(*pair, strict=True) for one in both])
    model = Visits(ids[:, np.newaxis], capacity=20, admit_after=3)
    cluster = cluster_of(2, 2, model, batch_size=2, update="sync", optimizer="adagrad", local_steps=3)
    cluster.rounds([3])
    values = cluster.values()
    assert {one: uses for one, (uses, _) in by_id(values).items()} == {7: 3, 1: 3}
    assert waiting(values) == {2: 1, 3: 1, 8: 2}
    assert set(np.unique(values["users/clock"])) == {3}


class Draws(Model):
    """Each draw adds 1 to a row, and to a value of the same id."""

    def __init__(self, by: str, **declared: Any) -> None:
        self.by, self.declared = by, declared

    def data(self, split: str, data_dir: str) -> Arrays:
        return Arrays(np.arange(60) % 20, np.zeros(60, np.float32))

    def forward(self, features: Any, training: bool) -> Any:
        table = embeddings.Table("users", 1, initializer=0.0, **self.declared)
        rows = embeddings.lookup(table, features)
        drawn = negatives.sample(table, 30, self.by)
        of_ids = v1.get_variable("of_ids", [20], initializer=v1.zeros_initializer())
        return tf.reduce_sum(drawn.rows) + 0 * tf.reduce_sum(rows), tf.reduce_sum(tf.gather(of_ids, drawn.ids))

    def loss(self, outputs: Any, labels: Any) -> Any:
        return -outputs[0] - outputs[1]


@pytest.mark.long
@pytest.mark.parametrize(
    ("by", "declared"),
    [
        ("frequency", {"capacity": 40}),
        long("uniform", {"capacity": 40, "admit_after": 2}),
        long("uniform", {"rows": 20}),
        long("log_uniform", {"rows": 20}),
    ],
    ids=str,
)
@pytest.mark.parametrize("update", ["sync", long("async")])
def test_the_rows_of_negatives_are_those_of_the_ids_that_were_drawn(
    update: str, by: str, declared: dict[str, Any]
) -> None:
    cluster = cluster_of(2, 1, Draws(by, **declared), update=update, optimizer="sgd", learning_rate=1.0, local_steps=5)
    cluster.rounds([5])
    first = cluster.values()["of_ids"]
    cluster.rounds([5, 5])
    values = cluster.values()
    of_ids = values["of_ids"] - (0 if "rows" in declared else first)
    assert of_ids.sum() == (450 if "rows" in declared else 300), "before the first round no id has a row"
    assert (of_ids % 5 != 0).any(), "each step has draws of its own"
    if "rows" in declared:
        rows = values["users"][embeddings.positions_of(np.arange(20), 20), 0]
    else:
        rows = np.array([values["users"][book(values)[one], 0] for one in range(20)])
    np.testing.assert_array_equal(rows, values["of_ids"])


class Twice(Bags):
    """Two lookups of one table, of which the second is of other ids."""

    def forward(self, features: Any, training: bool) -> Any:
        found = [self.combined("sum", one, "sum") for one in (features[:, :2], features[:, 1:])]
        return tf.linalg.matvec(found[0] - 2 * found[1], tf.constant(self.direction(0)))


def assert_as_plain(model: Model, **fields: Any) -> None:
    """A round of local steps of one worker makes what plain steps make."""
    plain, local = cluster_of(2, 1, model, **fields), cluster_of(2, 1, model, local_steps=4, **fields)
    plain.train(8)
    local.rounds([4, 3, 1])
    found, wanted = local.values(), plain.values()
    assert found.keys() <= wanted.keys()
    for name in found:
        assert_close(found[name], wanted[name], name)


@pytest.mark.long
@pytest.mark.parametrize("update", ["async", long("sync")])
def test_two_lookups_of_one_table_are_trained_together(update: str) -> None:
    assert_as_plain(Twice(), update=update, optimizer="adagrad")


class Computed(Bags):
    """Ids that a loop, a condition and a table of TensorFlow make of those of the batch."""

    def forward(self, features: Any, training: bool) -> Any:
        ids = tf.maximum(features, 0)
        count, ids = tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, (x * 7 + 1) % ROWS), [0, ids])
        ids = tf.cond(tf.reduce_sum(ids) % 2 > 0, lambda: ids, lambda: ROWS - 1 - ids)
        backwards = tf.lookup.KeyValueTensorInitializer(np.arange(ROWS), np.arange(ROWS)[::-1])
        ids = tf.lookup.StaticHashTable(backwards, 0).lookup(tf.map_fn(lambda row: (row * 3) % ROWS, ids))
        # Only some batches have ids of the second table.
        some = tf.where(tf.reduce_sum(ids, keepdims=True) % 2 > 0, ids, MISSING)
        found = self.combined("sum", ids, "sum") + self.combined("mean", some, "mean")
        return tf.linalg.matvec(found, tf.constant(self.direction(0))) * tf.cast(count, tf.float32)


@pytest.mark.long
@pytest.mark.parametrize("update", ["async", long("sync")])
def test_ids_may_be_computed_in_any_way_from_features(update: str) -> None:
    assert_as_plain(Computed(), update=update, optimizer="adagrad", learning_rate=0.005)


class Averaged(Bags):
    """A moving average of what is looked up, as in a batch normalization."""

    def forward(self, features: Any, training: bool) -> Any:
        rows = self.combined("sum", features, "sum")
        average = v1.get_variable("average", [DIMENSION], initializer=v1.zeros_initializer(), trainable=False)
        before = average.read_value()
        moved = average.assign(0.9 * before + 0.1 * tf.reduce_mean(tf.stop_gradient(rows), 0))
        v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, moved)
        return tf.linalg.matvec(rows - before, tf.constant(self.direction(0)))


@pytest.mark.long
@pytest.mark.parametrize("update", ["async", long("sync")])
def test_a_model_may_assign_values_beside_its_tables(update: str) -> None:
    assert_as_plain(Averaged(), update=update, optimizer="adagrad")


class Proximal(Bags):
    """An optimizer whose slots TensorFlow makes from a constant of the table's shape."""

    def optimizer(self, name: Any, learning_rate: Any) -> Any:
        return v1.train.ProximalAdagradOptimizer(learning_rate, l1_regularization_strength=0.01)


@pytest.mark.long
@pytest.mark.parametrize("update", ["async", "sync"])
def test_proximal_adagrad_trains_rows_of_rounds_as_in_plain_steps(update: str) -> None:
    assert_as_plain(Proximal(), update=update)


class Refused(Bags):
    """Ids that depend on what is trained, on what the model assigns, or on the number of steps."""

    def __init__(self, by: str) -> None:
        super().__init__()
        self._by = by

    def forward(self, features: Any, training: bool) -> Any:
        if self._by == "value":
            w = v1.get_variable("w", [], initializer=v1.ones_initializer())
            others = tf.where(w > 0, features, 0)
        elif self._by == "state":
            count = v1.get_variable("count", [], tf.int64, v1.zeros_initializer(), trainable=False)
            v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, count.assign_add(1))
            others = (features + count) % ROWS
        else:
            others = (features + v1.train.get_or_create_global_step()) % ROWS
        return tf.linalg.matvec(self.combined("sum", others, "sum"), tf.constant(self.direction(0)))


@pytest.mark.parametrize("by", ["value", long("state"), long("step")])
def test_ids_that_change_with_training_are_refused(by: str) -> None:
    with pytest.raises(ModelError, match=r"ids that depend on trained values, .* or on the global step"):
        cluster_of(2, 1, Refused(by), optimizer="sgd", local_steps=4)


@pytest.mark.parametrize("optimizer", ["momentum", long("lazy_adam"), long("rmsprop")])
def test_an_optimizer_whose_slots_are_no_sums_is_refused_with_its_name_and_that_of_a_table(optimizer: str) -> None:
    name = {"momentum": "MomentumOptimizer", "lazy_adam": "LazyAdam", "rmsprop": "RMSPropOptimizer"}[optimizer]
    with pytest.raises(ModelError, match=f"^local steps are not possible with {name} for table sum: [^\n]*$"):
        cluster_of(2, 1, optimizer=optimizer, local_steps=4)
