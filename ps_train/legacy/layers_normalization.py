"""TensorFlow 1's `tf.layers.batch_normalization`, on `tf.get_variable`.

normal = batch_normalization(inputs, training=is_training)     # updates of the averages are in UPDATE_OPS

Inputs of rank 4 use TensorFlow's fused operation, as TensorFlow 1 does.  It updates the average of the variance with
the unbiased one.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.legacy.layer_variables import layer_scope, make_variable, when_training


@dataclasses.dataclass
class _BatchNormalization:
    """Arguments of `batch_normalization`."""

    inputs: Any
    axis: int = -1
    momentum: float = 0.99
    epsilon: float = 1e-3
    center: bool = True
    scale: bool = True
    beta_initializer: Any = dataclasses.field(default_factory=v1.zeros_initializer)
    gamma_initializer: Any = dataclasses.field(default_factory=v1.ones_initializer)
    moving_mean_initializer: Any = dataclasses.field(default_factory=v1.zeros_initializer)
    moving_variance_initializer: Any = dataclasses.field(default_factory=v1.ones_initializer)
    beta_regularizer: Any = None
    gamma_regularizer: Any = None
    beta_constraint: Any = None
    gamma_constraint: Any = None
    training: Any = False
    trainable: bool = True
    name: str | None = None
    reuse: Any = None
    renorm: bool = False
    renorm_clipping: Any = None
    renorm_momentum: float = 0.99
    fused: bool | None = None
    virtual_batch_size: Any = None
    adjustment: Any = None

    def outputs(self) -> Any:
        for name in ("renorm", "virtual_batch_size", "adjustment"):
            if getattr(self, name):
                raise ValueError(
                    f"{name}={getattr(self, name)!r} of batch_normalization is not supported: leave it out"
                )
        inputs = tf.convert_to_tensor(self.inputs)
        rank = inputs.shape.rank
        axis = self.axis[0] if isinstance(self.axis, list | tuple) else self.axis
        axis %= rank
        size = inputs.shape.as_list()[axis]
        with layer_scope(self.name, "batch_normalization", self.reuse):
            gamma = make_variable(self, "gamma", [size], _of_float(inputs)) if self.scale else None
            beta = make_variable(self, "beta", [size], _of_float(inputs)) if self.center else None
            moving_mean = self._average("moving_mean", size, inputs)
            moving_variance = self._average("moving_variance", size, inputs)
            if rank == 4 and axis in (1, 3) and self.fused in (None, True):
                normalize = _fused(inputs, axis, gamma, beta, self.epsilon)
            else:
                normalize = _plain(inputs, axis, gamma, beta, self.epsilon)
            outputs, mean, variance = when_training(
                self.training,
                lambda: normalize(None, None),
                lambda: normalize(tf.identity(moving_mean), tf.identity(moving_variance)),
            )
            if tf.get_static_value(self.training) is None or tf.get_static_value(self.training):
                self._update(moving_mean, mean)
                self._update(moving_variance, variance)
            outputs.set_shape(inputs.shape)
            return outputs

    def _average(self, name: str, size: int, inputs: Any) -> Any:
        initializer = getattr(self, f"{name}_initializer")
        return v1.get_variable(name, [size], _of_float(inputs), initializer=initializer, trainable=False)

    def _update(self, average: Any, value: Any) -> None:
        change = (average - value) * (1.0 - self.momentum)
        v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, v1.assign_sub(average, change))


def batch_normalization(*arguments: Any, **options: Any) -> Any:
    """Returns gamma * (inputs - mean) / sqrt(variance + epsilon) + beta, of the shape of the inputs.

    In training the mean and variance are the batch's, otherwise their moving averages.  Variables: gamma, beta,
    moving_mean and moving_variance, each of the size of dimension `axis`.

    Raises:
      ValueError: `renorm`, `virtual_batch_size` or `adjustment` is asked for.
    """
    return _BatchNormalization(*arguments, **options).outputs()


def _of_float(inputs: Any) -> Any:
    return tf.float32 if inputs.dtype.size < tf.float32.size else inputs.dtype


def _fused(inputs: Any, axis: int, gamma: Any, beta: Any, epsilon: float) -> Any:
    """Returns a function of mean and variance, None for the batch's, to (outputs, mean, variance)."""
    size, dtype = inputs.shape.as_list()[axis], _of_float(inputs)
    ones, zeros = tf.ones([size], dtype), tf.zeros([size], dtype)

    def normalize(mean: Any, variance: Any) -> Any:
        outputs = inputs if axis == 3 else tf.transpose(inputs, [0, 2, 3, 1])
        found = v1.nn.fused_batch_norm(
            outputs,
            ones if gamma is None else gamma,
            zeros if beta is None else beta,
            mean,
            variance,
            epsilon=epsilon,
            is_training=mean is None,
        )
        outputs = found[0] if axis == 3 else tf.transpose(found[0], [0, 3, 1, 2])
        return outputs, *((found[1], found[2]) if mean is None else (mean, variance))

    return normalize


def _plain(inputs: Any, axis: int, gamma: Any, beta: Any, epsilon: float) -> Any:
    """Returns the same function, made of single operations."""
    rank = inputs.shape.rank
    others = [each for each in range(rank) if each != axis]
    shape = [1] * rank
    shape[axis] = inputs.shape.as_list()[axis]

    def broadcast(value: Any) -> Any:
        return value if value is None or axis == rank - 1 else tf.reshape(value, shape)

    def normalize(mean: Any, variance: Any) -> Any:
        if mean is None:
            mean, variance = tf.nn.moments(inputs, others)
        outputs = tf.nn.batch_normalization(
            inputs, broadcast(mean), broadcast(variance), broadcast(beta), broadcast(gamma), epsilon
        )
        return outputs, mean, variance

    return normalize
