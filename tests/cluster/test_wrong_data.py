"""Data that no training can use end the job with a line that names them, not the learning rate."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

import ps_train
from ps_train.base.errors import EXIT_CONFIG, DataError, DivergedError
from tests.support.clusters.cluster import InProcessCluster
from tests.support.clusters.loops import SharedBudget, run_worker

BATCH = 4


class Classes(ps_train.Model):
    """Three classes of two features; a dataset where one is asked for."""

    def __init__(self, age, classes, weight=1.0, as_dataset=False):
        self._features = {"age": np.float32(age), "height": np.ones(len(age), np.float32)}
        self._classes, self._weight, self._as_dataset = np.int64(classes), weight, as_dataset

    def data(self, split, data_dir):
        labels = {"kind": self._classes, "weight": np.full(len(self._classes), self._weight, np.float32)}
        if self._as_dataset:
            return tf.data.Dataset.from_tensor_slices((self._features, labels))
        return ps_train.Arrays(self._features, labels)

    def forward(self, features, training):
        return tf.stack([features["age"], features["height"]], 1) @ v1.get_variable("w", [2, 3])

    def loss(self, outputs, labels):
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels["kind"], logits=outputs)
        return tf.reduce_mean(losses * labels["weight"])


def error_of(model, kind, num_ps=1, **fields):
    """The error of a training that begins with two good batches."""
    cluster = InProcessCluster(model, num_ps, 1, optimizer="sgd", batch_size=BATCH, shuffle_buffer=0, **fields)
    cluster.start()
    with pytest.raises(kind) as caught:
        run_worker(cluster, 0, SharedBudget(100), lambda: False)
    assert cluster.global_step() == 2, "the third batch is the bad one"
    assert "\n" not in str(caught.value)
    return caught.value


def third_batch(bad, good=1):
    return [good] * (2 * BATCH + 1) + [bad] + [good] * 30


@pytest.mark.parametrize("as_dataset", [False, True])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_value_that_is_not_finite_is_named_in_the_last_line(value, as_dataset):
    age = third_batch(value)
    error = error_of(Classes(age, [1] * len(age), as_dataset=as_dataset), DivergedError)
    assert "its batch holds NaN or infinite values (1 in feature age); correct the data" in str(error)
    assert "learning_rate" not in str(error)


def test_several_inputs_that_are_not_finite_are_counted_on_two_ps():
    age = third_batch(np.nan)
    model = Classes(age, [1] * len(age))
    model._features["height"][2 * BATCH : 2 * BATCH + 3] = np.nan
    error = error_of(model, DivergedError, num_ps=2, partition_bytes=8)
    assert "(1 in feature age, 3 in feature height)" in str(error)


def test_a_loss_that_diverges_by_itself_has_the_learning_rate_in_its_line():
    cluster = InProcessCluster(Classes([1] * 40, [1] * 40, weight=1e38), 1, 1, optimizer="sgd", learning_rate=1e18)
    cluster.start()
    with pytest.raises(DivergedError, match="use a smaller learning_rate"):
        run_worker(cluster, 0, SharedBudget(100), lambda: False)


@pytest.mark.parametrize("label", [3, -1])
def test_a_label_that_is_no_class_is_named_with_its_value_and_the_classes(label):
    classes = third_batch(label)
    error = error_of(Classes([1] * len(classes), classes), DataError)
    assert str(error).startswith(f"label kind has the value {label}, but the loss has classes from 0 to 2 (")
    assert "test_wrong_data.py, line " in str(error) and error.exit_code == EXIT_CONFIG
