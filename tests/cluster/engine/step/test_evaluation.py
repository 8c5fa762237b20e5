"""Shares of the test data, scored apart, have together the metrics of all of it."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays, metrics
from ps_train.data.data_shard import DataShard
from ps_train.data.stream import Stream
from ps_train.engine.step.evaluation import metric_values, run_batches
from ps_train.models.clicks.synthetic import write_files
from ps_train.models.criteo import WideAndDeep
from ps_train.models.digits import Digits
from ps_train.training.joining.model_check import check_metrics
from tests.support.clusters.cluster import InProcessCluster
from tests.support.long import long
from tests.support.models.small import Linear


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
    session.run(totals.load, totals.feeds(session.run([totals.own, *totals.of_shard[1:]])))
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


NEAR = [0.2, 0.5, 0.8]

OF_TENSORFLOW = {
    "accuracy": lambda y: v1.metrics.accuracy(y.ids, y.guesses),
    "auc": lambda y: v1.metrics.auc(y.truth, y.chance),
    "average_precision_at_k": lambda y: v1.metrics.average_precision_at_k(y.ids[:, None], y.scores, 3),
    "false_negatives": lambda y: v1.metrics.false_negatives(y.truth, y.guess),
    "false_negatives_at_thresholds": lambda y: v1.metrics.false_negatives_at_thresholds(y.truth, y.chance, NEAR),
    "false_positives": lambda y: v1.metrics.false_positives(y.truth, y.guess),
    "false_positives_at_thresholds": lambda y: v1.metrics.false_positives_at_thresholds(y.truth, y.chance, NEAR),
    "mean": lambda y: v1.metrics.mean(y.x),
    "mean_absolute_error": lambda y: v1.metrics.mean_absolute_error(y.labels, y.x),
    "mean_cosine_distance": lambda y: v1.metrics.mean_cosine_distance(y.scores, tf.one_hot(y.ids % 8, 8), 1),
    "mean_iou": lambda y: v1.metrics.mean_iou(y.ids, y.guesses, 9),
    "mean_per_class_accuracy": lambda y: v1.metrics.mean_per_class_accuracy(y.ids, y.guesses, 9),
    "mean_relative_error": lambda y: v1.metrics.mean_relative_error(y.labels, y.x, y.labels + 1),
    "mean_squared_error": lambda y: v1.metrics.mean_squared_error(y.labels, y.x),
    "mean_tensor": lambda y: v1.metrics.mean_tensor(tf.stack([tf.reduce_mean(y.x), tf.reduce_max(y.x)])),
    "percentage_below": lambda y: v1.metrics.percentage_below(y.x, 3.0),
    "precision": lambda y: v1.metrics.precision(y.truth, y.guess),
    "precision_at_k": lambda y: v1.metrics.precision_at_k(y.ids[:, None], y.scores, 2),
    "precision_at_thresholds": lambda y: v1.metrics.precision_at_thresholds(y.truth, y.chance, NEAR),
    "precision_at_top_k": lambda y: v1.metrics.precision_at_top_k(y.ids[:, None], y.best, 2),
    "recall": lambda y: v1.metrics.recall(y.truth, y.guess),
    "recall_at_k": lambda y: v1.metrics.recall_at_k(y.ids[:, None], y.scores, 2),
    "recall_at_thresholds": lambda y: v1.metrics.recall_at_thresholds(y.truth, y.chance, NEAR),
    "recall_at_top_k": lambda y: v1.metrics.recall_at_top_k(y.ids[:, None], y.best, 2),
    "root_mean_squared_error": lambda y: v1.metrics.root_mean_squared_error(y.labels, y.x),
    "sensitivity_at_specificity": lambda y: v1.metrics.sensitivity_at_specificity(y.truth, y.chance, 0.5),
    "sparse_average_precision_at_k": lambda y: v1.metrics.sparse_average_precision_at_k(y.ids[:, None], y.scores, 3),
    "sparse_precision_at_k": lambda y: v1.metrics.sparse_precision_at_k(y.ids[:, None], y.scores, 2),
    "specificity_at_sensitivity": lambda y: v1.metrics.specificity_at_sensitivity(y.truth, y.chance, 0.5),
    "true_negatives": lambda y: v1.metrics.true_negatives(y.truth, y.guess),
    "true_negatives_at_thresholds": lambda y: v1.metrics.true_negatives_at_thresholds(y.truth, y.chance, NEAR),
    "true_positives": lambda y: v1.metrics.true_positives(y.truth, y.guess),
    "true_positives_at_thresholds": lambda y: v1.metrics.true_positives_at_thresholds(y.truth, y.chance, NEAR),
}
"""Every function of tf.compat.v1.metrics."""


class Example:
    """The arguments of the metrics, all made of one number and its label."""

    def __init__(self, x, labels) -> None:
        x = x + 1.2 * tf.sin(x * 37)
        self.x, self.labels = x, labels
        self.truth, self.guess, self.guesses = labels > 3, x > 3.2, tf.cast(x, tf.int64)
        self.ids, self.chance = tf.cast(labels, tf.int64), tf.sigmoid(x - 3)
        self.scores = tf.one_hot(self.guesses % 8, 8) + tf.sin(tf.range(8.0) * x[:, None]) * 0.6
        self.best = tf.math.top_k(self.scores, 2).indices


def own(y: Example) -> dict[str, object]:
    """The metrics of ps_train; some groups are in several shards, and others in one."""
    groups, names = tf.cast(y.x * 40, tf.int64), tf.strings.as_string(y.x, 1)
    truth = tf.cast(y.truth, tf.float32)
    relevance = tf.nn.relu(y.labels - 2)
    return {
        **metrics.of_clicks(truth, y.x - 3),
        "normalized_entropy": metrics.normalized_entropy(truth, y.x - 3),
        **metrics.calibration_bins(truth, y.chance, 7),
        "grouped_auc": metrics.grouped_auc(truth, tf.sin(y.x * 9), names),
        "precision_at": metrics.precision_at(truth, tf.sin(y.x * 9), names, 3),
        "recall_at": metrics.recall_at(truth, tf.sin(y.x * 9), names, 2),
        "ndcg_at": metrics.ndcg_at(relevance, tf.cos(y.x * 9), names, 3),
        "sampled": metrics.grouped_auc(truth, tf.sin(y.x * 9), groups, max_rows=200),
    }


class Uneven(Stream):
    """Of three shards one is empty, and one has labels of one class, in batches of several sizes."""

    def chunks(self, shard, seed):
        arrays = Numbers(None).data("test", "")
        features, labels = arrays.features, arrays.labels
        high = np.flatnonzero(labels > 3)
        parts = [np.setdiff1d(np.arange(len(labels)), high[:100]), np.array([], int), high[:100]]
        rows = np.arange(len(labels)) if shard.count == 1 else parts[shard.index]
        return tf.data.Dataset.from_tensor_slices((features[rows], labels[rows])).batch(300)


class UnevenNumbers(Numbers):
    def data(self, split, data_dir):
        return Uneven() if split == "test" else super().data(split, data_dir)


def every_of_tensorflow(y: Example) -> dict[str, object]:
    """All but the one that is a mean over batches: see the test below."""
    return {name: make(y) for name, make in OF_TENSORFLOW.items() if name != "mean_tensor"}


@pytest.mark.parametrize("every", [own, long(every_of_tensorflow)])
def test_every_metric_of_uneven_empty_and_one_class_shards_is_that_of_all_examples(every) -> None:
    def checked(outputs, labels):
        found = every(Example(outputs, labels))
        check_metrics(found)
        return found

    cluster = InProcessCluster(UnevenNumbers(checked), 1, 2)
    cluster.start()
    found, whole = together(cluster, 3), cluster.score()
    assert found == pytest.approx(whole, rel=1e-6, abs=1e-6)
    assert sum(value != 0 for value in found.values()) > len(found) - 3, found


def means_over_batches(outputs, labels):
    y = Example(outputs, labels)
    sizes = tf.cast(tf.size(y.x), tf.float32)
    return {
        "mean_tensor": OF_TENSORFLOW["mean_tensor"](y),
        "mean": v1.metrics.mean(tf.reduce_mean(y.x)),
        "by_examples": v1.metrics.mean_tensor(tf.reduce_mean(y.x), weights=sizes),
    }


@pytest.mark.parametrize("count", [2, long(5)])
def test_a_mean_over_batches_is_that_of_the_batches_of_one_process(count: int) -> None:
    class ManyNumbers(Numbers):
        def data(self, split, data_dir):
            arrays = super().data(split, data_dir)
            return Arrays(np.tile(arrays.features, (2, 1)), np.tile(arrays.labels, 2))

    cluster = InProcessCluster(ManyNumbers(means_over_batches), 1, 2)
    cluster.start()
    found, whole = together(cluster, count), cluster.score()
    assert found == pytest.approx(whole, rel=1e-6)
    assert whole["mean"] != pytest.approx(whole["by_examples"], rel=1e-5)


def test_a_mean_over_the_batches_of_a_stream_is_scored_by_the_chief_alone() -> None:
    cluster = InProcessCluster(UnevenNumbers(means_over_batches), 1, 1)
    cluster.start()
    assert cluster.scoring()[1].metric_sums is None


def test_every_metric_of_tensorflow_is_tested() -> None:
    assert {name for name in dir(v1.metrics) if not name.startswith("_")} == set(OF_TENSORFLOW)
