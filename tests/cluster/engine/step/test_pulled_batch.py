"""The front of a step that the call before has made: batch and rows belong together, and each batch is used once."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import embeddings
from ps_train.modeling.tables.row_order import positions_of
from tests.support.clusters.cluster import InProcessCluster
from tests.support.long import long
from tests.support.models.tables import Counted

COUNT, BATCH, LONGEST = Counted.count, 4, 5


class Open(Counted):
    """The same with an open vocabulary."""

    def forward(self, features, training):
        rows = embeddings.lookup(
            "t", features[:, None], "sum", capacity=2 * COUNT, dimension=2, initializer=v1.zeros_initializer()
        )
        return rows, features


class Drawn(Counted):
    """Looks up rows that are drawn at random, as in negative sampling, and moves each to its own number."""

    def ids(self, features):
        return tf.random.uniform(tf.shape(features), 0, COUNT, tf.int64)

    def loss(self, outputs, labels):
        rows, ids = outputs
        return 0.25 * tf.reduce_sum(tf.square(rows - tf.cast(ids, tf.float32)[:, None]))


class Looping(Counted):
    """Computes its ids in a loop as TensorFlow 1 builds them, which cannot be divided."""

    def ids(self, features):
        v1.disable_control_flow_v2()
        try:
            return v1.while_loop(lambda n, _: n < 3, lambda n, ids: (n + 1, ids * 1), [0, features])[1]
        finally:
            v1.enable_control_flow_v2()


class Noting(Counted):
    """Does something on the worker that another step may see."""

    def ids(self, features):
        return tf.ensure_shape(tf.numpy_function(lambda ids: ids, [features], tf.int64), features.shape)


class Asserting(Counted):
    """The rest of the step waits for a part of the front."""

    def forward(self, features, training):
        rows, ids = super().forward(features, training)
        with tf.control_dependencies([features, v1.assert_less(ids, tf.constant(COUNT, tf.int64))]):
            return tf.identity(rows), ids


def cluster_of(model, num_ps=2, **fields):
    settings = {"optimizer": "sgd", "learning_rate": 1.0, "batch_size": BATCH, "steps_per_run": str(LONGEST), **fields}
    cluster = InProcessCluster(model, num_ps, 1, partition_bytes=800, prefetch_pulls=1, **settings)
    cluster.start()
    return cluster


def rows_of(cluster):
    """The first number of each row, in the order of the ids."""
    return cluster.values()["t"][positions_of(np.arange(COUNT), COUNT), 0]


def reads_of(cluster, scope):
    ops = cluster.steps[0].graph.get_operations()
    return [op.name for op in ops if op.type == "IteratorGetNext" and op.name.startswith(f"{scope}/")]


@pytest.mark.parametrize(
    ("model", "divided"),
    [(Counted(), True), (Asserting(), True), (Looping(), False), long(Noting(), False)],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("num_ps", [long(1), 2])
@pytest.mark.usual(1)
def test_every_batch_is_used_once_in_calls_of_any_length_and_steps_with_hooks(model, divided, num_ps) -> None:
    cluster = cluster_of(model, num_ps)
    assert bool(reads_of(cluster, "pull_1")) == divided
    made = 0
    for length in (1, 3, LONGEST, 2, 1, 4):
        cluster.train(length * 2, run=length)
        cluster.sessions[0].run([cluster.steps[0].ops.train])
        made += length * 2 + 1
    uses = rows_of(cluster)
    assert uses.sum() == made * BATCH == cluster.values()["ps_train/examples"]
    # One batch is kept for the next call.
    whole, rest = divmod((made + divided) * BATCH, COUNT)
    expected = np.full(COUNT, whole) + (np.arange(COUNT) < rest)
    missing = expected - uses
    assert missing.min() >= 0 and missing.sum() == BATCH * divided


def test_a_session_begins_with_a_batch_and_rows_of_its_own() -> None:
    cluster = cluster_of(Counted())
    cluster.train(2)
    cluster.open_again(0)
    cluster.train(2)
    uses = rows_of(cluster)
    assert np.flatnonzero(uses).tolist() == [*range(2 * BATCH), *range(3 * BATCH, 5 * BATCH)]


@pytest.mark.long
@pytest.mark.parametrize("length", [long(1), 3])
def test_rows_belong_to_the_ids_for_which_they_were_pulled_also_if_these_are_drawn(length: int) -> None:
    cluster = cluster_of(Drawn(), learning_rate=0.5)
    assert reads_of(cluster, "pull_1")
    cluster.train(600 // length * length, run=length)
    rows = rows_of(cluster)
    # Each use removes a quarter of the distance; a row of another id would be moved away from its number.
    assert np.abs(rows - np.arange(COUNT)).mean() < 10
    assert (rows <= np.arange(COUNT) + 0.01).all()


@pytest.mark.long
def test_an_open_vocabulary_gives_its_rows_too() -> None:
    cluster = cluster_of(Open())
    assert reads_of(cluster, "pull_1")
    cluster.train(20, run=2)
    values = cluster.values()
    assert values["ps_train/examples"] == 20 * BATCH
    assert values["t"].sum() == 2 * 20 * BATCH and (values["t"] <= 1).all()


@pytest.mark.usual(1)
@pytest.mark.parametrize("fields", [{"epochs": 2}, {"epochs": 1, "sharding": "dynamic"}, {"batch_size": "4..8"}])
def test_a_batch_is_not_read_for_the_next_call_where_the_input_ends_or_batches_grow(fields) -> None:
    cluster = InProcessCluster(
        Counted(), 1, 1, prefetch_pulls=1, steps_per_run="2", **{"batch_size": BATCH, "learning_rate": 1.0, **fields}
    )
    assert not reads_of(cluster, "pull_1") and reads_of(cluster, "step_kept")


@pytest.mark.long
@pytest.mark.parametrize("codec", ["bfloat16", "int8"])
def test_rows_are_kept_as_they_travel(codec: str) -> None:
    cluster = cluster_of(Drawn(), learning_rate=0.5, pull_codec=codec, push_codec=codec)
    cluster.train(600, run=LONGEST)
    assert np.abs(rows_of(cluster) - np.arange(COUNT)).mean() < 10


@pytest.mark.long
def test_no_collection_of_ours_is_written_into_a_meta_graph() -> None:
    """TensorFlow logs a warning for each value that it cannot write."""
    cluster = InProcessCluster(Open(), 1, 1, batch_size=BATCH)
    keys = cluster.steps[0].graph.get_all_collection_keys()
    assert keys and [key for key in keys if "ps_train" in key] == []
