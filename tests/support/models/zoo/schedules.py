"""The global step in the model and in its optimizer, and optimizers of all kinds."""

from __future__ import annotations

import tensorflow as tf
import tensorflow.compat.v1 as v1

from tests.support.models.zoo.shape import Shape, dense, of_prefixes, plain_network


def annealed(x):
    """Layers that fade in with the step."""
    share = 1.0 - tf.exp(-0.2 * tf.cast(v1.train.get_global_step(), tf.float32))
    return dense(x, 1, "first") * (1 - share) + share * dense(tf.tanh(dense(x, 4, "second")), 1, "third")


def annealed_in_a_branch(x):
    step = v1.train.get_or_create_global_step()
    late = tf.cond(step > 7, lambda: dense(x, 1, "late"), lambda: tf.zeros([tf.shape(x)[0], 1]))
    return dense(x, 1, "early") + late


def decaying(rate):
    step = v1.train.get_global_step()
    return v1.train.AdamOptimizer(v1.train.exponential_decay(rate, step, 3, 0.8, staircase=True))


def piecewise(rate):
    step = v1.train.get_or_create_global_step()
    return v1.train.GradientDescentOptimizer(v1.train.piecewise_constant(step, [4, 9], [rate, rate / 2, rate / 10]))


def warming_up(rate):
    step = tf.cast(v1.train.get_global_step(), tf.float32)
    return v1.train.MomentumOptimizer(tf.cond(step < 6, lambda: rate * step / 6, lambda: rate), 0.9, use_nesterov=True)


def averaging(rate):
    return v1.train.AdagradDAOptimizer(0.5, v1.train.get_global_step(), l1_regularization_strength=0.001)


def cosine(rate):
    step = v1.train.get_global_step()
    return v1.train.RMSPropOptimizer(v1.train.cosine_decay(rate / 5, step, 12), momentum=0.5, centered=True)


MIXED = of_prefixes(
    first=lambda rate: v1.train.AdamOptimizer(v1.train.polynomial_decay(rate, v1.train.get_global_step(), 12)),
    rest=lambda rate: v1.train.FtrlOptimizer(rate, l2_regularization_strength=0.01),
)

SHAPES = [
    Shape(annealed, joined=True),
    Shape(annealed_in_a_branch),
    Shape(annealed_in_a_branch, control_flow=1, name="annealed_in_a_branch_v1"),
    *[
        Shape(plain_network, optimizer=one, joined=True, name=one.__name__)
        for one in (decaying, piecewise, warming_up, averaging, cosine)
    ],
    Shape(plain_network, optimizer=warming_up, control_flow=1, name="warming_up_v1"),
    Shape(plain_network, optimizer=MIXED, joined=True, name="schedules_by_prefix"),
    *[
        Shape(plain_network, optimizer=one, joined=True, name=one.__name__)
        for one in (
            v1.train.AdadeltaOptimizer,
            v1.train.AdagradOptimizer,
            v1.train.ProximalAdagradOptimizer,
            v1.train.ProximalGradientDescentOptimizer,
        )
    ],
]
