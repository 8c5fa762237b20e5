"""Losses that compare each example of a batch with every other are found; pairs on purpose are left alone."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

import ps_train
from ps_train.base.errors import EXIT_CONFIG, ModelError
from ps_train.data.named_inputs import dense_inputs
from ps_train.data.pipeline import DataSource
from ps_train.engine.variables.pairwise_shapes import check_shapes
from ps_train.engine.variables.trace import trace

X = np.ones((8, 4), np.float32)


def mean_square(outputs, labels):
    return tf.reduce_mean(tf.square(outputs - labels))


def dense(x, units=1, name="w"):
    return x @ v1.get_variable(name, [4, units], use_resource=True)


def flat(x):
    return tf.squeeze(dense(x), -1)


def by_hand(p, y):
    return -tf.reduce_mean(y * tf.math.log(p) + (1 - y) * tf.math.log(1 - p))


def paired(scores, y):
    return tf.reduce_mean(tf.nn.relu(1 - (scores[:, None] - scores[None, :]) * tf.sign(y[:, None] - y[None, :])))


def in_a_branch(x):
    weights = v1.get_variable("w", [4, 1], use_resource=True)
    return tf.cond(tf.reduce_sum(x) > 0, lambda: x @ weights, lambda: -x @ weights)


def normed(x):
    hidden = dense(x, 8, "hidden")
    hidden = (hidden - tf.reduce_mean(hidden, 0)) / tf.math.reduce_std(hidden, 0)
    return hidden @ v1.get_variable("w", [8, 1], use_resource=True)


# Name to the loss of features [batch, 4] and labels [batch, 1], and the operands that its message shows.
ACCIDENTS = {
    "a difference": (lambda x, y: mean_square(dense(x), y[:, 0]), "[batch, 1] with labels [batch]"),
    "the reverse": (lambda x, y: mean_square(flat(x), y), "[batch] with labels [batch, 1]"),
    "a squared difference": (
        lambda x, y: tf.reduce_mean(tf.math.squared_difference(y, flat(x))), "labels [batch, 1] with [batch]",
    ),
    "a product": (lambda x, y: tf.reduce_mean(tf.nn.relu(1 - y[:, 0] * dense(x))), "labels [batch] with [batch, 1]"),
    "by hand": (lambda x, y: by_hand(tf.sigmoid(flat(x)), y), "labels [batch, 1] with [batch]"),
    "a maximum": (lambda x, y: tf.reduce_mean(tf.maximum(flat(x), y)), "[batch] with labels [batch, 1]"),
    "a choice": (
        lambda x, y: tf.reduce_mean(tf.where(y[:, 0] > 0, dense(x), -dense(x, name="v"))), "[batch] with [batch, 1]",
    ),
    "labels with a new axis": (lambda x, y: mean_square(flat(x), tf.expand_dims(y[:, 0], 1)), "labels [batch, 1]"),
    "weights of examples": (
        lambda x, y: tf.reduce_mean(tf.square(dense(x) - y) * x[:, 0]), "[batch, 1] with features [batch]",
    ),
    "two parts of a model": (
        lambda x, y: mean_square(dense(x) + tf.reduce_sum(x * v1.get_variable("v", [4]), 1), y),
        "[batch, 1] with [batch]",
    ),
    "classes of softmax": (
        lambda x, y: tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=y[:, 0], logits=dense(x))),
        "[batch, 1] with labels [1, batch]",
    ),
}  # fmt: skip

ON_PURPOSE = {
    "the same shape": lambda x, y: mean_square(dense(x), y),
    "both flat": lambda x, y: mean_square(flat(x), y[:, 0]),
    "all pairs": lambda x, y: paired(flat(x), y[:, 0]),
    "a tensor with itself": lambda x, y: tf.reduce_mean(tf.nn.relu(dense(x) - tf.squeeze(dense(x, name="v"), 1)[None])),
    "a tensor with its other form": lambda x, y: (lambda s: tf.reduce_mean(tf.nn.relu(s - s[:, 0])))(dense(x)),
    "two scores with a new axis": lambda x, y: tf.reduce_mean(
        tf.nn.softplus(flat(x)[:, None] - tf.squeeze(dense(x, name="v"), 1))
    ),
    "which labels are equal": lambda x, y: tf.reduce_mean(
        tf.cast(tf.equal(y, y[:, 0]), tf.float32) * tf.matmul(dense(x, 3), dense(x, 3, "v"), transpose_b=True)
    ),
    "negatives of the batch": lambda x, y: tf.reduce_mean(
        tf.nn.softmax_cross_entropy_with_logits(
            labels=tf.eye(tf.shape(x)[0]), logits=tf.matmul(dense(x, 3), dense(x, 3, "v"), transpose_b=True)
        )
    ),
    "lists of four": lambda x, y: tf.reduce_mean(tf.reshape(flat(x), [-1, 4]) - tf.reduce_mean(tf.reshape(y, [-1, 4]))),
    "a bias and a norm": lambda x, y: mean_square(normed(x) + v1.get_variable("b", [1]), y),
    "classes": lambda x, y: tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.cast(y[:, 0], tf.int32), logits=dense(x, 3))
    ),
    "one number for the batch": lambda x, y: mean_square(dense(x), tf.reduce_mean(y, keepdims=True)),
    "a part of the batch": lambda x, y: tf.reduce_mean(
        tf.boolean_mask(dense(x), y[:, 0] > 0) - tf.unique(tf.boolean_mask(y[:, 0], y[:, 0] > 0))[0]
    ),
}


def check(loss, batch=None, shape=(1,)):
    with tf.Graph().as_default():
        features = v1.placeholder(tf.float32, [batch, 4])
        labels = v1.placeholder(tf.float32, [batch, *shape])
        check_shapes("the loss", loss(features, labels), dense_inputs(features, labels))


@pytest.mark.parametrize("batch", [None, 1, 4, 64], ids="batch {}".format)
@pytest.mark.parametrize("name", [name for name in ACCIDENTS if name != "classes of softmax"])
def test_a_batch_that_broadcasts_against_itself_is_an_error(name, batch):
    expect_error(*ACCIDENTS[name], batch)


def test_softmax_without_a_known_batch_size_is_an_error():
    expect_error(*ACCIDENTS["classes of softmax"], batch=None)  # TensorFlow writes a known size into the graph


def expect_error(loss, operands, batch):
    with pytest.raises(ModelError, match="the loss combines ") as caught:
        check(loss, batch)
    message = str(caught.value)
    assert caught.value.exit_code == EXIT_CONFIG and operands in message, message
    assert "test_pairwise_shapes.py, line " in message and "\n" not in message and len(message) < 400


@pytest.mark.parametrize("batch", [None, 4, 64], ids="batch {}".format)
@pytest.mark.parametrize("name", ON_PURPOSE)
def test_other_shapes_pass_without_a_word(name, batch, caplog):
    with caplog.at_level(logging.WARNING, logger="ps_train"):
        check(ON_PURPOSE[name], batch)
    assert caplog.records == []


@pytest.mark.parametrize(
    ("loss", "shapes"),
    [
        (lambda x, y: mean_square(in_a_branch(x), y[:, 0]), "[?, 1] with labels [batch]"),
        (
            lambda x, y: mean_square(tf.reshape(dense(x, 6), [-1, 2, 3]), tf.reshape(dense(x, 6, "v"), [-1, 1, 2, 3])),
            "[batch, 2, 3] with [batch, 1, 2, 3]",
        ),
    ],
)
def test_what_is_not_certain_is_a_warning(loss, shapes, caplog):
    with caplog.at_level(logging.WARNING, logger="ps_train"):
        check(loss)
    [line] = [record.getMessage() for record in caplog.records]
    assert shapes in line and "test_pairwise_shapes.py" in line and "\n" not in line


def test_a_batch_size_in_the_code_makes_a_warning_of_the_error(caplog):
    with caplog.at_level(logging.WARNING, logger="ps_train"):
        check(lambda x, y: mean_square(tf.reshape(dense(x), [64, 1]), y), 64)
        check(lambda x, y: mean_square(tf.reshape(dense(x), [64, 1]) + tf.ones([64]) * 0, tf.ones([64, 64])), 64)
        assert caplog.records == []
        check(lambda x, y: mean_square(tf.reshape(dense(x), [64, 1]), y[:, 0]), 64)
    [line] = [record.getMessage() for record in caplog.records]
    assert "[?, 1] with labels [?]" in line


class Regression(ps_train.Model):
    """Its outputs are [batch, 1]."""

    def data(self, split, data_dir):
        return ps_train.Arrays({"x": X, "y": np.ones(8, np.float32)}, {"click": np.ones(8, np.float32)})

    def forward(self, features, training):
        features.pop("y")
        return features["x"] @ v1.get_variable("w", [4, 1])

    def loss(self, outputs, labels):
        return mean_square(outputs, labels["click"])


def test_the_trace_of_a_model_checks_its_loss_and_names_the_label():
    model = Regression()
    with pytest.raises(ModelError, match=r"the loss combines \[batch, 1\] with label click \[batch\]"):
        trace(model, DataSource(lambda: model.data("train", "")), batch_size=1)


@pytest.mark.parametrize("pairs", [False, True])
def test_shapes_may_have_the_form_of_tensorflow_1(pairs):
    v1.disable_v2_tensorshape()
    try:
        with tf.Graph().as_default():
            x, y = v1.placeholder(tf.float32, [None, 4], "x"), v1.placeholder(tf.float32, [None], "y")
            loss = mean_square(dense(x) if pairs else flat(x), y)
            if pairs:
                with pytest.raises(ModelError, match=r"\[batch, 1\] with y \[batch\]"):
                    check_shapes("the loss", loss, {"x": x, "y": y})
            else:
                check_shapes("the loss", loss, {"x": x, "y": y})
    finally:
        v1.enable_v2_tensorshape()
