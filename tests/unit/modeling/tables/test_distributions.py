"""The distributions that initializers are known by."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.modeling.tables.distributions import LIMIT, Distribution, distribution_of

GIVEN = np.ones([7, 2], np.float32)


@pytest.mark.parametrize(
    ("initializer", "expected"),
    [
        (None, Distribution("uniform", -LIMIT, LIMIT)),
        (0.5, Distribution("constant", 0.5, 0.5)),
        (np.float32(0.5), Distribution("constant", 0.5, 0.5)),
        (np.array(2), Distribution("constant", 2.0, 2.0)),
        (v1.zeros_initializer, Distribution("constant", 0.0, 0.0)),
        (tf.keras.initializers.Ones(), Distribution("constant", 1.0, 1.0)),
        (v1.constant_initializer([0.25]), Distribution("constant", 0.25, 0.25)),
        (tf.keras.initializers.Constant(0.25), Distribution("constant", 0.25, 0.25)),
        (v1.random_uniform_initializer(-1, 2, seed=3), Distribution("uniform", -1, 2, 3)),
        (tf.keras.initializers.TruncatedNormal(1.0, 0.5, seed=4), Distribution("truncated", 1.0, 1.5, 4)),
        (v1.constant_initializer(GIVEN), None),
        (tf.constant_initializer(GIVEN), None),
        (tf.keras.initializers.Constant(GIVEN), None),
        (GIVEN, None),
        (v1.orthogonal_initializer(), None),
    ],
)
def test_an_initializer_is_known_by_its_distribution(initializer: Any, expected: Distribution | None) -> None:
    assert distribution_of(initializer) == expected
