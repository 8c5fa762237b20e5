"""Codecs of pulls and pushes on a whole cluster: exact sums, reproducible steps, few bytes on the wire."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.data.arrays import Arrays
from tests.support.clusters.coded import WIDTH, Fixed, cluster_of, values_of
from tests.support.long import long
from tests.support.models.small import Linear
from tests.support.models.tables import Bags

CODECS = [long("bfloat16"), long("float16"), "int8", long("top_k:0.05"), long("top_k:0.05,int8")]
each_codec = pytest.mark.parametrize("codec", CODECS)


class Rounded(Linear):
    """Counts its steps itself, beyond the numbers that bfloat16 can count."""

    def forward(self, features, training):
        count = v1.get_variable("count", [], initializer=v1.constant_initializer(1000.0), trainable=False)
        if training:
            v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, count.assign_add(1.0))
        return super().forward(features, training)


@pytest.mark.parametrize("dtype", ["bfloat16", long("float16")])
def test_a_worker_computes_with_rounded_values_and_the_ps_keeps_float32(dtype):
    cluster = cluster_of(Rounded(), pull_codec=dtype, learning_rate=0.01)
    narrow = tf.as_dtype(dtype).as_numpy_dtype
    for number in range(5):
        values = values_of(cluster)
        w, b = (values[key].astype(narrow).astype(np.float32) for key in ("w", "b"))
        data = cluster.model.data("train", "")
        x, y = data.features[number * 8 :][:8], data.labels[number * 8 :][:8]
        loss = cluster.sessions[0].run([cluster.steps[0].worker.loss, *cluster.steps[0].ops.train])[0]
        assert loss == pytest.approx(np.mean((x @ w[:, 0] + b - y) ** 2), rel=1e-5)
    after = values_of(cluster)
    assert after["count"] == 1005
    assert {value.dtype for value in after.values()} == {np.dtype("float32")}
    assert (after["w"].astype(narrow) != after["w"]).any()


class SomeRows(Linear):
    """Looks up few of the rows of an ordinary variable, and has a dense one."""

    def data(self, split, data_dir):
        return Arrays(np.arange(64) % 3, np.zeros(64, np.float32))

    def forward(self, features, training):
        rows = v1.get_variable("rows", [50, 4], initializer=v1.ones_initializer())
        dense = v1.get_variable("dense", [4, 1], initializer=v1.ones_initializer())
        return (tf.gather(rows, features) @ dense)[:, 0]


@each_codec
def test_rows_that_no_example_touches_stay_as_they_are(codec):
    cluster = cluster_of(SomeRows(), push_codec=codec, optimizer="momentum", learning_rate=0.01)
    cluster.train(5)
    rows = values_of(cluster)["rows"]
    assert (rows[:3] != 1).all()
    assert (rows[3:] == 1).all()


@pytest.mark.parametrize("update", [long("async"), "sync"])
@pytest.mark.parametrize("codec", [long("bfloat16"), "int8", long("top_k:0.05,int8")])
@pytest.mark.parametrize("pull", ["bfloat16", "int8"])
@pytest.mark.long
def test_rows_of_tables_travel_encoded(codec, update, pull):
    plain, coded = (
        cluster_of(Bags(), 2 if update == "sync" else 1, update=update, optimizer="adagrad", learning_rate=0.05, **some)
        for some in ({}, {"push_codec": codec, "pull_codec": pull})
    )
    for cluster in (plain, coded):
        cluster.train(10)
    expected, found = values_of(plain), values_of(coded)
    for key, value in expected.items():
        if "Adagrad" not in key:
            assert found[key] == pytest.approx(value, abs=0.05)
            assert not np.array_equal(found[key], value)


class InItsDtype(Fixed):
    """Computes in the dtype of its variables."""

    def forward(self, features, training):
        first = v1.get_variable("first", [WIDTH], initializer=v1.ones_initializer())
        second = v1.get_variable("second", [WIDTH], initializer=v1.ones_initializer())
        return tf.reduce_sum(tf.cast(features, first.dtype) * (first + 0.01 * tf.reverse(second, [0])), 1)


@pytest.mark.parametrize("codec", ["none", "bfloat16"])
@pytest.mark.usual(1)
def test_values_that_travel_in_the_compute_dtype_are_not_cast(codec):
    fields = {"compute_dtype": "bfloat16", "learning_rate": 0.1, "l2": 0.01, "clip_global_norm": 1.0}
    with_pull, without = (
        cluster_of(InItsDtype(), pull_codec=pull, push_codec=codec, **fields) for pull in ("bfloat16", "none")
    )
    for cluster in (with_pull, without):
        cluster.train(4)
    expected = values_of(without)
    for key, value in values_of(with_pull).items():
        assert value.dtype == np.float32
        assert value == pytest.approx(expected[key], abs=1e-3)  # the L2 term is of the rounded values
