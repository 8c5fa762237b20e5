"""Convolutions and poolings against loops in numpy (point 71)."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.tf1.contrib import ContribModule
from ps_train.compat.tf1.legacy import keras_names

layers = ContribModule("tensorflow.layers", {}, keras_names("layers"))

IMAGES = np.random.default_rng(5).normal(size=(2, 6, 7, 3)).astype(np.float32)


def windows(x, size, stride):
    """Windows [rows, columns] of images, each [batch, size, size, channels]."""
    rows, columns = (1 + (length - size) // stride for length in x.shape[1:3])
    return [
        [x[:, r * stride : r * stride + size, c * stride : c * stride + size] for c in range(columns)]
        for r in range(rows)
    ]


def over(x, size, stride, function):
    found = [[function(window) for window in row] for row in windows(x, size, stride)]
    return np.array(found).transpose(2, 0, 1, 3)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
def test_point_71_conv2d_is_a_sum_over_windows(run, stride, data_format):
    is_first = data_format == "channels_first"
    x = IMAGES.transpose(0, 3, 1, 2) if is_first else IMAGES
    outputs = layers.conv2d(
        tf.constant(x), 4, [3, 3], strides=(stride, stride), data_format=data_format, activation=tf.nn.relu,
        bias_initializer=v1.constant_initializer(0.25),
    )  # fmt: skip
    found = run.values()
    assert {name: value.shape for name, value in found.items()} == {"conv2d/kernel": (3, 3, 3, 4), "conv2d/bias": (4,)}
    expected = over(IMAGES, 3, stride, lambda window: np.einsum("bijc,ijcf->bf", window, found["conv2d/kernel"]))
    expected = np.maximum(expected + 0.25, 0)
    np.testing.assert_allclose(run(outputs), expected.transpose(0, 3, 1, 2) if is_first else expected, atol=1e-4)


def test_point_71_same_padding_keeps_the_size(run):
    outputs = layers.conv2d(tf.constant(IMAGES), 2, 5, padding="same", name="c")
    assert outputs.shape.as_list() == [2, 6, 7, 2]
    padded = np.pad(IMAGES, ((0, 0), (2, 2), (2, 2), (0, 0)))
    expected = over(padded, 5, 1, lambda window: np.einsum("bijc,ijcf->bf", window, run.values()["c/kernel"]))
    np.testing.assert_allclose(run(outputs), expected, atol=1e-4)


def test_point_71_conv1d_is_a_sum_over_steps(run):
    x = IMAGES[:, 0]
    outputs = layers.conv1d(tf.constant(x), 2, 3)
    kernel = run.values()["conv1d/kernel"]
    expected = np.stack([np.einsum("bic,icf->bf", x[:, i : i + 3], kernel) for i in range(5)], 1)
    np.testing.assert_allclose(run(outputs), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("pool", "reduce"), [(layers.max_pooling2d, np.max), (layers.average_pooling2d, np.mean)], ids=["max", "mean"]
)
def test_point_71_pooling_reduces_each_window(run, pool, reduce):
    expected = over(IMAGES, 2, 2, lambda window: reduce(window, axis=(1, 2)))
    np.testing.assert_allclose(run(pool(tf.constant(IMAGES), 2, 2)), expected, atol=1e-6)
    first = pool(tf.constant(IMAGES.transpose(0, 3, 1, 2)), [2, 2], (2, 2), data_format="channels_first")
    np.testing.assert_allclose(run(first), expected.transpose(0, 3, 1, 2), atol=1e-6)


def test_unknown_channels_are_refused(run):
    with pytest.raises(ValueError, match="channel dimension of the inputs should be defined"):
        layers.conv2d(v1.placeholder(tf.float32, [None, 4, 4, None]), 2, 2)


def test_sizes_given_as_text_are_converted(run):
    images = tf.ones([1, 6, 6, 2])
    outputs = layers.conv2d(images, "3", ("2", "3"), strides="2", use_bias=False)
    assert outputs.shape.as_list() == [1, 3, 2, 3]
    assert layers.max_pooling2d(outputs, "2", "1").shape.as_list() == [1, 2, 1, 3]
    np.testing.assert_allclose(run(outputs)[0, 0, 0], run.values()["conv2d/kernel"].sum((0, 1, 2)), rtol=1e-4)
    with pytest.raises(ValueError, match=r"^kernel_size: 'x' is not a whole number$"):
        layers.conv2d(images, 3, "x")
    with pytest.raises(ValueError, match=r"^filters: 'x' is not a whole number$"):
        layers.conv2d(images, "x", 3)
