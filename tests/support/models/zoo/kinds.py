"""Variables of all dtypes, recurrent networks, calls of Python, and summaries."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from tests.support.models.zoo.shape import Shape, dense, weights

TRAINED = (tf.float16, tf.bfloat16, tf.float32, tf.float64)
KEPT = {
    "int8": [1, -2],
    "int32": [1, -2],
    "int64": [1, -2],
    "uint8": [1, 2],
    "bool": [True, False],
    "string": [b"a", b"bc"],
    "complex64": [1 + 2j, 3],
    "complex128": [1 + 2j, 3],
}


def of(dtype):
    def forward(x):
        w, b = weights("w", dtype=dtype), weights("b", [1], dtype, initializer=v1.zeros_initializer())
        return tf.cast(tf.matmul(tf.cast(x, dtype), w) + b, tf.float32)

    return forward


def of_all_kinds(x):
    """Trained ones of all dtypes, and others that keep their values."""
    found = dense(x, 1)
    for dtype in TRAINED:
        found += tf.cast(tf.matmul(tf.cast(x, dtype), weights(dtype.name, dtype=dtype)), tf.float32)
    for name, values in KEPT.items():
        one = tf.Variable(tf.constant(values, name), trainable=False, name=name)
        if name == "string":
            found += tf.cast(tf.strings.length(one[1]), tf.float32)
        elif name == "bool":
            found = tf.where(one[0], found, -found)
        else:
            found += 0.1 * tf.cast(tf.math.real(one[0]), tf.float32)
    return found


def cell_by_hand(x):
    """A gated cell, unrolled by Python."""
    state = tf.zeros([tf.shape(x)[0], 3])
    for number in range(3):
        with v1.variable_scope("cell", reuse=number > 0):
            both = tf.concat([x[:, 2 * number : 2 * number + 2], state], 1)
            gate, new = tf.sigmoid(dense(both, 3, "gate")), tf.tanh(dense(both, 3, "new"))
            state = gate * state + (1 - gate) * new
    return dense(state, 1)


def cell_in_a_loop(x):
    """Its variables are made inside of the loop."""

    def body(number, state):
        with v1.variable_scope("cell", reuse=v1.AUTO_REUSE):
            both = tf.concat([tf.gather(x, [number], axis=1), state], 1)
            return number + 1, tf.tanh(dense(both, 3))

    _, state = tf.while_loop(lambda number, _: number < 6, body, [0, tf.zeros([tf.shape(x)[0], 3])])
    return dense(state, 1)


def transformed(x):
    """Attention among the features of an example."""
    parts = tf.reshape(x, [-1, 3, 2])
    query, key, value = (tf.einsum("bsi,ihd->bshd", parts, weights(name, [2, 2, 3])) for name in ("q", "k", "v"))
    scores = tf.nn.softmax(tf.einsum("bshd,bthd->bhst", query, key) / np.sqrt(3.0))
    found = tf.einsum("bhst,bthd,hdo->bso", scores, value, weights("o", [2, 3, 1]))
    return tf.reduce_mean(found, 1)


def through_python(x):
    """Whatever Python is called with goes back as it came, or doubled."""
    copied = tf.ensure_shape(tf.numpy_function(lambda values: values * 2, [x], tf.float32), x.shape)
    tripled = tf.py_function(lambda values: values * 3, [x], tf.float32)
    old = v1.py_func(lambda values: values - 1, [x], tf.float32, stateful=False)
    return dense(copied, 1) + dense(tf.ensure_shape(tripled, x.shape) + tf.ensure_shape(old, x.shape), 1, "other")


def with_summaries(x):
    outputs = dense(x, 1)
    v1.summary.scalar("mean", tf.reduce_mean(outputs))
    v1.summary.histogram("outputs", outputs)
    for variable in v1.trainable_variables():
        v1.summary.scalar(variable.op.name, tf.norm(variable))
    return outputs


def with_checks(x):
    with tf.control_dependencies([v1.assert_less(tf.abs(x), 1e6), v1.check_numerics(x, "x")]):
        return v1.Print(dense(x, 1), [tf.shape(x)], first_n=0) + 0 * tf.cast(tf.size(tf.unique(x[:, 0])[0]), tf.float32)


def decomposed(x):
    """Linear algebra, whose gradients are long."""
    w = weights(shape=[6, 6])
    positive = tf.matmul(w, w, transpose_a=True) + tf.eye(6)
    found = tf.linalg.triangular_solve(tf.linalg.cholesky(positive), tf.transpose(x))
    return tf.transpose(found)[:, :1] + dense(x, 1) + 0.1 * tf.linalg.logdet(positive)


def sorted_and_chosen(x):
    logits = dense(x, 4)
    values, places = tf.math.top_k(logits, 2)
    parts = tf.dynamic_partition(values[:, 0], tf.cast(places[:, 0] > 1, tf.int32), 2)
    return tf.reduce_sum(values * tf.gather(weights("of_places", [4]), places), 1, True) + tf.reduce_sum(parts[0]) / 9


def classes(outputs, labels):
    wanted = tf.cast(labels[:, 0] > 0, tf.int32)
    return v1.losses.sparse_softmax_cross_entropy(wanted, outputs) + v1.losses.hinge_loss(wanted, outputs[:, 1])


def of_two_classes(x):
    return dense(tf.nn.elu(dense(x, 5, "first")), 2, "second")


SHAPES = [
    *[Shape(of(dtype), joined=dtype.size > 2, name=f"of_{dtype.name}") for dtype in TRAINED],
    Shape(of_all_kinds, optimizer=v1.train.GradientDescentOptimizer),
    Shape(cell_by_hand, joined=True),
    Shape(cell_in_a_loop, joined=True),
    Shape(transformed, joined=True),
    Shape(through_python, joined=True),
    Shape(with_summaries, joined=True),
    Shape(with_checks, joined=True),
    Shape(decomposed),
    Shape(sorted_and_chosen, optimizer=v1.train.AdagradOptimizer),
    Shape(of_two_classes, loss=classes, joined=True),
]
