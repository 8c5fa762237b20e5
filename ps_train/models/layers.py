"""Layers that the shipped models share: of images, and of click-through models."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
import tensorflow.compat.v1 as v1

__all__ = ["attention_pooling", "batch_norm", "convolution", "cross", "dense", "experts", "fm", "gated", "perceptron"]


def dense(inputs: tf.Tensor, units: int, name: str) -> tf.Tensor:
    """Returns `inputs` [batch, n] times new weights [n, units] plus a bias [units]: [batch, units].

    The result has the dtype of the weights: float32, or in training that of --compute_dtype.
    """
    with v1.variable_scope(name):
        weights = v1.get_variable("weights", [inputs.shape[1], units], initializer=v1.glorot_uniform_initializer())
        bias = v1.get_variable("bias", [units], initializer=v1.zeros_initializer())
    return tf.nn.bias_add(tf.matmul(tf.cast(inputs, weights.dtype), weights), bias)


def convolution(inputs: tf.Tensor, channels: int, name: str, size: int = 3, stride: int = 1) -> tf.Tensor:
    """Returns a convolution without a bias, initialized as He et al. 2015 ("Delving Deep into Rectifiers").

    Args:
      inputs: [batch, rows, columns, n]; converted to the dtype of the weights.
      channels: number of filters.
      name: variable scope of the `weights` [size, size, n, channels].
      size: rows and columns of a filter.
      stride: distance between the filter's places.

    Returns:
      [batch, rows / stride, columns / stride, channels], rounded up, of the dtype of the weights.
    """
    with v1.variable_scope(name):
        shape = [size, size, inputs.shape[-1], channels]
        initializer = v1.variance_scaling_initializer(2.0, "fan_in", "untruncated_normal")
        weights = v1.get_variable("weights", shape, initializer=initializer)
    return tf.nn.conv2d(tf.cast(inputs, weights.dtype), weights, stride, "SAME")


def batch_norm(inputs: tf.Tensor, training: bool, name: str, momentum: float = 0.9, epsilon: float = 1e-5) -> tf.Tensor:
    """Returns each channel normalized over the batch, and then scaled and shifted (Ioffe and Szegedy 2015).

    Mean and variance are float32 for inputs of any dtype.  Their moving averages are state that the model assigns
    (help: models#state-and-batch-norm).

    Args:
      inputs: float16, bfloat16 or float32 [batch, rows, columns, n].
      training: True normalizes by the batch's own mean and variance, and moves the averages; False uses the averages.
      name: variable scope of `scale`, `offset`, `mean` and `variance`, all [n].
      momentum: share of an average that a step keeps.
      epsilon: added to the variance.

    Returns:
      a tensor of the shape and dtype of the inputs.
    """
    channels = [inputs.shape[-1]]
    with v1.variable_scope(name):
        scale = v1.get_variable("scale", channels, initializer=v1.ones_initializer())
        offset = v1.get_variable("offset", channels, initializer=v1.zeros_initializer())
        mean = v1.get_variable("mean", channels, initializer=v1.zeros_initializer(), trainable=False)
        variance = v1.get_variable("variance", channels, initializer=v1.ones_initializer(), trainable=False)
    given = [tf.cast(value, tf.float32) for value in (scale, offset)]
    if not training:
        averages = [tf.cast(value, tf.float32) for value in (mean, variance)]
        return v1.nn.fused_batch_norm(inputs, *given, *averages, epsilon=epsilon, is_training=False)[0]
    outputs, *moments = v1.nn.fused_batch_norm(inputs, *given, epsilon=epsilon)
    for average, value in zip((mean, variance), moments, strict=True):
        change = (1 - momentum) * (average - tf.cast(value, average.dtype))
        v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, v1.assign_sub(average, change))
    return outputs


def perceptron(inputs: tf.Tensor, hidden: Sequence[int], outputs: int) -> tf.Tensor:
    """Returns the outputs of a perceptron with rectified hidden layers, [batch, outputs], of the dtype of `dense`.

    Args:
      inputs: float32 [batch, n].
      hidden: units of each hidden layer.
      outputs: number of outputs.
    """
    for number, units in enumerate(hidden, start=1):
        inputs = tf.nn.relu(dense(inputs, units, f"hidden{number}"))
    return dense(inputs, outputs, "logits")


def fm(vectors: tf.Tensor) -> tf.Tensor:
    """Returns the sum of the products of all pairs of an example's vectors, [batch].

    It is the second-order part of a factorization machine (Rendle 2010, "Factorization Machines", lemma 3.1).

    Args:
      vectors: [batch, fields, dimension].
    """
    pairs = tf.square(tf.reduce_sum(vectors, 1)) - tf.reduce_sum(tf.square(vectors), 1)
    return tf.reduce_sum(pairs, 1) / 2


def cross(inputs: tf.Tensor, layers: int, name: str = "cross") -> tf.Tensor:
    """Returns the inputs crossed with themselves, [batch, n]: polynomials of a degree up to `layers` + 1.

    Each layer returns x0 * (x W + b) + x, where x0 are the inputs and x the result of the layer before (Wang et al.
    2021, "DCN V2: Improved Deep & Cross Network", equation 1).

    Args:
      inputs: [batch, n].
      layers: number of layers.
      name: variable scope.
    """
    crossed = inputs
    with v1.variable_scope(name):
        for number in range(layers):
            factor = dense(crossed, inputs.shape[1], f"layer{number + 1}")
            crossed = tf.cast(inputs, factor.dtype) * factor + tf.cast(crossed, factor.dtype)
    return crossed


def attention_pooling(
    query: tf.Tensor, history: tf.RaggedTensor, hidden: Sequence[int] = (16,), name: str = "attention"
) -> tf.Tensor:
    """Returns the weighted sum of the vectors of an example's history, [batch, n]; zeros for an empty one.

    A perceptron gives each vector its weight, from the vector, the query, their difference and their product.  The
    weights of an example need not add up to 1, so their sum tells the strength of an interest (Zhou et al. 2018, "Deep
    Interest Network for Click-Through Rate Prediction", section 4.3).

    Args:
      query: vector of the advertisement or item that is scored, [batch, n].
      history: vectors of earlier items, [batch, any, n], made as
        `ids.with_values(embeddings.lookup(table, ids.values))`.
      hidden: units of the perceptron's hidden layers.
      name: variable scope.
    """
    example = history.value_rowids()
    asked = tf.gather(query, example)
    with v1.variable_scope(name):
        pairs = tf.concat([asked, history.values, asked - history.values, asked * history.values], 1)
        weights = perceptron(pairs, hidden, outputs=1)
    return tf.math.unsorted_segment_sum(weights * tf.cast(history.values, weights.dtype), example, tf.shape(query)[0])


def experts(inputs: tf.Tensor, count: int, units: int, name: str = "experts") -> tf.Tensor:
    """Returns the outputs of several rectified layers of the same inputs, [batch, count, units].

    Args:
      inputs: [batch, n].
      count: number of experts.
      units: outputs of each expert.
      name: variable scope of `weights` [count, n, units] and `bias` [count, units].
    """
    with v1.variable_scope(name):
        initializer = v1.variance_scaling_initializer(2.0 * count, "fan_in")  # fan_in is count * n
        weights = v1.get_variable("weights", [count, inputs.shape[1], units], initializer=initializer)
        bias = v1.get_variable("bias", [count, units], initializer=v1.zeros_initializer())
    return tf.nn.relu(tf.einsum("bn,enu->beu", tf.cast(inputs, weights.dtype), weights) + bias)


def gated(inputs: tf.Tensor, outputs: tf.Tensor, name: str) -> tf.Tensor:
    """Returns the mean of experts' outputs, weighted by a softmax that is linear in the inputs, [batch, units].

    See Ma et al. 2018, "Modeling Task Relationships in Multi-task Learning with Multi-gate Mixture-of-Experts",
    equation 6.

    Args:
      inputs: [batch, n].
      outputs: outputs of the experts, [batch, count, units].
      name: variable scope of the gate.
    """
    weights = tf.nn.softmax(dense(inputs, outputs.shape[1], name))
    return tf.reduce_sum(weights[:, :, tf.newaxis] * outputs, 1)
