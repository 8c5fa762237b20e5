"""A shape of models: a forward computation, and what it needs beside it, written as users of TensorFlow 1 write it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays, Model

COUNT, WIDTH = 96, 6
RATE = 0.05


class Shape(Model):
    """A model of one function.

    Args:
      forward: takes the features, [batch, WIDTH] unless `features` says otherwise; returns outputs [batch, 1].
      loss: takes outputs and labels; the mean squared error by default.
      optimizer: takes the learning rate; momentum by default.
      features: makes the features of `count` examples; takes a numpy generator.
      dataset: makes a tf.data.Dataset of all examples, in place of `features`.
      close: absolute and relative tolerance of the comparison with a plain session.
      joined: synchronous workers make the update of their joined batch: nothing in the model depends on one worker's
        batch but through the mean.
      control_flow: version of the control flow, 1 or 2.
      reference: the forward computation of the plain session, if not the same.
    """

    default_learning_rate = RATE

    def __init__(
        self,
        forward: Callable[..., Any],
        *,
        loss: Callable[..., Any] | None = None,
        optimizer: Callable[[float], Any] | None = None,
        features: Callable[..., Any] | None = None,
        dataset: Callable[[], Any] | None = None,
        close: float = 2e-5,
        joined: bool = False,
        control_flow: int = 2,
        reference: Callable[..., Any] | None = None,
        name: str = "",
    ) -> None:
        self._forward, self._loss, self._optimizer = forward, loss, optimizer
        self._features, self._dataset = features or normal, dataset
        self.close, self.joined, self.control_flow = close, joined, control_flow
        self._reference = reference or forward
        self.name = name or forward.__name__

    def data(self, split: str, data_dir: str) -> Any:
        if self._dataset is not None:
            return self._dataset()
        return Arrays(self._features(np.random.default_rng(5)), labels())

    def forward(self, features: Any, training: bool) -> Any:
        return self._forward(features)

    def loss(self, outputs: Any, labels: Any) -> Any:
        if self._loss is not None:
            return self._loss(outputs, labels)
        return tf.reduce_mean(tf.square(outputs - tf.cast(labels, outputs.dtype)))

    def optimizer(self, name: str, learning_rate: float) -> Any:
        if self._optimizer is not None:
            return self._optimizer(learning_rate)
        return v1.train.MomentumOptimizer(learning_rate, 0.9)

    def plain(self) -> Shape:
        """Returns the model that a plain session trains."""
        other = copy.copy(self)
        other._forward = self._reference
        return other

    def __repr__(self) -> str:
        return self.name


def normal(random: np.random.Generator, *shape: int) -> np.ndarray:
    return random.normal(size=(COUNT, *(shape or (WIDTH,)))).astype(np.float32)


def labels() -> np.ndarray:
    return np.random.default_rng(6).normal(size=(COUNT, 1)).astype(np.float32)


def weights(name: str = "w", shape: Any = (WIDTH, 1), dtype: Any = tf.float32, **options: Any) -> Any:
    return v1.get_variable(name, shape, dtype, **options)


def kept(name: str, initial: Any, dtype: Any = tf.float32) -> Any:
    """A scalar variable that no optimizer trains."""
    return v1.get_variable(name, initializer=lambda: tf.constant(initial, dtype), dtype=dtype, trainable=False)


def dense(x: Any, size: int, name: str = "dense") -> Any:
    with v1.variable_scope(name):
        return x @ weights("kernel", [x.shape[-1], size]) + weights("bias", [size], initializer=v1.zeros_initializer())


def plain_network(x: Any) -> Any:
    return dense(tf.tanh(dense(x, 5, "first")), 1, "second")


def of_prefixes(**optimizers: Callable[[float], Any]) -> Callable[[float], Mapping[str, Any]]:
    """Optimizers by the beginning of names; `rest` is that of all others."""
    return lambda rate: {"" if key == "rest" else key: make(rate) for key, make in optimizers.items()}
