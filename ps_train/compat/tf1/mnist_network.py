"""The module `tensorflow.examples.tutorials.mnist.mnist` of TensorFlow 1: a network with two hidden layers.

logits = inference(images, 128, 32)
train_op = training(loss(logits, labels), learning_rate=0.01)
"""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

__all__ = ["IMAGE_PIXELS", "IMAGE_SIZE", "NUM_CLASSES", "evaluation", "inference", "loss", "training"]

NUM_CLASSES = 10
IMAGE_SIZE = 28
IMAGE_PIXELS = IMAGE_SIZE * IMAGE_SIZE


def inference(images: Any, hidden1_units: int, hidden2_units: int) -> Any:
    """Returns the logits, float [batch, 10].

    Variables: weights and biases in `hidden1`, `hidden2` and `softmax_linear`.

    Args:
      images: float [batch, 784].
      hidden1_units: size of the first hidden layer.
      hidden2_units: size of the second one.
    """
    values, size = images, IMAGE_PIXELS
    layers = [("hidden1", hidden1_units), ("hidden2", hidden2_units), ("softmax_linear", NUM_CLASSES)]
    for name, units in layers:
        with v1.name_scope(name):
            initial = v1.truncated_normal([size, units], stddev=1.0 / math.sqrt(size))
            product = tf.matmul(values, v1.Variable(initial, name="weights"))
            sums = product + v1.Variable(tf.zeros([units]), name="biases")
            values, size = (sums if name == "softmax_linear" else tf.nn.relu(sums)), units
    return values


def loss(logits: Any, labels: Any) -> Any:
    """Returns the mean cross entropy.

    Args:
      logits: float [batch, 10].
      labels: int [batch], the class of each image.
    """
    return v1.losses.sparse_softmax_cross_entropy(tf.cast(labels, tf.int64), logits, loss_collection=None)


def training(loss: Any, learning_rate: float) -> Any:
    """Returns the operation of a step of gradient descent, which counts the variable `global_step`.

    Args:
      loss: the loss, of which a summary is made.
      learning_rate: of the optimizer.
    """
    v1.summary.scalar("loss", loss)
    step = v1.Variable(0, name="global_step", trainable=False)
    return v1.train.GradientDescentOptimizer(learning_rate).minimize(loss, global_step=step)


def evaluation(logits: Any, labels: Any) -> Any:
    """Returns the number of images whose largest logit is that of their class, int32.

    Args:
      logits: float [batch, 10].
      labels: int [batch], the class of each image.
    """
    return tf.reduce_sum(tf.cast(v1.nn.in_top_k(logits, labels, 1), tf.int32))
