"""The perceptron of the shipped digits."""

from __future__ import annotations

import numpy as np
import pytest

from ps_train.data import digits
from ps_train.models.digits import Digits
from tests.support.graphs.plain_models import PlainModel


@pytest.mark.parametrize(("split", "count"), [("train", 1438), ("test", 359)])
def test_its_data_are_the_shipped_digits(split: str, count: int) -> None:
    data = Digits().data(split, "/nowhere")
    images, labels = digits.load(split)
    assert len(data) == count
    np.testing.assert_array_equal(data.features, images)
    np.testing.assert_array_equal(data.labels, labels)


@pytest.mark.parametrize(("arguments", "hidden"), [({}, 256), ({"hidden": 5}, 5)])
def test_its_outputs_are_those_of_numpy_for_pixels_around_zero(arguments: dict[str, int], hidden: int) -> None:
    images = digits.load("test")[0][:3]
    plain = PlainModel(Digits(**arguments), images)
    assert {name: value.shape for name, value in plain.variables.items()} == {
        "hidden1/weights": (64, hidden),
        "hidden1/bias": (hidden,),
        "logits/weights": (hidden, 10),
        "logits/bias": (10,),
    }
    np.testing.assert_allclose(plain.run(), plain.perceptron(2 * images - 1, 1), rtol=1e-4, atol=1e-3)
