"""Totals of metrics over the shards of the test data, against the metrics of all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.data.data_shard import DataShard
from ps_train.engine.step import metric_sums
from ps_train.engine.step.metric_sums import make_count, make_metric_sums

X = np.array([1.0, 5.0, 2.0, 8.0, 3.0, 3.0, 7.0])
SHARDS = [X[:3], X[3:]]
Metric = Callable[[tf.Tensor], tuple[tf.Tensor, Any]]


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(metric_sums, "ps_device", lambda ps: "")
    with tf.Graph().as_default():
        yield


def own_variable(initial: float, change: Callable[[Any, tf.Tensor], Any]) -> Metric:
    def metric(x: tf.Tensor) -> tuple[tf.Tensor, Any]:
        collections = [v1.GraphKeys.LOCAL_VARIABLES, v1.GraphKeys.METRIC_VARIABLES]
        kept = v1.Variable(
            tf.constant(initial, tf.float64), trainable=False, collections=collections, use_resource=True
        )
        return kept.read_value(), change(kept, x)

    return metric


METRICS: dict[str, Metric] = {
    "mean": v1.metrics.mean,
    "largest": own_variable(-1e9, lambda v, x: v.assign(tf.maximum(v.read_value(), tf.reduce_max(x)))),
    "smallest": own_variable(1e9, lambda v, x: v.assign(tf.minimum(v.read_value(), tf.reduce_min(x)))),
    "sum": own_variable(0.0, lambda v, x: v.assign_add(tf.reduce_sum(x))),
}
RIGHT = {"mean": X.mean(), "largest": 8.0, "smallest": 1.0, "sum": X.sum()}


@pytest.mark.parametrize("name", METRICS)
def test_the_totals_of_all_shards_give_the_metric_of_all_examples(name: str) -> None:
    x = v1.placeholder(tf.float64, [None])
    count = make_count()
    with tf.control_dependencies([count.assign_add(tf.cast(tf.size(x), tf.float64))]):
        batch = tf.identity(x)
    value, update = METRICS[name](batch)
    variables = [one for one in v1.local_variables() if one is not count]
    sums = make_metric_sums(count, variables, DataShard(1, 2))
    assert sums is not None
    totals = []
    with v1.Session() as session:
        for number, shard in enumerate(SHARDS):
            session.run([v1.local_variables_initializer(), v1.global_variables_initializer()])
            session.run(update, {x: shard})
            totals.append(session.run(sums.own))
            if number == 1:  # of the shard that this graph scores
                session.run(sums.publish)
                np.testing.assert_array_equal(session.run(sums.of_shard[1])[0], totals[1][0])
        session.run(sums.load, sums.feeds(totals))
        assert session.run(value) == pytest.approx(RIGHT[name]) and session.run(count) == len(X)


@pytest.mark.parametrize(
    "change",
    [
        lambda v, x: v.assign(tf.reduce_sum(x)),  # the last batch alone
        lambda v, x: v.assign_add(v.read_value() + tf.reduce_sum(x)),  # depends on what was there
        lambda v, x: tf.group(v.assign_add(tf.reduce_sum(x)), v.assign(tf.maximum(v.read_value(), x[0]))),
    ],
)
def test_what_cannot_be_put_together_is_scored_by_the_chief_alone(change: Any) -> None:
    x, count = v1.placeholder(tf.float64, [None]), make_count()
    own_variable(0.0, change)(x)
    assert make_metric_sums(count, [one for one in v1.local_variables() if one is not count], DataShard(0, 2)) is None


def test_a_sum_that_does_not_begin_at_zero_would_count_its_beginning_twice() -> None:
    x, count = v1.placeholder(tf.float64, [None]), make_count()
    own_variable(1.0, lambda v, x: v.assign_add(tf.reduce_sum(x)))(x)
    assert make_metric_sums(count, v1.local_variables()[1:], DataShard(0, 2)) is None


@pytest.mark.parametrize("has_own_batches", [True, False])
def test_a_mean_over_batches_depends_on_them(has_own_batches: bool) -> None:
    x, count = v1.placeholder(tf.float64, [None]), make_count()
    v1.metrics.mean(tf.reduce_sum(x))  # its count grows by 1 for each batch
    found = make_metric_sums(count, v1.local_variables()[1:], DataShard(0, 2), has_own_batches)
    assert (found is None) is has_own_batches


def test_without_metrics_there_is_nothing_to_put_together() -> None:
    count = make_count()
    assert make_metric_sums(count, [], DataShard(0, 2)) is None
    other = v1.Variable(0.0, collections=[v1.GraphKeys.LOCAL_VARIABLES], use_resource=True)
    assert make_metric_sums(count, [other], DataShard(0, 2)) is None
