"""Models that draw random numbers: each writes down the mask that every step has drawn."""

from __future__ import annotations

import threading

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from tests.support.models.zoo.shape import Shape, kept, weights

SIZE, KEEP = 64, 0.5


def ones():
    return tf.ones([SIZE])


def node():
    return tf.nn.dropout(ones(), rate=1 - KEEP)


def old_node():
    return v1.nn.dropout(ones(), keep_prob=KEEP)


def seeded_node():
    return tf.nn.dropout(ones(), rate=1 - KEEP, seed=7)


def branch():
    return tf.cond(tf.shape(ones())[0] > 0, node, ones)


def loop():
    def body(number, mask):
        return number + 1, mask * tf.cast(tf.random.uniform([SIZE]) < np.sqrt(KEEP), tf.float32) / np.sqrt(KEEP)

    return tf.while_loop(lambda number, _: number < 2, body, [0, ones()])[1]


def mapped():
    return tf.map_fn(lambda one: tf.nn.dropout(one, rate=1 - KEEP), ones(), parallel_iterations=1)


def function():
    return tf.function(node)()


@tf.function
def of_the_module():
    return node()


def function_twice():
    """Two calls of one function."""
    draw = tf.function(lambda: tf.nn.dropout(tf.ones([SIZE // 2]), rate=1 - KEEP))
    return tf.concat([draw(), draw()], 0)


def stateless():
    """Of a seed that the step counts."""
    count = kept("draws", 0, tf.int64)
    with tf.control_dependencies([count.assign_add(1)]):
        seed = tf.stack([count.read_value(), 5])
    return tf.cast(tf.random.stateless_uniform([SIZE], seed) < KEEP, tf.float32) / KEEP


def stateless_of_the_step():
    seed = tf.stack([tf.cast(v1.train.get_global_step(), tf.int32), 5])
    return tf.nn.experimental.stateless_dropout(ones(), rate=1 - KEEP, seed=seed)


def shuffled():
    return tf.random.shuffle(tf.tile([0.0, 1 / KEEP], [SIZE // 2]))


def multinomial():
    """Categories of equal odds."""
    return tf.cast(tf.random.categorical(tf.zeros([1, 2]), SIZE)[0], tf.float32) / KEEP


def binomial():
    seed = tf.random.uniform([2], 0, 1 << 30, tf.int32)
    return tf.cast(tf.random.stateless_binomial([SIZE], seed, 1.0, KEEP), tf.float32) / KEEP


class Random(Shape):
    """Trains on masked features; `masks` are all that were drawn.

    Args:
      draw: makes a mask of SIZE numbers, each 0 or 1 / KEEP, the one as often as the other.
    """

    def __init__(self, draw, control_flow: int = 2) -> None:
        super().__init__(self._masked, control_flow=control_flow, name=f"{draw.__name__}_v{control_flow}")
        self._draw, self.masks, self._lock = draw, [], threading.Lock()

    def _masked(self, x):
        def note(values):
            with self._lock:
                self.masks.append(values.copy())
            return values

        mask = tf.ensure_shape(tf.numpy_function(note, [self._draw()], tf.float32), [SIZE])
        return tf.tile(x, [1, 11])[:, :SIZE] * mask @ weights(shape=[SIZE, 1]) / 10.0


DRAWS = [
    node,
    old_node,
    seeded_node,
    branch,
    loop,
    mapped,
    function,
    of_the_module,
    function_twice,
    stateless,
    stateless_of_the_step,
    shuffled,
    multinomial,
    binomial,
]
OLD = [branch, loop, mapped, function]
RANDOM = [(draw, 2) for draw in DRAWS] + [(draw, 1) for draw in OLD]
