"""The MNIST models on files made here."""

from __future__ import annotations

import gzip
import pathlib
import struct

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.models.classifier import Classifier
from ps_train.models.mnist import Mlp, Softmax

IMAGES = np.random.default_rng(1).integers(0, 256, [6, 28, 28]).astype(np.uint8)
LABELS = np.array([0, 1, 2, 9, 4, 5], np.uint8)


@pytest.fixture
def files(tmp_path: pathlib.Path) -> str:
    for name in ("train", "t10k"):
        images = struct.pack(">IIII", 0x803, *IMAGES.shape) + IMAGES.tobytes()
        labels = struct.pack(">II", 0x801, len(LABELS)) + LABELS.tobytes()
        (tmp_path / f"{name}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
        (tmp_path / f"{name}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))
    return str(tmp_path)


@pytest.mark.parametrize("split", ["train", "test"])
def test_images_are_rows_of_bytes(files: str, split: str) -> None:
    data = Softmax().data(split, files)
    np.testing.assert_array_equal(data.features, IMAGES.reshape(6, 784))
    assert data.features.dtype == np.uint8 and data.labels.dtype == np.int64 and data.labels.tolist() == LABELS.tolist()


@pytest.mark.parametrize(("model", "shapes"), [(Softmax(), [(784, 10)]), (Mlp(5, 3), [(784, 5), (5, 3), (3, 10)])])
def test_pixels_are_scaled_to_1_before_the_layers(model: Classifier, shapes: list[tuple[int, int]]) -> None:
    pixels = IMAGES.reshape(6, 784)
    with tf.Graph().as_default(), v1.Session() as session:
        logits = model.forward(tf.constant(pixels), training=True)
        session.run(v1.global_variables_initializer())
        found, values = session.run([logits, v1.trainable_variables()])
    weights, biases = values[::2], values[1::2]
    assert [weight.shape for weight in weights] == shapes
    right = pixels / 255
    for number, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        right = right @ weight + bias
        right = np.maximum(right, 0) if number < len(weights) - 1 else right
    np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-5)
