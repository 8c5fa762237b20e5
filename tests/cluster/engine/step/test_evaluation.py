"""Shares of the test data, scored apart, have together the metrics of all of it."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays
from ps_train.data.data_shard import DataShard
from ps_train.engine.step.evaluation import metric_values, run_batches
from ps_train.models.clicks.synthetic import write_files
from ps_train.models.criteo import WideAndDeep
from ps_train.models.digits import Digits
from tests.support.cluster import InProcessCluster
from tests.support.long import long
from tests.support.models import Linear


class Clicks(WideAndDeep):
    def __init__(self, directory: str) -> None:
        super().__init__(buckets=300)
        self.directory = directory

    def data(self, split, data_dir):
        return super().data(split, self.directory)


class Everything(Digits):
    """Metrics of many kinds."""

    def metrics(self, outputs, labels):
        best = tf.argmax(outputs, axis=1)
        return {
            **super().metrics(outputs, labels),
            "by_class": v1.metrics.mean_per_class_accuracy(labels, best, 10),
            "rms": v1.metrics.root_mean_squared_error(labels, tf.cast(best, labels.dtype)),
            "precision": v1.metrics.precision(labels > 4, best > 4),
        }


def together(cluster: InProcessCluster, count: int) -> dict[str, float]:
    """Share 0 by worker 0, the others by worker 1, which hands them in."""
    for index in range(1, count):
        session, scoring = cluster.scoring(DataShard(index, count), worker=1)
        run_batches(session, scoring)
        session.run(scoring.metric_sums.publish)
    session, scoring = cluster.scoring(DataShard(0, count))
    run_batches(session, scoring)
    totals = scoring.metric_sums
    session.run(totals.load, {totals.feed: totals.merged(session.run([totals.vector, *totals.of_shard[1:]]))})
    return metric_values(session, scoring)


@pytest.mark.long
@pytest.mark.parametrize("count", [2, long(4)])
def test_metrics_of_clicks_are_those_of_the_whole_stream(tmp_path: pathlib.Path, count: int) -> None:
    write_files(str(tmp_path), lines=3_000)
    cluster = InProcessCluster(Clicks(str(tmp_path)), 2, 2, batch_size=128)
    cluster.start()
    cluster.train(10)
    whole = cluster.score()
    assert together(cluster, count) == pytest.approx(whole, abs=1e-6)
    assert sorted(whole) == ["auc", "calibration", "log_loss"]


@pytest.mark.long
def test_tensorflows_metrics_are_those_of_all_arrays() -> None:
    cluster = InProcessCluster(Everything(), 1, 2)
    cluster.start()
    cluster.train(20)
    whole = cluster.score()
    assert together(cluster, 3) == pytest.approx(whole, abs=1e-6)
    assert 0.2 < whole["by_class"] < 1 and whole["rms"] > 0, whole


def test_what_may_be_no_sum_is_not_shared() -> None:
    class Longest(Digits):
        def metrics(self, outputs, labels):
            longest = v1.get_local_variable("longest", initializer=0.0)
            update = longest.assign(tf.maximum(longest, tf.reduce_max(outputs)))
            return {"longest": (longest.read_value(), update)}

    cluster = InProcessCluster(Longest(), 1, 1)
    cluster.start()
    _, scoring = cluster.scoring()
    assert scoring.metric_sums is None and cluster.score()["longest"] > 0


def pair(name: str, start: object, update: object) -> tuple[tf.Tensor, tf.Tensor]:
    """A metric of one variable in METRIC_VARIABLES, with what `update` returns for it."""
    keys = [v1.GraphKeys.LOCAL_VARIABLES, v1.GraphKeys.METRIC_VARIABLES]
    variable = v1.get_variable(name, initializer=start, trainable=False, collections=keys)
    return variable.read_value(), update(variable)


class Numbers(Linear):
    """The features are numbers; example 1003 of 1007 is the largest, so the shards have uneven shares."""

    def __init__(self, metrics) -> None:
        self._metrics = metrics

    def data(self, split, data_dir):
        numbers = np.random.default_rng(1).uniform(1, 6, size=(1007, 1)).astype(np.float32)
        numbers[1003], numbers[1] = 7.0, 0.5
        return Arrays(numbers, np.round(numbers[:, 0]).astype(np.float32))

    def forward(self, features, training):
        return features[:, 0] + 0.0 * v1.get_variable("w", [])

    def metrics(self, outputs, labels):
        return self._metrics(outputs, labels)


def scored(metrics, count: int) -> tuple[dict[str, float], dict[str, float]]:
    """The metrics of shards together, and of the whole at once."""
    cluster = InProcessCluster(Numbers(metrics), 1, 2)
    cluster.start()
    return together(cluster, count), cluster.score()


def kept(outputs, labels):
    x = outputs
    zero, one = np.float32(0), np.float32(1e9)
    return {
        "largest": pair("largest", zero, lambda v: v.assign(tf.maximum(v, tf.reduce_max(x)))),
        "largest_read": pair(
            "largest_read", zero, lambda v: v1.assign(v, tf.maximum(tf.reduce_max(x), v.read_value()))
        ),
        "smallest": pair("smallest", one, lambda v: v.assign(tf.minimum(v, tf.reduce_min(x)))),
        "sum": pair("sum", zero, lambda v: v.assign(v + tf.reduce_sum(x))),
        "added": pair("added", zero, lambda v: v.assign_add(tf.reduce_sum(x))),
        "less": pair("less", zero, lambda v: v.assign_sub(tf.reduce_sum(x))),
    }


@pytest.mark.usual(1)
@pytest.mark.parametrize("count", [2, 3])
def test_a_maximum_a_minimum_and_a_sum_are_put_together_as_such(count: int) -> None:
    found, whole = scored(kept, count)
    numbers = Numbers(None).data("test", "").features
    total = pytest.approx(float(numbers.sum(dtype=np.float64)), rel=1e-5)
    assert found["largest"] == found["largest_read"] == 7.0 and found["smallest"] == 0.5
    assert found["sum"] == found["added"] == -found["less"] == total
    assert whole == pytest.approx(found, rel=1e-5)


NOT_TOTALS = {
    "last": lambda x: pair("a", np.float32(0), lambda v: v.assign(tf.reduce_max(x))),
    "mean": lambda x: pair("a", np.float32(0), lambda v: v.assign(v + (tf.reduce_mean(x) - v) / 2)),
    "mean by adding": lambda x: pair("a", np.float32(0), lambda v: v.assign_add((tf.reduce_mean(x) - v) / 2)),
    "sum from one": lambda x: pair("a", np.float32(1), lambda v: v.assign_add(tf.reduce_sum(x))),
    "product": lambda x: pair("a", np.float32(1), lambda v: v.assign(v * tf.reduce_max(x) / 6)),
    "largest sum": lambda x: pair(
        "a", np.float32(0), lambda v: tf.group(v.assign(tf.maximum(v, tf.reduce_max(x))), v.assign_add(1.0))
    ),
    "in a branch": lambda x: pair(
        "a", np.float32(0), lambda v: tf.cond(tf.reduce_max(x) > 3, lambda: v.assign_add(1.0), lambda: v.assign(0.0))
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", NOT_TOTALS)
def test_another_assignment_is_scored_by_the_chief_alone(name: str) -> None:
    cluster = InProcessCluster(Numbers(lambda outputs, labels: {"a": NOT_TOTALS[name](outputs)}), 1, 1)
    cluster.start()
    _, scoring = cluster.scoring()
    assert scoring.metric_sums is None


def of_tensorflow(outputs, labels):
    """Every metric of tf.compat.v1.metrics whose value is one number or can be made one."""
    m, total = v1.metrics, tf.reduce_sum
    truth, guess, whole = labels > 3, outputs > 3.2, tf.cast(outputs, tf.int64)
    parts, ids = tf.sigmoid(outputs - 3), tf.cast(labels, tf.int64)
    scores = tf.one_hot(whole % 8, 8) + tf.sin(tf.range(8.0) * outputs[:, None]) * 0.6
    near = [0.2, 0.5, 0.8]
    pairs = {
        "accuracy": m.accuracy(ids, whole),
        "auc": m.auc(truth, parts),
        "average_precision_at_k": m.average_precision_at_k(ids[:, None], scores, 3),
        "false_negatives": m.false_negatives(truth, guess),
        "false_negatives_at": m.false_negatives_at_thresholds(truth, parts, near),
        "false_positives": m.false_positives(truth, guess),
        "false_positives_at": m.false_positives_at_thresholds(truth, parts, near),
        "mean": m.mean(outputs),
        "mean_absolute_error": m.mean_absolute_error(labels, outputs),
        "mean_cosine_distance": m.mean_cosine_distance(scores, tf.one_hot(ids % 8, 8), 1),
        "mean_iou": m.mean_iou(ids, whole, 9),
        "mean_per_class_accuracy": m.mean_per_class_accuracy(ids, whole, 9),
        "mean_relative_error": m.mean_relative_error(labels, outputs, labels + 1),
        "mean_squared_error": m.mean_squared_error(labels, outputs),
        "mean_tensor": m.mean_tensor(tf.reduce_mean(scores, 0)),
        "percentage_below": m.percentage_below(outputs, 3.0),
        "precision": m.precision(truth, guess),
        "precision_at_k": m.precision_at_k(ids[:, None], scores, 2),
        "precision_at_thresholds": m.precision_at_thresholds(truth, parts, near),
        "precision_at_top_k": m.precision_at_top_k(ids[:, None], tf.math.top_k(scores, 2).indices, 2),
        "recall": m.recall(truth, guess),
        "recall_at_k": m.recall_at_k(ids[:, None], scores, 2),
        "recall_at_thresholds": m.recall_at_thresholds(truth, parts, near),
        "recall_at_top_k": m.recall_at_top_k(ids[:, None], tf.math.top_k(scores, 2).indices, 2),
        "root_mean_squared_error": m.root_mean_squared_error(labels, outputs),
        "sensitivity_at_specificity": m.sensitivity_at_specificity(truth, parts, 0.5),
        "sparse_average_precision": m.sparse_average_precision_at_k(ids[:, None], scores, 3),
        "sparse_precision": m.sparse_precision_at_k(ids[:, None], scores, 2),
        "specificity_at_sensitivity": m.specificity_at_sensitivity(truth, parts, 0.5),
        "true_negatives": m.true_negatives(truth, guess),
        "true_negatives_at": m.true_negatives_at_thresholds(truth, parts, near),
        "true_positives": m.true_positives(truth, guess),
        "true_positives_at": m.true_positives_at_thresholds(truth, parts, near),
    }
    return {name: (total(value), update) for name, (value, update) in pairs.items()}


@pytest.mark.long
def test_every_metric_of_tensorflow_is_put_together_rightly() -> None:
    found, whole = scored(of_tensorflow, 3)
    # The mean of the batches' means weighs the batches alike; three shards have other batches.
    del found["mean_tensor"], whole["mean_tensor"]
    assert found == pytest.approx(whole, rel=1e-5, abs=1e-6)
    assert sum(value != 0 for value in found.values()) >= len(found) - 1, found
