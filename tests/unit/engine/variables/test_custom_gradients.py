"""Custom gradients and averages of trained variables, which TensorFlow makes from what it knows of variables."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from tests.support.graphs.tracing import refusal, traced, values_of, weights


@tf.custom_gradient
def doubled(values):
    def backwards(upstream):
        return 2 * upstream

    return tf.identity(values), backwards


def recomputed_of_what_is_outside(features):
    w = weights()
    return tf.recompute_grad(lambda values: tf.tanh(values @ w) + features @ w)(features)


def recomputed_of_what_is_made_inside(features):
    return tf.recompute_grad(lambda values: values @ weights())(features)


def with_a_gradient_of_its_own(features):
    w = weights()
    return tf.custom_gradient(lambda values: (values @ w, lambda upstream: upstream @ tf.transpose(w)))(features)


@pytest.mark.parametrize(
    "forward",
    [recomputed_of_what_is_outside, recomputed_of_what_is_made_inside, with_a_gradient_of_its_own],
)
def test_a_variable_whose_gradient_a_custom_gradient_would_lose_is_refused(forward):
    message = refusal(lambda features: forward(features) + features @ weights("other"))
    assert message.startswith("a function with a gradient of its own")
    assert "uses variable w, which would get no gradient: give it to the function as an argument." in message


def test_variables_that_a_custom_gradient_is_given_or_stops_are_learned():
    def forward(features):
        w, v, still = weights(), weights("v"), weights("still")
        found = tf.recompute_grad(lambda values, w: values @ (w + tf.stop_gradient(still)))(features, w)
        return doubled(features @ v) + doubled(doubled(found)) + features @ still

    assert traced(forward).with_gradient() == ["w", "v", "still"]


def test_averages_of_trained_variables_begin_with_their_initial_values():
    def forward(features):
        w = weights()
        average = v1.train.ExponentialMovingAverage(0.9)
        with tf.control_dependencies([average.apply([w])]):
            return features @ w

    found = traced(forward)
    assert found.state() == ["w/ExponentialMovingAverage"]
    values = values_of(found)
    np.testing.assert_array_equal(values["w/ExponentialMovingAverage"], values["w"])


def test_an_initial_value_that_is_not_guarded_is_refused():
    assert "use its initialized_value()" in refusal(lambda features: features @ weights().initial_value)
