"""Models that compute in the dtype of the variables they get, and the same models with casts in a plain session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from examples.recipes import batch_norm
from ps_train import Arrays, Model, embeddings
from ps_train.models.layers import dense, perceptron
from tests.support.models.small import Linear
from tests.support.models.tables import MISSING, ROWS, Bags


class Flat(Linear):
    """A loss with gradients small enough for float16 at the first loss scale."""

    def loss(self, outputs, labels):
        assert outputs.dtype == tf.float32
        return 0.01 * super().loss(outputs, labels)


class Perceptron(Flat):
    """A hidden layer, a weight that is read by some rows, and an L2 term of a regularizer."""

    def __init__(self) -> None:
        super().__init__(count=120, width=5)

    def forward(self, features, training):
        rows = v1.get_variable("rows", [7, 8], regularizer=lambda w: 1e-4 * tf.nn.l2_loss(w))
        picked = tf.gather(rows, tf.cast(tf.abs(features[:, 0]) * 2, tf.int32) % 7)
        hidden = tf.nn.tanh(dense(features, 8, "hidden")) + picked
        return tf.squeeze(perceptron(hidden, [4], 1), 1)

    def loss(self, outputs, labels):
        return super().loss(outputs, labels) + v1.losses.get_regularization_loss()


class Normalized(Flat):
    """Batch norm, whose averages the model assigns."""

    def __init__(self) -> None:
        super().__init__(count=120, width=5)

    def forward(self, features, training):
        hidden = batch_norm(dense(features, 6, "hidden"), training)
        return tf.squeeze(dense(tf.nn.tanh(hidden), 1, "logits"), 1)


class MixedBags(Flat, Bags):
    """The tables of `Bags`; in a plain session `dtype` casts the combined rows."""

    dtype: tf.DType | None = None

    def __init__(self) -> None:
        Bags.__init__(self)

    def forward(self, features, training):
        outputs = 0.0
        ragged = tf.ragged.boolean_mask(features, tf.not_equal(features, MISSING))
        weights = tf.cast(ragged % 3 + 1, tf.float32)
        for number, combiner in enumerate(("sum", "mean", "sqrtn")):
            initializer = v1.random_normal_initializer()
            found = embeddings.lookup(
                combiner, ragged, combiner, weights, rows=ROWS, dimension=3, initializer=initializer
            )
            found = found if self.dtype is None else tf.cast(found, self.dtype)
            outputs += tf.linalg.matvec(found, tf.cast(self.direction(number), found.dtype))
        return outputs


class Steep(Linear):
    """A linear model whose gradients overflow in float16 at a loss scale above 2**10; `steep`: only those examples.

    The gradient of the bias is about 58 at first, and all others are smaller.
    """

    def __init__(self, count: int = 64, steep: Callable[[np.ndarray], np.ndarray] | None = None) -> None:
        super().__init__(count=int(count), width=3)
        self.steep = steep

    def data(self, split, data_dir):
        arrays = super().data(split, data_dir)
        index = np.arange(self.count)
        steep = np.ones(self.count, bool) if self.steep is None else self.steep(index)
        arrays.features[:] *= 0.1
        arrays.labels[:] = np.where(steep, 28.0 + index % 3, 0.1 * arrays.labels)
        return arrays

    def forward(self, features, training):
        return tf.squeeze(dense(features, 1, "layer"), 1)


class Plain(Model):
    """A model with the casts of mixed precision made by hand: variables, combined rows and outputs."""

    def __init__(self, model: Any, dtype: tf.DType) -> None:
        self._model, self._dtype = model, dtype

    def data(self, split: str, data_dir: str) -> Arrays:
        return self._model.data(split, data_dir)

    def forward(self, features, training):
        self._model.dtype = self._dtype
        is_table = isinstance(self._model, MixedBags)
        scope = v1.variable_scope(v1.get_variable_scope(), custom_getter=None if is_table else self._get)
        with scope:
            return tf.cast(self._model.forward(features, training), tf.float32)

    def _get(self, getter, name, *args, regularizer=None, **kwargs):
        variable = getter(name, *args, **kwargs)
        if regularizer is not None:
            v1.add_to_collection(v1.GraphKeys.REGULARIZATION_LOSSES, regularizer(variable))
        return tf.cast(variable, self._dtype) if kwargs.get("trainable", True) else variable

    def loss(self, outputs, labels):
        return self._model.loss(outputs, labels)


class ScaledDescent:
    """Gradient descent on a loss that is multiplied by a constant for the backward pass."""

    def __init__(self, rate: float, scale: float) -> None:
        self._optimizer, self._scale = v1.train.GradientDescentOptimizer(rate), scale

    def minimize(self, loss, global_step=None):
        pairs = self._optimizer.compute_gradients(loss * self._scale)
        return self._optimizer.apply_gradients([(g / self._scale, v) for g, v in map(_dense, pairs)])


def _dense(pair):
    return tf.convert_to_tensor(pair[0]), pair[1]
