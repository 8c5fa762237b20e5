"""Layers that are written by hand, and how their variables are made and shared."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from tests.support.models.zoo.shape import Shape, dense, normal, of_prefixes, plain_network, weights


def one_scalar(x):
    return tf.reduce_sum(x, 1, keepdims=True) * v1.get_variable("only", [], initializer=v1.ones_initializer())


def many_small(x):
    parts = [weights(f"part_{number}", [1 + number % 3]) for number in range(150)]
    return tf.reduce_sum(x, 1, keepdims=True) * tf.add_n([tf.reduce_sum(part) for part in parts]) / 20


def with_an_empty_one(x):
    empty = weights("empty", [0, 4])
    return dense(x, 1) + tf.reduce_sum(tf.square(empty)) + tf.cast(tf.size(empty), tf.float32)


def of_rank_5(x):
    kernel = weights("kernel", [1, 2, 1, 3, 2])
    return tf.reshape(tf.einsum("bi,aicjd->b", x[:, :2], kernel), [-1, 1]) + dense(x, 1)


def large_and_sliced(x):
    """4 MiB, of which a step touches some."""
    large = weights("large", [1024, 1024], initializer=v1.random_normal_initializer(stddev=0.1))
    return tf.matmul(x, large[3:9, 5:6]) + tf.reduce_sum(large[::256, -1]) + tf.reduce_mean(large[0])


def convolution_and_pooling(x):
    x = v1.nn.conv2d(x, weights("first", [3, 3, 1, 4]), strides=[1, 1, 1, 1], padding="SAME")
    x = tf.nn.relu(tf.nn.bias_add(x, weights("bias", [4], initializer=v1.zeros_initializer())))
    x = v1.nn.max_pool(x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID")
    x = v1.nn.depthwise_conv2d(x, weights("depthwise", [2, 2, 4, 1]), [1, 1, 1, 1], "SAME")
    x = v1.nn.avg_pool(tf.tanh(x), ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID")
    return dense(tf.reshape(x, [-1, 16]), 1)


def images(random):
    return normal(random, 8, 8, 1)


def tied(x):
    """An encoder whose weights are its decoder's."""
    w = weights(shape=[6, 3])
    hidden = tf.tanh(x @ w)
    return tf.reduce_sum(tf.square(tf.matmul(hidden, w, transpose_b=True) - x), 1, keepdims=True) + dense(hidden, 1)


def shared_scopes(x):
    for _ in range(3):
        with v1.variable_scope("shared", reuse=v1.AUTO_REUSE):
            x = tf.tanh(dense(x, 6))
    with v1.variable_scope("shared", reuse=True):
        x += tf.tanh(dense(x, 6))
    template = v1.make_template("template", lambda values: tf.tanh(dense(values, 6)))
    return dense(template(template(x)), 1)


def numbered_scopes(x):
    for size in (5, 4, 1):
        with v1.variable_scope(None, default_name="layer"), v1.variable_scope(None, "inner"):
            x = tf.tanh(dense(x, size))
    return x


def variables_of_numbers(x):
    """tf.Variable of constants, in name scopes, some under names that are taken."""
    first = tf.Variable(np.linspace(-0.5, 0.5, 18, dtype=np.float32).reshape(6, 3), name="w")
    with tf.name_scope("layer"):
        second = tf.Variable(np.full([3, 1], 0.2, np.float32), name="w")
    with tf.name_scope("layer"):
        third = v1.Variable(0.5, name="w")
    return tf.tanh(x @ first) @ second * third + weights("b", [1])


def partitioned(x):
    with v1.variable_scope("parts", partitioner=v1.fixed_size_partitioner(2)):
        whole = weights()
        rows = tf.nn.embedding_lookup(whole, tf.constant([0, 3, 3]))
    return x @ whole + tf.reduce_sum(rows) + tf.reduce_sum(weights("v", partitioner=v1.fixed_size_partitioner(3)))


def not_partitioned(x):
    with v1.variable_scope("parts"):
        whole = weights()
    return x @ whole + whole[0] + 2 * whole[3] + tf.reduce_sum(weights("v"))


def regularized(x):
    def l2(values):
        return 0.05 * tf.nn.l2_loss(values)

    with v1.variable_scope("layers", regularizer=l2, initializer=v1.random_uniform_initializer(-0.3, 0.3)):
        return dense(tf.tanh(dense(x, 4, "first")), 1, "second")


def with_regularization(outputs, labels):
    return tf.reduce_mean(tf.square(outputs - labels)) + v1.losses.get_regularization_loss()


def with_variables_of_its_own(outputs, labels):
    """Learns how much of an error to forgive."""
    forgiven = weights("forgiven", [], initializer=v1.zeros_initializer())
    margin = tf.Variable(0.1, name="margin")
    return tf.reduce_mean(tf.square(outputs - labels)) * tf.exp(-forgiven) + forgiven + tf.square(margin - 0.3)


def by_name(x):
    with v1.variable_scope("wide"):
        wide = dense(x, 1)
    with v1.variable_scope("deep"):
        return wide + dense(tf.tanh(dense(x, 5)), 1, "out")


PREFIXES = of_prefixes(
    wide=lambda rate: v1.train.FtrlOptimizer(rate, l1_regularization_strength=0.001),
    deep=v1.train.AdamOptimizer,
    **{"deep/out": v1.train.AdagradOptimizer, "rest": v1.train.GradientDescentOptimizer},
)

SHAPES = [
    Shape(one_scalar, joined=True),
    Shape(many_small, joined=True),
    Shape(with_an_empty_one, joined=True),
    Shape(of_rank_5, joined=True),
    Shape(large_and_sliced),
    Shape(convolution_and_pooling, features=images, joined=True, optimizer=v1.train.AdamOptimizer),
    Shape(tied, joined=True, optimizer=lambda rate: v1.train.MomentumOptimizer(rate / 5, 0.9)),
    Shape(shared_scopes, joined=True),
    Shape(numbered_scopes, joined=True),
    Shape(variables_of_numbers, joined=True),
    Shape(partitioned, reference=not_partitioned, joined=True, optimizer=v1.train.GradientDescentOptimizer),
    Shape(regularized, loss=with_regularization, joined=True),
    Shape(plain_network, loss=with_variables_of_its_own, joined=True, name="variables_of_the_loss"),
    Shape(by_name, optimizer=PREFIXES, joined=True, name="optimizers_by_prefix"),
]
