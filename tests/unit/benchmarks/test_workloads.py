"""All contenders share the same data, and models of the size that they claim."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from benchmarks import workloads
from benchmarks.errors import UsageError

OF_TABLES = ("big", "lookup", "lookup_small", "rows")


@pytest.mark.parametrize("name", [name for name in workloads.names() if name not in OF_TABLES])
def test_a_workload_has_as_many_parameters_as_it_says(name: str):
    workload = workloads.load(name)
    with tf.Graph().as_default():
        workload.forward(v1.placeholder(tf.float32, [None, workload.inputs]), training=True)
        assert sum(math.prod(one.shape.as_list()) for one in v1.trainable_variables()) == workload.parameters


@pytest.mark.parametrize("name", ["lookup", "lookup_small"])
def test_a_step_of_tables_needs_as_many_numbers_as_the_workload_says(name: str):
    workload = workloads.load(name)
    ids = workload.data("train", "").features[: workload.batch_size]
    rows = sum(len(np.unique(field)) for field in ids.T)
    with tf.Graph().as_default():
        workload.peers_forward(v1.placeholder(tf.int64, [None, workload.inputs]), training=True)
        shapes = [one.shape.as_list() for one in v1.trainable_variables() if "table" not in one.op.name]
    dense = sum(math.prod(shape) for shape in shapes)
    assert workload.parameters == pytest.approx(dense + rows * 16, rel=0.02)


def test_wide_is_made_of_many_small_variables():
    workload = workloads.load("wide")
    with tf.Graph().as_default():
        workload.forward(v1.placeholder(tf.float32, [None, workload.inputs]), training=True)
        assert len(v1.trainable_variables()) == 102


def test_all_contenders_get_the_same_data_and_test_data_of_the_same_kind():
    workload = workloads.load("tiny")
    one, two, test = workload.data("train", ""), workload.data("train", ""), workload.data("test", "")
    np.testing.assert_array_equal(one.features, two.features)
    np.testing.assert_array_equal(one.labels, two.labels)
    assert one.features.dtype == np.float32 and not np.array_equal(one.features[: len(test)], test.features)
    # The nearest mean of the training classes must say much of the test labels; a fifth of them is random.
    means = np.stack([one.features[one.labels == label].mean(0) for label in range(workload.classes)])
    nearest = np.argmin(((test.features[:, None] - means[None]) ** 2).sum(2), 1)
    assert (nearest == test.labels).mean() > 0.6


def test_an_unknown_workload_is_refused_with_those_that_are_known():
    known = "big, cnn, large, lookup, lookup_small, rows, sleeper, small, starting, tiny, wide"
    with pytest.raises(UsageError, match=known):
        workloads.load("none")
