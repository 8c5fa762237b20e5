"""Branches, loops and functions, as version 1 and version 2 of TensorFlow's control flow build them."""

from __future__ import annotations

import tensorflow as tf

from tests.support.models.zoo.shape import Shape, dense, weights


def conditions(x):
    def scaled():
        return x @ weights("yes") * 1.5

    found = tf.cond(tf.reduce_sum(x) > 0, scaled, lambda: x @ weights("no") + weights("both", [1]))
    inner = tf.cond(tf.reduce_mean(x) > 0.1, lambda: tf.cond(x[0, 0] > 0, lambda: found, lambda: -found), lambda: found)
    sign = tf.cast(tf.reduce_sum(x[:, 0]) > 0, tf.int32)
    return inner * tf.switch_case(sign, [lambda: 0.5, lambda: 2 * tf.reduce_sum(weights("scale", [1]))])


def loops(x):
    w, out = weights(shape=[6, 6]), weights("out")

    def body(number, state):
        return number + 1, tf.tanh(x + state @ w)

    _, state = tf.while_loop(lambda number, _: number < 3, body, [0, tf.zeros_like(x)])
    counts = tf.cast(tf.reduce_sum(tf.cast(x > 0, tf.int32)) % 3, tf.int32)
    _, again = tf.while_loop(lambda number, _: number < counts, body, [0, state])
    return again @ out


def mapped(x):
    w = weights(shape=[6, 2])
    return tf.reduce_sum(tf.map_fn(lambda row: tf.tanh(tf.linalg.matvec(w, row, transpose_a=True)), x), 1, True)


def scanned(x):
    w = weights(shape=[1, 1])

    def step(state, row):
        return tf.tanh(state @ w + row)

    states = tf.scan(step, tf.transpose(x)[:, :, tf.newaxis], initializer=tf.zeros([tf.shape(x)[0], 1]))
    return states[-1] + tf.foldl(lambda a, b: a * 0.5 + b, x @ weights("v"))


def with_arrays(x):
    """A TensorArray that a loop fills."""
    w = weights(shape=[6, 6])

    def body(number, array, state):
        state = tf.tanh(state @ w + x[:, number, tf.newaxis])
        return number + 1, array.write(number, state), state

    array = tf.TensorArray(tf.float32, 4, element_shape=[None, 6])
    _, array, _ = tf.while_loop(lambda number, *_: number < 4, body, [0, array, tf.zeros_like(x)])
    return dense(tf.reduce_mean(array.stack(), 0), 1)


def in_a_function(x):
    w = weights(shape=[6, 6])

    @tf.function
    def layer(values, times):
        for _ in tf.range(times):
            values = tf.tanh(values @ w)
        return values

    return dense(layer(layer(x, 2), 1), 1)


@tf.function(autograph=False)
def squashed(values, w):
    """At module level: traced once for all graphs."""
    return tf.tanh(values @ w) + 0.1 * values


def in_a_function_of_the_module(x):
    w = weights(shape=[6, 6])
    return dense(squashed(squashed(x, w), w), 1)


@tf.custom_gradient
def clipped(values):
    def backwards(upstream):
        return tf.clip_by_value(upstream, -0.05, 0.05)

    return tf.identity(values), backwards


def own_gradients(x):
    w = weights(shape=[6, 4])
    half = tf.stop_gradient(x @ w) + x @ weights("v", [6, 4])
    return dense(clipped(tf.tanh(half)), 1) + tf.grad_pass_through(tf.round)(x @ weights("rounded"))


def recomputed(x):
    w = weights(shape=[6, 6])
    return dense(tf.recompute_grad(lambda values, w: tf.tanh(values @ w))(x, w), 1)


BOTH = [conditions, loops, mapped, scanned, with_arrays]
SHAPES = [
    *[Shape(one, joined=one not in (conditions, loops, scanned)) for one in BOTH],
    *[Shape(one, control_flow=1, name=f"{one.__name__}_v1") for one in BOTH],
    Shape(in_a_function, joined=True),
    Shape(in_a_function, control_flow=1, name="in_a_function_v1"),
    Shape(in_a_function_of_the_module, joined=True),
    Shape(own_gradients),
    Shape(recomputed, joined=True),
]
