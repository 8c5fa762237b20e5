"""`optimize_loss` against the update written out."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.tf1.contrib_optimize_loss import OPTIMIZERS, optimize_loss

START = np.array([3.0, 4.0], np.float32)


def trained(run, steps=1, **options):
    """Minimizes half the square of a variable; returns its values after the steps."""
    weight = v1.get_variable("w", initializer=tf.constant(START))
    step = v1.train.get_or_create_global_step()
    options = {"learning_rate": 0.1, "optimizer": "SGD", "global_step": step, **options}
    train_op = optimize_loss(tf.nn.l2_loss(weight), **options)
    losses = [run(train_op) for _ in range(steps)]
    assert losses[0] == pytest.approx(12.5)
    assert run(step) == steps
    return run(weight)


@pytest.mark.parametrize(
    "optimizer",
    ["SGD", v1.train.GradientDescentOptimizer, lambda rate: v1.train.GradientDescentOptimizer(rate)],
    ids=["name", "class", "function"],
)
def test_an_optimizer_is_a_name_a_class_or_a_function(run, optimizer):
    np.testing.assert_allclose(trained(run, 2, optimizer=optimizer), START * 0.81, rtol=1e-6)


def test_an_optimizer_may_be_an_object(run):
    found = trained(run, learning_rate=None, optimizer=v1.train.GradientDescentOptimizer(0.5))
    np.testing.assert_allclose(found, START * 0.5)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_name_makes_the_loss_smaller(run, name):
    assert (trained(run, 3, optimizer=name) < START).all()


def test_gradients_are_clipped_by_their_norm(run):
    np.testing.assert_allclose(trained(run, clip_gradients=1.0), START - 0.1 * START / 5, rtol=1e-6)


def test_gradients_are_multiplied_by_name_or_variable(run):
    np.testing.assert_allclose(trained(run, gradient_multipliers={"w": 2.0}), START * 0.8, rtol=1e-6)


def test_the_rate_decays_with_the_step(run):
    found = trained(run, 2, learning_rate_decay_fn=lambda rate, step: v1.train.exponential_decay(rate, step, 1, 0.5))
    np.testing.assert_allclose(found, START * 0.9 * 0.95, rtol=1e-6)


def test_updates_run_with_the_step(run):
    moved = v1.get_variable("m", [], initializer=v1.zeros_initializer(), trainable=False)
    v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, v1.assign_add(moved, 1.0))
    trained(run, 3)
    assert run(moved) == 3.0


@pytest.mark.parametrize(
    ("options", "problem"),
    [({"optimizer": "Adamm"}, "use one of Adagrad"), ({"gradient_noise_scale": 1.0}, "not supported")],
)
def test_what_is_not_known_is_refused(run, options, problem):
    with pytest.raises(ValueError, match=problem):
        trained(run, **options)
