"""Adam's kernel against Keras's Adam."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.modeling.keras.kernel import AdamKernel


@pytest.mark.parametrize("beta_2", [0.999, 0.99, 0.9999])
def test_fifty_updates_are_those_of_keras(beta_2: float) -> None:
    random, rate = np.random.default_rng(1), 0.01
    start = random.normal(size=(40, 8)).astype("f")
    gradients = [(random.normal(size=start.shape) * 10.0 ** random.integers(-3, 2)).astype("f") for _ in range(50)]
    theirs, optimizer = keras.Variable(start), keras.optimizers.Adam(rate, beta_2=beta_2)
    optimizer.build([theirs])
    for gradient in gradients:
        optimizer.apply([tf.constant(gradient)], [theirs])
    kernel = AdamKernel(0.9, beta_2, 1e-7)
    with tf.Graph().as_default(), v1.Session() as session:
        variable, m, v = (v1.Variable(value, use_resource=True) for value in (start, 0 * start, 0 * start))
        gradient, iterations = v1.placeholder(tf.float32, start.shape), v1.placeholder(tf.int64, [])
        shared = kernel.shared(tf.constant(rate), iterations)
        update = kernel.apply(variable, {"momentum": m, "velocity": v}, gradient, shared)
        session.run(v1.global_variables_initializer())
        for number, value in enumerate(gradients):
            session.run(update, {gradient: value, iterations: number})
        ours, momentum, velocity = session.run([variable, m, v])
    np.testing.assert_allclose(ours, theirs.numpy(), atol=1e-6)
    own = {slot.name.rpartition("_")[2]: slot.numpy() for slot in optimizer.variables}
    np.testing.assert_allclose(momentum, own["momentum"], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(velocity, own["velocity"], rtol=3e-4)
