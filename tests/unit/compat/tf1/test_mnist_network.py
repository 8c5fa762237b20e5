"""The network of TensorFlow 1's tutorial."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from ps_train.compat.tf1 import mnist_network as mnist

IMAGES = np.random.default_rng(1).normal(size=[6, mnist.IMAGE_PIXELS]).astype(np.float32)
LABELS = [0, 1, 2, 3, 4, 5]


def test_the_logits_are_those_of_two_hidden_layers(run) -> None:
    logits = run(mnist.inference(tf.constant(IMAGES), 8, 4))
    values = run.values()
    assert sorted(values) == sorted(
        f"{layer}/{part}" for layer in ("hidden1", "hidden2", "softmax_linear") for part in ("weights", "biases")
    )
    found = IMAGES
    for layer in ("hidden1", "hidden2", "softmax_linear"):
        found = found @ values[f"{layer}/weights"] + values[f"{layer}/biases"]
        found = np.maximum(found, 0) if layer != "softmax_linear" else found
    np.testing.assert_allclose(logits, found, rtol=1e-4, atol=1e-5)
    assert np.abs(values["hidden1/weights"]).max() <= 2 / np.sqrt(784) + 1e-6


def test_training_lowers_the_loss_and_counts_its_steps(run) -> None:
    logits = mnist.inference(tf.constant(IMAGES), 8, 4)
    loss = mnist.loss(logits, LABELS)
    step = mnist.training(loss, 0.1)
    before = run(loss)
    for _ in range(20):
        run(step)
    values = run.values()
    assert run(loss) < before and values["global_step"] == 20


def test_the_loss_and_the_number_of_right_images(run) -> None:
    logits = np.zeros([3, 10], np.float32)
    logits[0, 4] = logits[1, 7] = logits[2, 0] = 2.0
    probability = np.exp(2) / (np.exp(2) + 9)
    loss = run(mnist.loss(tf.constant(logits), [4, 7, 1]))
    np.testing.assert_allclose(loss, -np.log([probability, probability, (1 - probability) / 9]).mean(), rtol=1e-5)
    assert run(mnist.evaluation(tf.constant(logits), [4, 7, 1])) == 2
