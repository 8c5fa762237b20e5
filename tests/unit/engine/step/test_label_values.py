"""Labels of a binary cross-entropy outside of 0 to 1 are a warning in the first steps, in any form of the loss."""

from __future__ import annotations

import logging

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.data.named_inputs import remember_inputs
from ps_train.engine.step.label_values import LabelValuesHook


def by_hand(x, y):
    p = tf.sigmoid(x)
    return -tf.reduce_mean(y * tf.math.log(p) + (1 - y) * tf.math.log(1 - p))


BINARY = {
    "sigmoid": lambda x, y: tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=x),
    "v1.losses": lambda x, y: v1.losses.sigmoid_cross_entropy(y, x),
    "log_loss": lambda x, y: v1.losses.log_loss(y, tf.sigmoid(x)),
    "keras": lambda x, y: keras.losses.binary_crossentropy(y, x, from_logits=True),
    "keras of probabilities": lambda x, y: keras.losses.binary_crossentropy(y, tf.sigmoid(x)),
    "by hand": by_hand,
}
OTHERS = {
    "square": lambda x, y: tf.square(x - y),
    "hinge": lambda x, y: tf.nn.relu(1 - x * y),
    "logistic": lambda x, y: tf.math.log1p(tf.exp(-x * y)),
    "smoothed": lambda x, y: tf.nn.sigmoid_cross_entropy_with_logits(labels=(y + 1) / 2, logits=x),
}


class PlainSession(v1.train.SessionCreator):
    """Makes a session without changing the graph."""

    def create_session(self):
        return v1.Session()


def warnings(loss, labels, caplog):
    """The warnings of some steps with the labels of each."""
    with tf.Graph().as_default():
        x, y = v1.placeholder(tf.float32, [None, 1]), v1.placeholder(tf.int64, [None, 1])
        remember_inputs({"x": x}, {"click": y})
        value = tf.reduce_mean(loss(x, tf.cast(y, tf.float32)))
        gradient = tf.gradients(value, x)
        hooks = [LabelValuesHook()]
        v1.get_default_graph().finalize()  # as a training graph is before its first session
        with (
            caplog.at_level(logging.WARNING, logger="ps_train"),
            v1.train.MonitoredSession(PlainSession(), hooks) as session,
        ):
            for batch in labels:
                session.run([value, gradient], {x: np.ones([len(batch), 1]), y: np.reshape(batch, [-1, 1])})
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("name", BINARY)
def test_labels_of_minus_one_are_warned_of_once(name, caplog):
    [line] = warnings(BINARY[name], [[0, 1], [-1, 1], [-1, 1], [-1, 1]], caplog)
    assert line.startswith("a binary cross-entropy (") and " gets label click from -1 to 1 and needs 0 to 1" in line
    assert "test_label_values.py, line " in line and "(labels + 1) / 2" in line


@pytest.mark.parametrize("name", BINARY)
def test_labels_of_zero_and_one_are_right(name, caplog):
    assert warnings(BINARY[name], [[0, 1], [1, 1], [0, 0]], caplog) == []


@pytest.mark.parametrize("name", OTHERS)
def test_other_losses_may_have_any_labels(name, caplog):
    assert warnings(OTHERS[name], [[-1, 1], [3, 1]], caplog) == []


def test_the_first_steps_alone_are_checked(caplog):
    assert warnings(BINARY["sigmoid"], [[0, 1]] * 3 + [[0, 2]], caplog) == []


def test_every_call_fetches_the_same_as_each_set_of_fetches_is_prepared_by_itself():
    with tf.Graph().as_default():
        x, y = v1.placeholder(tf.float32, [None, 1]), v1.placeholder(tf.float32, [None, 1])
        remember_inputs({"x": x}, {"click": y})
        tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=x)
        hook = LabelValuesHook()
        fetched = []
        for _ in range(5):
            fetched.append(hook.before_run(None).fetches)
            hook.after_run(None, v1.train.SessionRunValues([(0.0, 1.0)], None, None))
    assert all(one is fetched[0] for one in fetched) and len(fetched[0]) == 1
