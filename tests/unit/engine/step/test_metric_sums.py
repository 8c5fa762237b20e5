"""Totals of metrics over shards: which metrics have some, and that they give the metrics of all examples."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import metrics
from ps_train.data.data_shard import DataShard
from ps_train.engine.step.metric_sums import MetricSums, make_count, make_metric_sums
from ps_train.engine.variables.variables import ps_device
from tests.support.graphs.local import LocalSession

X = np.random.default_rng(1).uniform(1, 6, 30).astype(np.float32)
SHARDS = [X[:7], X[7:7], X[7:]]
KEYS = [v1.GraphKeys.LOCAL_VARIABLES, v1.GraphKeys.METRIC_VARIABLES]


def kept(start: Any, update: Callable[[Any], Any], keys: Any = KEYS) -> Callable[[tf.Tensor, tf.Tensor], Any]:
    """A metric of one variable; `update` is a function of it."""

    def metric(x: tf.Tensor, groups: tf.Tensor) -> Any:
        one = v1.get_variable("kept", initializer=start, trainable=False, collections=keys, use_resource=True)
        return one.read_value(), update(one, x)

    return metric


ZERO, ONE, MUCH = np.float32(0), np.float32(1), np.float32(1e9)

TOTALS = {
    "largest": kept(ZERO, lambda v, x: v.assign(tf.maximum(v, tf.reduce_max(x)))),
    "largest, the other way": kept(ZERO, lambda v, x: v.assign(tf.maximum(tf.reduce_max(x), v.read_value()))),
    "smallest": kept(MUCH, lambda v, x: v.assign(tf.minimum(v, tf.reduce_min(x)))),
    "sum": kept(ZERO, lambda v, x: v.assign(v + tf.reduce_sum(x))),
    "added": kept(ZERO, lambda v, x: v.assign_add(tf.reduce_sum(x))),
    "subtracted": kept(ZERO, lambda v, x: v.assign_sub(tf.reduce_sum(x))),
    "scattered": kept(
        np.zeros(3, np.float32), lambda v, x: v.scatter_add(tf.IndexedSlices(tf.reduce_sum(x)[None], [1]))
    ),
    "largest, scattered": kept(
        np.zeros(3, np.float32), lambda v, x: v.scatter_max(tf.IndexedSlices(tf.reduce_max(x)[None], [2]))
    ),
    "mean": lambda x, groups: v1.metrics.mean(x),
    "auc": lambda x, groups: v1.metrics.auc(x > 3, tf.sigmoid(tf.sin(9 * x))),
    "rows in groups": lambda x, groups: metrics.grouped_auc(x > 3, tf.sin(9 * x), groups),
}

NOT_TOTALS = {
    "last": kept(ZERO, lambda v, x: v.assign(tf.reduce_max(x))),
    "mean": kept(ZERO, lambda v, x: v.assign(v + (tf.reduce_mean(x) - v) / 2)),
    "mean by adding": kept(ZERO, lambda v, x: v.assign_add((tf.reduce_mean(x) - v) / 2)),
    "sum from one": kept(ONE, lambda v, x: v.assign_add(tf.reduce_sum(x))),
    "product": kept(ONE, lambda v, x: v.assign(v * tf.reduce_max(x) / 6)),
    "twice itself": kept(ZERO, lambda v, x: v.assign(v + v)),
    "two writes": kept(
        ZERO, lambda v, x: tf.group(v.assign(tf.maximum(v, tf.reduce_max(x))), v.assign_add(1.0, read_value=False))
    ),
    "in a branch": kept(
        ZERO, lambda v, x: tf.cond(tf.reduce_max(x) > 3, lambda: v.assign_add(1.0), lambda: v.assign(0.0))
    ),
}


class Shard:
    """The metric of one shard in a graph of its own."""

    def __init__(self, metric: Any, index: int, x: np.ndarray, has_own_batches: bool = False, most: int = 4) -> None:
        with tf.Graph().as_default() as graph:
            self.batch = v1.placeholder(tf.float32, [None])
            before = set(v1.local_variables())
            self.value, self.update = metric(self.batch, tf.cast(self.batch, tf.int64) % 2)
            variables = [one for one in v1.local_variables() if one not in before]
            count = make_count()
            self.count = count.assign_add(tf.cast(tf.size(self.batch), tf.float64))
            self.total = count.read_value()
            self.sums = make_metric_sums(count, variables, DataShard(index, len(SHARDS)), has_own_batches)
            local = v1.local_variables_initializer()
        if self.sums is None:
            return
        self.session = LocalSession(graph)
        self.session.run(local)
        for begin in range(0, len(x), most):
            self.session.run([self.update, self.count], {self.batch: x[begin : begin + most]})

    def own(self) -> Any:
        assert self.sums is not None
        self.session.run(self.sums.publish)
        return self.session.run(self.sums.own)


@pytest.mark.parametrize("metric", TOTALS.values(), ids=TOTALS)
def test_the_totals_of_all_shards_give_the_metric_of_all_examples(metric: Any) -> None:
    shards = [Shard(metric, index, x) for index, x in enumerate(SHARDS)]
    whole, (first, *_) = Shard(metric, 0, X), shards
    assert isinstance(first.sums, MetricSums)
    totals = [shard.own() for shard in shards]
    for index, shard in enumerate(shards):
        of_shard = shard.sums.of_shard[index]
        assert {one.device for one in of_shard} == {ps_device(0)} and len(shard.sums.of_shard) == 3
        for published, own in zip(shard.session.run(of_shard), totals[index], strict=True):
            np.testing.assert_array_equal(published, own)
    first.session.run(first.sums.load, first.sums.feeds(totals))
    found, expected = first.session.run([first.value, first.total]), whole.session.run([whole.value, whole.total])
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    assert found[1] == expected[1] == len(X)


@pytest.mark.parametrize("metric", NOT_TOTALS.values(), ids=NOT_TOTALS)
def test_what_may_be_another_thing_than_a_total_has_none_and_a_line_says_so(metric: Any, caplog: Any) -> None:
    with caplog.at_level(logging.INFO):
        assert Shard(metric, 0, X).sums is None
    assert "the metrics' variable kept is not a sum, maximum or minimum" in caplog.text


@pytest.mark.parametrize(
    "metric",
    [
        lambda x, groups: (tf.constant(1.0), tf.no_op()),
        kept(ZERO, lambda v, x: v.assign_add(tf.reduce_sum(x)), [v1.GraphKeys.LOCAL_VARIABLES]),
        kept(np.array(b""), lambda v, x: v.assign("x")),
    ],
    ids=["no variable", "of another collection", "a string"],
)
def test_variables_that_are_no_metrics_have_no_totals(metric: Any) -> None:
    assert Shard(metric, 0, X).sums is None


@pytest.mark.parametrize(
    ("update", "counts"),
    [
        (lambda v, x: v.assign_add(1.0), True),
        (lambda v, x: v.assign(v + 1.0), True),
        (lambda v, x: v.assign_add(0.0), False),
        (lambda v, x: v.assign_add(tf.cast(tf.size(x), tf.float32)), False),
    ],
)
def test_a_number_of_batches_is_no_total_where_shards_have_batches_of_their_own(update: Any, counts: bool) -> None:
    metric = kept(ZERO, update)
    assert Shard(metric, 0, X, has_own_batches=False).sums is not None
    assert (Shard(metric, 0, X, has_own_batches=True).sums is None) == counts


def test_the_count_of_examples_is_a_metric_variable_that_begins_at_zero() -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        count = make_count("mine")
        assert count in v1.get_collection(v1.GraphKeys.METRIC_VARIABLES) and count in v1.local_variables()
        assert (count.op.name, count.dtype, count.trainable) == ("mine", tf.float64, False)
        session.run(v1.local_variables_initializer())
        assert session.run(count) == 0
