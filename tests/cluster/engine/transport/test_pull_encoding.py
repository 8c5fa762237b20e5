"""Pulls of one byte a value: unbiased, the same for all workers, exact where they must be."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.transport.codecs.int8 import Int8
from ps_train.engine.transport.pull_encoding import CodedPulls
from tests.support.clusters.coded import WIDTH, Fixed, cluster_of, values_of
from tests.support.long import long
from tests.support.models.small import Linear
from tests.support.models.tables import AddedBags
from tests.support.models.vocabularies import Visits


def decoded(vector, versions, ps=0, number=0):
    """What a worker gets of a vector at each of these versions: [versions, n]."""
    with tf.Graph().as_default(), v1.Session() as session:
        version = v1.placeholder(tf.int64, [])
        encoding = CodedPulls(Int8(), 3).on(ps, number)
        wire = encoding.encode(tf.constant(vector), version)
        assert wire.shape.is_fully_defined()  # a worker may keep it from call to call
        found = encoding.decode(wire, len(vector))
        return np.stack([session.run(found, {version: one}) for one in versions])


@pytest.mark.usual(1)
@pytest.mark.parametrize("size", [5000, 1, 255])
def test_values_are_right_in_the_mean_over_the_versions_of_a_ps(size):
    vector = np.random.default_rng(1).normal(size=size).astype(np.float32)
    found = decoded(vector, range(1000))
    step = np.repeat(np.abs(np.pad(vector, (0, -size % 256)).reshape(-1, 256)).max(1) / 127, 256)[:size]
    assert (np.abs(found - vector) <= step * 1.01).all()
    # A rounded value has a standard deviation of at most half a step; 6 of these for the mean of 1,000.
    assert (np.abs(found.mean(0) - vector) <= 6 * step / 2 / np.sqrt(1000)).all()
    assert (found[0] != found[1]).any() or size == 1


def test_a_version_is_rounded_in_one_way_on_each_ps():
    vector = np.random.default_rng(1).normal(size=300).astype(np.float32)
    first = decoded(vector, [7])
    assert np.array_equal(first, decoded(vector, [7]))
    assert not np.array_equal(first, decoded(vector, [7], ps=1))
    assert not np.array_equal(first, decoded(vector, [7], number=1))


class Counts(Linear):
    """Counts its steps itself, in a small number beside a large one, and has values of 64 bits."""

    def forward(self, features, training):
        count = v1.get_variable("count", [2], initializer=v1.constant_initializer([1000.0, 3.0]), trainable=False)
        whole = v1.get_variable("whole", [3], tf.float64, initializer=v1.constant_initializer([1 / 3, 1e-7, 3e5]))
        if training:
            v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, count.assign_add(tf.ones([2])))
        return super().forward(features, training) + tf.cast(tf.reduce_sum(whole), tf.float32) * 0.0


def test_state_and_other_dtypes_are_exact_and_the_ps_keeps_float32():
    cluster = cluster_of(Counts(), pull_codec="int8", learning_rate=0.01)
    cluster.train(5)
    values = values_of(cluster)
    assert values["count"].tolist() == [1005, 8]
    assert np.array_equal(values["whole"], np.array([1 / 3, 1e-7, 3e5]))
    assert values["w"].dtype == np.float32


class OfValues(Fixed):
    """Its loss is the sum of its values, whatever the batch."""

    def forward(self, features, training):
        return super().forward(tf.ones_like(features), training)


def test_workers_that_read_the_same_values_compute_with_the_same():
    cluster = cluster_of(OfValues(), 2, pull_codec="int8", learning_rate=1e-3)
    cluster.train(1)
    losses = [session.run(step.worker.loss) for session, step in zip(cluster.sessions, cluster.steps, strict=True)]
    assert losses[0] == losses[1]
    assert losses[0] != pytest.approx(1.01 * WIDTH, rel=1e-9), "values are rounded"


class OfItsDtype(Linear):
    def forward(self, features, training):
        w = v1.get_variable("w", [self.width, 1])
        b = v1.get_variable("b", [], initializer=v1.zeros_initializer())
        return tf.squeeze(tf.cast(features, w.dtype) @ w, 1) + b


@pytest.mark.long
@pytest.mark.parametrize(
    ("update", "fields"),
    [
        ("sync", {"steps_per_run": "4"}),
        long("sync", {}),
        ("async", {"prefetch_pulls": True, "steps_per_run": "4"}),
        long("bounded", {}),
        long("sync", {"accumulate": 2, "clip_global_norm": 5.0}),
        long("async", {"compute_dtype": "bfloat16"}),
    ],
)
def test_a_model_is_learned_as_without_it(update, fields):
    run = int(fields.get("steps_per_run", 1))
    cluster = cluster_of(OfItsDtype(), 2, update=update, pull_codec="int8", learning_rate=0.05, **fields)
    cluster.train(200, run)
    values = values_of(cluster)
    assert values["w"].ravel() == pytest.approx([1, 2, 3], abs=0.05)
    assert values["b"] == pytest.approx(0.5, abs=0.05)


@pytest.mark.long
@pytest.mark.parametrize("size", [1, 12])
@pytest.mark.parametrize("prefetch", [False, True])
def test_rows_of_tables_reach_their_rows(size, prefetch):
    """The gradients do not depend on the rows, so they end as without a codec; some batches of 1 have no id at all."""
    plain, coded = (
        cluster_of(AddedBags(dense=True), batch_size=size, prefetch_pulls=prefetch, run=2, pull_codec=codec)
        for codec in ("none", "int8")
    )
    for cluster in (plain, coded):
        cluster.train(12, 2)
    expected = values_of(plain)
    for key, value in values_of(coded).items():
        assert value == pytest.approx(expected[key], abs=1e-6), key


class AddedVisits(Visits):
    def loss(self, outputs, labels):
        return tf.reduce_mean(outputs * labels)


@pytest.mark.long
def test_an_id_of_an_open_vocabulary_stays_known_beside_large_rows():
    ids = np.random.default_rng(2).geometric(0.3, (96, 2)).astype(np.int64)
    plain, coded = (
        cluster_of(AddedVisits(ids, capacity=20, initializer=1000.0), pull_codec=codec) for codec in ("none", "int8")
    )
    for cluster in (plain, coded):
        cluster.train(12)
    expected = values_of(plain)
    for key, value in values_of(coded).items():
        assert np.array_equal(value, expected[key]), key
