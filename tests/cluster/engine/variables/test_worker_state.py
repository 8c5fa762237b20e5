"""Lookup tables and local variables of a model: each worker has its own, in every graph."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.data.pipeline import DataSource
from ps_train.saved.export.export import export, prepare_export
from tests.support.clusters.cluster import InProcessCluster
from tests.support.long import long
from tests.support.models.of_users import (
    CITIES,
    CITY_FILE,
    STEPS,
    UserModel,
    check_export,
    check_scores,
    check_training,
)
from tests.support.saved.serving import served

LOCAL = v1.GraphKeys.LOCAL_VARIABLES


def of_tensors(directory):
    keys, values = tf.constant(["rome", "oslo", "lima"]), tf.constant([2, 0, 1], tf.int64)
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), 3)


def of_a_file(directory):
    return tf.lookup.StaticHashTable(from_file(directory), 3)


def of_buckets(directory):
    return v1.lookup.StaticVocabularyTable(from_file(directory), num_oov_buckets=1)


def from_file(directory):
    (directory / "cities.txt").write_text(CITY_FILE)
    return tf.lookup.TextFileInitializer(
        str(directory / "cities.txt"),
        tf.string,
        tf.lookup.TextFileIndex.WHOLE_LINE,
        tf.int64,
        tf.lookup.TextFileIndex.LINE_NUMBER,
    )


def of_cities(make, directory):
    def forward(x):
        table = make(directory)
        rows = v1.get_variable("rows", [4, 2])
        return tf.reduce_sum(tf.nn.embedding_lookup(rows, table.lookup(x)), 1, keepdims=True)

    return UserModel(forward, words=True)


@pytest.mark.parametrize("make", [long(of_tensors), of_a_file, long(of_buckets)])
def test_words_are_looked_up_in_training_scoring_and_serving(make, tmp_path: pathlib.Path) -> None:
    model = of_cities(make, tmp_path)
    cluster = check_training(model, tmp_path, accumulate=2 if make is of_a_file else 1)
    check_scores(model, cluster)
    expected = check_export(model, cluster, tmp_path)
    assert len(np.unique(expected)) == len(CITIES)


@pytest.mark.long
def test_the_file_of_a_table_is_a_part_of_what_is_exported(tmp_path: pathlib.Path) -> None:
    model = of_cities(of_a_file, tmp_path)
    cluster = check_training(model, tmp_path)
    source = DataSource(lambda: model.data("train", ""))
    export(model, source, cluster.checkpoints.path(STEPS), prepare_export(str(tmp_path / "export")))
    rows = cluster.values()["rows"].sum(axis=1)
    (tmp_path / "cities.txt").unlink()
    found = served(tmp_path, {"features": CITIES})
    for way in ("raw", "parsed"):
        np.testing.assert_allclose(found[f"{way}_outputs"][:, 0], rows, rtol=1e-5)


def counting(x):
    """Adds the number of calls, which each worker counts for itself."""
    calls = v1.get_variable("calls", [], tf.int64, v1.zeros_initializer(), trainable=False, collections=[LOCAL])
    mean, update = v1.metrics.mean(x)
    unread = v1.get_local_variable("given", initializer=tf.constant(7.0))
    with tf.control_dependencies([calls.assign_add(1), update]):
        return x @ v1.get_variable("w", [4, 1]) + 0 * unread + 0 * tf.stop_gradient(mean)


def calls_of(cluster: InProcessCluster, index: int) -> int:
    (variable,) = [v for v in cluster.steps[index].graph.get_collection(LOCAL) if v.op.name == "calls"]
    return int(cluster.sessions[index].run(variable))


@pytest.mark.parametrize("accumulate", [1, long(2)])
def test_local_variables_are_each_workers_own_and_last_as_long_as_it(accumulate: int) -> None:
    model = UserModel(counting)
    cluster = InProcessCluster(model, 2, 2, batch_size=4, accumulate=accumulate)
    cluster.start()
    cluster.train(3)
    cluster.sessions[1].run(cluster.steps[1].ops.train)
    assert [calls_of(cluster, index) for index in (0, 1)] == [3 * accumulate, 4 * accumulate]
    scored = cluster.score()
    assert calls_of(cluster, 0) == 3 * accumulate, "to score is not to train"
    for index in (0, 1):
        cluster.open_again(index)
    assert [calls_of(cluster, index) for index in (0, 1)] == [3 * accumulate, 4 * accumulate]
    assert cluster.score() == scored
    lost = next(v for v in cluster.steps[1].graph.get_collection(LOCAL) if v.op.name == "calls")
    with cluster.steps[1].graph.as_default():
        destroy = tf.raw_ops.DestroyResourceOp(resource=lost.handle)
    cluster.sessions[1].run(destroy)
    cluster.steps[1].local.prepare(cluster.sessions[1])
    assert [calls_of(cluster, index) for index in (0, 1)] == [3 * accumulate, 0]


@pytest.mark.long
def test_a_hook_that_initializes_the_local_variables_leaves_those_of_ps_train() -> None:
    model = UserModel(counting)
    cluster = InProcessCluster(model, 1, 1, batch_size=4, steps_per_run="2", prefetch_pulls=1, push_codec="int8")
    with cluster.steps[0].graph.as_default():
        assert {v.op.name for v in v1.local_variables()} >= {"calls", "given"}
        assert not [v.op.name for v in v1.local_variables() if v.op.name.startswith("ps_train/")]
        initialize = v1.local_variables_initializer()
    cluster.start()
    for _ in range(3):
        cluster.train(2, run=2)
        cluster.sessions[0].run(initialize)
    assert cluster.global_step() == 6 and calls_of(cluster, 0) == 0


def test_a_model_with_local_variables_is_scored_and_served(tmp_path: pathlib.Path) -> None:
    model = UserModel(counting)
    cluster = check_training(model, tmp_path)
    check_scores(model, cluster)
    check_export(model, cluster, tmp_path)


@pytest.mark.long
def test_a_variable_of_the_metrics_alone_is_local_and_the_models_own_are_theirs(tmp_path: pathlib.Path) -> None:
    def metrics(outputs, labels):
        with v1.variable_scope("", reuse=True):
            norm = tf.reduce_sum(tf.square(v1.get_variable("w", [4, 1])))
        longest = v1.get_variable("longest", [], initializer=v1.zeros_initializer(), trainable=False)
        update = longest.assign(tf.maximum(longest, tf.reduce_max(outputs)))
        most = tf.Variable(0.0, trainable=False)
        return {"norm": (norm, norm), "longest": (longest.read_value(), update), "most": (most.read_value(), most)}

    model = UserModel(lambda x: x @ v1.get_variable("w", [4, 1]), metrics=metrics)
    cluster = check_training(model, tmp_path)
    scored = check_scores(model, cluster)
    np.testing.assert_allclose(scored["norm"], np.sum(cluster.values()["w"] ** 2), rtol=1e-5)
    outputs = model.data("test", "").features @ cluster.values()["w"]
    np.testing.assert_allclose(scored["longest"], outputs.max(), rtol=1e-5)
    assert "longest" not in cluster.values()
