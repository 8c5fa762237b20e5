"""TensorFlow 1's `tf.layers.batch_normalization`, on `tf.get_variable`.

normal = batch_normalization(inputs, training=is_training)     # updates of the averages are in UPDATE_OPS

Inputs of rank 4 use TensorFlow's fused operation, as TensorFlow 1 does.  It updates the average of the variance with
the unbiased one.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.tf1.layer_variables import ZEROS, layer_scope, make_variable, when_training

_ONES = v1.ones_initializer()


def batch_normalization(
    inputs: Any,
    axis: int = -1,
    momentum: float = 0.99,
    epsilon: float = 1e-3,
    center: bool = True,
    scale: bool = True,
    beta_initializer: Any = ZEROS,
    gamma_initializer: Any = _ONES,
    moving_mean_initializer: Any = ZEROS,
    moving_variance_initializer: Any = _ONES,
    beta_regularizer: Any = None,
    gamma_regularizer: Any = None,
    beta_constraint: Any = None,
    gamma_constraint: Any = None,
    training: Any = False,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
    renorm: bool = False,
    renorm_clipping: Any = None,
    renorm_momentum: float = 0.99,
    fused: bool | None = None,
    virtual_batch_size: Any = None,
    adjustment: Any = None,
) -> Any:
    """Returns gamma * (inputs - mean) / sqrt(variance + epsilon) + beta, of the shape of the inputs.

    In training the mean and variance are the batch's, otherwise their moving averages.  Variables: gamma, beta,
    moving_mean and moving_variance, each of the size of dimension `axis`.

    Raises:
      ValueError: `renorm`, `virtual_batch_size` or `adjustment` is asked for.
    """
    unsupported = {"renorm": renorm, "virtual_batch_size": virtual_batch_size, "adjustment": adjustment}
    for option, value in unsupported.items():
        if value:
            raise ValueError(f"{option}={value!r} of batch_normalization is not supported: leave it out")
    inputs = tf.convert_to_tensor(inputs)
    axis = (axis[0] if isinstance(axis, list | tuple) else axis) % inputs.shape.rank
    size, dtype = inputs.shape.as_list()[axis], _of_float(inputs)
    with layer_scope(name, "batch_normalization", reuse):
        of_gamma = (gamma_initializer, gamma_regularizer, gamma_constraint, trainable)
        of_beta = (beta_initializer, beta_regularizer, beta_constraint, trainable)
        gamma = make_variable("gamma", [size], dtype, *of_gamma) if scale else None
        beta = make_variable("beta", [size], dtype, *of_beta) if center else None
        moving_mean = make_variable("moving_mean", [size], dtype, moving_mean_initializer, trainable=False)
        moving_variance = make_variable("moving_variance", [size], dtype, moving_variance_initializer, trainable=False)
        is_fused = inputs.shape.rank == 4 and axis in (1, 3) and fused in (None, True)
        normalize = (_fused if is_fused else _plain)(inputs, axis, gamma, beta, epsilon)
        outputs, mean, variance = when_training(
            training,
            lambda: normalize(None, None),
            lambda: normalize(tf.identity(moving_mean), tf.identity(moving_variance)),
        )
        if tf.get_static_value(training) is None or tf.get_static_value(training):
            for average, value in ((moving_mean, mean), (moving_variance, variance)):
                update = v1.assign_sub(average, (average - value) * (1.0 - momentum))
                v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
        outputs.set_shape(inputs.shape)
        return outputs


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
