"""An encoded push takes few bytes on the wire, and its header is exact."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays, Model
from ps_train.base.process_stats import ProcessStats
from tests.support.clusters.coded import WIDTH, Fixed, cluster_of, finish, values_of
from tests.support.long import long

each_codec = pytest.mark.parametrize(
    "codec", [long("bfloat16"), long("float16"), "int8", long("top_k:0.05"), long("top_k:0.05,int8")]
)


class Pushed(Model):
    """Much to push and pull, and little to compute."""

    def data(self, split, data_dir):
        return Arrays(np.ones((64, 1), np.float32), np.zeros(64, np.float32))

    def forward(self, features, training):
        shapes = {"large": [400, 1000], "small": [300, 100], "odd": [7, 13]}
        noise = [
            tf.reduce_sum(v1.get_variable(name, shape) * tf.random.stateless_normal(shape, [1, number]))
            for number, (name, shape) in enumerate(shapes.items())
        ]
        return features[:, 0] * tf.add_n(noise)

    def loss(self, outputs, labels):
        return tf.reduce_mean(outputs - labels)


def bytes_of(steps=20, **fields):
    """Bytes that one worker and one ps send in so many steps, by the counters of the kernel."""
    cluster = cluster_of(Pushed(), num_ps=1, learning_rate=1e-6, **fields)
    cluster.train(2)
    stats = ProcessStats()
    before = stats.read()["sent_bytes"]
    cluster.train(steps)
    return stats.read()["sent_bytes"] - before


@pytest.mark.long
@pytest.mark.parametrize("update", ["async", long("sync")])
def test_the_wire_carries_the_small_type(update):
    whole = bytes_of(update=update) / 2  # each way
    assert whole > 20 * 4 * 430_000
    assert bytes_of(update=update, pull_codec="bfloat16", push_codec="bfloat16") / 2 <= 0.52 * whole
    assert bytes_of(update=update, pull_codec="int8") - whole <= 0.28 * whole
    for codec, share in {"float16": 0.52, "int8": 0.28, "top_k:0.01": 0.03, "top_k:0.01,int8": 0.02}.items():
        assert bytes_of(update=update, push_codec=codec) - whole <= share * whole, codec


class Uneven(Fixed):
    """2,000 examples, of which a batch has more than bfloat16 can count exactly."""

    def data(self, split, data_dir):
        return Arrays(np.ones((2000, WIDTH), np.float32), np.zeros(2000, np.float32))


@pytest.mark.parametrize("update", [long("async"), "sync"])
def test_examples_are_counted_exactly(update):
    cluster = cluster_of(Uneven(), update=update, batch_size=777, push_codec="bfloat16", pull_codec="bfloat16")
    cluster.train(5)
    assert cluster.sessions[0].run(cluster.steps[0].ps.counters.examples) == 5 * 777


class SometimesNan(Fixed):
    def data(self, split, data_dir):
        found = super().data(split, data_dir)
        found.features[8:16, 0] = np.nan  # the second batch
        return found


@each_codec
def test_a_skipped_gradient_leaves_no_trace(codec):
    cluster = cluster_of(SometimesNan(), push_codec=codec, on_nan="skip", num_ps=1)
    plain = cluster_of(SometimesNan(), on_nan="skip", num_ps=1)
    for one in (cluster, plain):
        one.train(6)
    finish(cluster)
    assert cluster.sessions[0].run(cluster.steps[0].ps.counters.skipped) == 1
    for key, value in values_of(cluster).items():
        assert value == pytest.approx(values_of(plain)[key], abs=2e-5)


class Computes16(Fixed):
    """A model that computes in the dtype of its variables."""

    def forward(self, features, training):
        first = v1.get_variable("first", [WIDTH], initializer=v1.ones_initializer())
        second = v1.get_variable("second", [WIDTH], initializer=v1.ones_initializer())
        return tf.reduce_sum(tf.cast(features, first.dtype) * (first + tf.reverse(second, [0])), 1)


def left_out(cluster):
    """Whether the end of the training changes any value by what the pushes have left out."""
    before = values_of(cluster)
    finish(cluster)
    return any(not np.array_equal(value, before[name]) for name, value in values_of(cluster).items())


def test_a_gradient_that_was_computed_in_the_dtype_that_travels_arrives_as_it_was():
    clusters = [cluster_of(Computes16(), push_codec=c, compute_dtype="bfloat16") for c in ("none", "bfloat16")]
    for cluster in clusters:
        cluster.train(5)
    plain, encoded = map(values_of, clusters)
    assert all(np.array_equal(plain[name], encoded[name]) for name in plain)
    assert not left_out(clusters[1])


def residuals_written(compute_dtype):
    """How many operations of the graph write a residual: one gives it its first value, others are the step's."""
    cluster = cluster_of(Computes16(), push_codec="bfloat16", compute_dtype=compute_dtype)
    ops = cluster.steps[0].graph.get_operations()
    return sum("Assign" in op.type and "/residual_" in op.inputs[0].name for op in ops)


@pytest.mark.long
def test_a_gradient_that_arrives_as_it_was_costs_no_residual():
    assert residuals_written("bfloat16") < residuals_written("float32")


@pytest.mark.long
@pytest.mark.parametrize(
    "fields", [{"accumulate": 3}, long({"clip_value": 0.01}), long({"l2": 0.1}), long({"update": "sync"})]
)
def test_a_gradient_that_was_changed_after_that_leaves_a_residual(fields):
    cluster = cluster_of(Computes16(), push_codec="bfloat16", compute_dtype="bfloat16", **{"batch_size": 7, **fields})
    cluster.train(5)
    assert left_out(cluster)
