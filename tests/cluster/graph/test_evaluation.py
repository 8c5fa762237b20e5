"""Shares of the test data, scored apart, have together the metrics of all of it."""

from __future__ import annotations

import pathlib

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.data.data_shard import DataShard
from ps_train.graph.evaluation import metric_values, run_batches
from ps_train.models.clicks.synthetic import write_files
from ps_train.models.criteo import WideAndDeep
from ps_train.models.digits import Digits
from tests.support.cluster import InProcessCluster
from tests.support.long import long


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
    total = sum(session.run([totals.vector, *totals.of_shard[1:]]))
    session.run(totals.load, {totals.feed: total})
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
