"""A model whose variables are of any floating-point dtype, with gradients that are known beforehand."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays, Model


class Averaging(Model):
    """The gradient of `w` [rows, 4] is minus the mean of the batch's features, rounded once to the dtype; `seen` is not
    trained, and of a dtype of which TensorFlow restores no slices."""

    default_optimizer, default_learning_rate = "sgd", 1.0

    def __init__(self, dtype: str, rows: int = 6, mean: float = 200.0, count: int = 4096, begin: float = 0.0) -> None:
        self.dtype, self.rows, self.mean, self.count, self.begin = tf.as_dtype(dtype), rows, mean, count, begin

    def data(self, split: str, data_dir: str) -> Arrays:
        random = np.random.default_rng(5)
        x = random.normal(self.mean, abs(self.mean) / 3, size=(self.count, self.rows, 4)).astype(np.float32)
        return Arrays(x, np.zeros(self.count, np.float32))

    def forward(self, features, training):
        begin = v1.constant_initializer(self.begin)
        w = v1.get_variable("w", [self.rows, 4], self.dtype, begin)
        v1.get_variable("seen", [400], tf.uint16, v1.ones_initializer(), trainable=False)
        wide = tf.float64 if self.dtype == tf.float64 else tf.float32
        return -tf.reduce_sum(tf.cast(w, wide) * tf.cast(features, wide), axis=[1, 2])

    def loss(self, outputs, labels):
        return tf.reduce_mean(outputs)

    def rounded(self, values: Any) -> np.ndarray[Any, Any]:
        return np.asarray(values).astype(self.dtype.as_numpy_dtype)


def values_cast_to(dtype: tf.DType) -> Any:
    """A scope in which a model gets its trained variables as values of another dtype."""

    def cast(getter: Any, *args: Any, **kwargs: Any) -> Any:
        variable = getter(*args, **kwargs)
        return tf.cast(variable, dtype) if kwargs.get("trainable", True) else variable

    return v1.variable_scope("", custom_getter=cast)
