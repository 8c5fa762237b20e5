"""The models for MNIST: their data, and their outputs against numpy."""

from __future__ import annotations

import itertools
import pathlib

import numpy as np
import pytest

from ps_train.models.mnist import Mlp, Softmax
from tests.support.graphs.plain_models import PlainModel

PIXELS = np.random.default_rng(1).integers(0, 256, (3, 28, 28)).astype(np.uint8)


def idx_file(path: pathlib.Path, values: np.ndarray) -> None:
    header = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">u4").tobytes()
    path.write_bytes(header + values.astype(np.uint8).tobytes())


@pytest.mark.parametrize("kind", [Softmax, Mlp])
def test_images_are_rows_of_bytes_and_labels_numbers(tmp_path: pathlib.Path, kind: type) -> None:
    idx_file(tmp_path / "t10k-images-idx3-ubyte", PIXELS)
    idx_file(tmp_path / "t10k-labels-idx1-ubyte", np.array([7, 0, 9]))
    data = kind().data("test", str(tmp_path))
    np.testing.assert_array_equal(data.features, PIXELS.reshape(3, 784))
    assert data.features.dtype == np.uint8 and data.labels.dtype == np.int64 and data.labels.tolist() == [7, 0, 9]


@pytest.mark.parametrize(("model", "hidden"), [(Softmax(), []), (Mlp(), [256, 128]), (Mlp(5, 4), [5, 4])])
def test_outputs_are_those_of_numpy_for_pixels_from_0_to_1(model: Softmax | Mlp, hidden: list[int]) -> None:
    pixels = PIXELS.reshape(3, 784)
    plain = PlainModel(model, pixels)
    scaled = pixels.astype(np.float64) / 255
    expected = plain.perceptron(scaled, len(hidden)) if hidden else plain.dense(scaled, "softmax")
    np.testing.assert_allclose(plain.run(), expected, rtol=1e-4, atol=1e-3)
    sizes = [784, *hidden, 10]
    shapes = [value.shape for value in plain.variables.values() if value.ndim == 2]
    assert shapes == [*itertools.pairwise(sizes)]
