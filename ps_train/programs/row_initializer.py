"""The initializer of some rows of a variable, made of the initializer of the whole variable.

row_initializer(v1.glorot_uniform_initializer(), [1000, 16])       # uniform, within the limit of the whole variable
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as v1

from ps_train.embeddings.distributions import constant_of, distribution_of

_DEVIATION_OF_TRUNCATED = 0.87962566103423978
"""Standard deviation of a standard normal number within two deviations: `scipy.stats.truncnorm(-2, 2).std()`."""


def row_initializer(initializer: Any, shape: Sequence[int]) -> Any:
    """Returns an initializer for any rows of a variable, or its rows; None if its values depend on all rows.

    Args:
      initializer: the variable's initializer, as given to `get_variable`.
      shape: the shape of the variable.
    """
    if initializer is None:
        initializer = v1.glorot_uniform_initializer()
    initializer = initializer() if isinstance(initializer, type) else initializer
    if all(hasattr(initializer, name) for name in ("scale", "mode", "distribution")):
        return _scaled(initializer, shape)
    if distribution_of(initializer) is not None:
        return initializer
    values = initializer if isinstance(initializer, np.ndarray) else constant_of(initializer)
    return values.reshape(shape) if values is not None and values.size == math.prod(shape) else None


def _scaled(initializer: Any, shape: Sequence[int]) -> Any:
    """Returns the distribution of a VarianceScaling initializer for the whole shape."""
    fan_in, fan_out = (shape[0], shape[1]) if len(shape) == 2 else (shape[0], shape[0])
    fans = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}
    variance, seed = initializer.scale / max(1.0, fans[initializer.mode]), getattr(initializer, "seed", None)
    if initializer.distribution == "uniform":
        limit = math.sqrt(3.0 * variance)
        return v1.random_uniform_initializer(-limit, limit, seed)
    if initializer.distribution == "untruncated_normal":
        return v1.random_normal_initializer(0.0, math.sqrt(variance), seed)
    return v1.truncated_normal_initializer(0.0, math.sqrt(variance) / _DEVIATION_OF_TRUNCATED, seed)
