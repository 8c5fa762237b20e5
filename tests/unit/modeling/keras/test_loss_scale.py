"""The dynamic factor of a loss."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tests.support.keras_rules import (
    KO,
    STARTS,
    traced,
)


def test_a_loss_scale_changes_as_that_of_keras() -> None:
    optimizer = KO.LossScaleOptimizer(KO.Adam(0.1), initial_scale=4.0, dynamic_growth_steps=2)
    rules, variables = traced(optimizer, 1)
    assert rules.optimizer_name == "Adam" and rules.loss_scale is not None
    scale, counter = tf.constant(rules.loss_scale.scale), tf.constant(rules.loss_scale.counter)
    for finite in (True, True, False, True, False, True, True):
        value = 1.0 if finite else np.inf
        given = [tf.fill(one.shape, tf.constant(value)) for one in STARTS.values()]
        optimizer.apply(given, list(variables.values()))
        scale, counter = rules.loss_scale.following(scale, counter, tf.constant(finite))
        assert (scale.numpy(), counter.numpy()) == (optimizer.dynamic_scale.numpy(), optimizer.step_counter.numpy())
