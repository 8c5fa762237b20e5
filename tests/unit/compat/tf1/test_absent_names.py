"""An absent name is refused in one line with what to use."""

from __future__ import annotations

import pytest

from ps_train.compat.tf1.absent_names import refusal


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("tensorflow.contrib.slim", ".[compat]"),
        ("tensorflow.contrib.slim.nets.resnet", ".[compat]"),
        ("tensorflow.contrib.tpu.TPUEstimator", "TPUs are not supported"),
        ("tensorflow.contrib.unheard", "write it in the script"),
        ("tensorflow.contrib.layers.no_such_layer", "tf.layers, tf.nn or"),
        ("tensorflow.unheard", "tf.compat.v1"),
    ],
)
def test_the_advice_is_that_of_the_longest_name(name, advice):
    found = refusal(name)
    assert found.startswith(f"tf.{name.removeprefix('tensorflow.')} is not in this TensorFlow")
    assert advice in found and "\n" not in found
