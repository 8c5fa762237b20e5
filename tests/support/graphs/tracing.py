"""Models of a function or two, traced."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.data.arrays import Arrays
from ps_train.data.pipeline import DataSource
from ps_train.engine.variables.trace import trace
from ps_train.modeling.model import Model

DATA = Arrays(np.ones((8, 4), np.float32), np.ones((8, 1), np.float32))


class Net(Model):
    """A model of a forward function of the features, and a loss of outputs and labels."""

    def __init__(self, forward, loss=None):
        self._forward, self._loss = forward, loss

    def forward(self, features, training):
        return self._forward(features)

    def loss(self, outputs, labels):
        return tf.reduce_mean(tf.square(outputs - labels)) if self._loss is None else self._loss(outputs, labels)


def weights(name="w", **options):
    return v1.get_variable(name, **{"shape": [4, 1], **options})


def traced(forward, loss=None):
    return trace(Net(forward, loss), DataSource(lambda: DATA), batch_size=2)


def refusal(forward, loss=None):
    with pytest.raises(ModelError) as caught:
        traced(forward, loss)
    return str(caught.value)


def values_of(found, seed=1, order=None, graph_seed=5):
    """The initial values of a traced model's variables, computed in a graph of their own."""
    with tf.Graph().as_default():
        v1.set_random_seed(graph_seed)
        tensors = {name: found.variables[name].initial_value(seed) for name in order or found.variables}
        with v1.Session() as session:
            return session.run(tensors)
