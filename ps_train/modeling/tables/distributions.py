"""Distributions of initializers whose values can be drawn for any rows of a table independently.

distribution_of(v1.random_normal_initializer(0.0, 0.1))     # Distribution("normal", 0.0, 0.1)
distribution_of(v1.orthogonal_initializer())                # None: its values depend on the whole
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

LIMIT = 0.05
"""Bound of the default initial values, which are uniform as in Keras's embeddings."""


@dataclasses.dataclass(frozen=True)
class Distribution:
    """A distribution of initial values.

    The standard form of a kind is uniform from 0 to 1, or normal with mean 0 and deviation 1.

    Attributes:
      kind: "constant", "uniform", "normal", or "truncated" (normal, within two deviations of the mean).
      zero: value that 0 of the standard form is mapped to; the value of a constant.
      one: value that 1 of the standard form is mapped to.
      seed: the initializer's own seed, if it has one.
    """

    kind: str
    zero: float
    one: float
    seed: int | None = None


def distribution_of(initializer: Any) -> Distribution | None:
    """Returns the distribution of an initializer, or None if its values depend on the whole variable.

    Args:
      initializer: an initializer of TensorFlow or Keras, its class, a number, or None for the default.
    """
    if initializer is None:
        return Distribution("uniform", -LIMIT, LIMIT)
    if isinstance(initializer, int | float | np.ndarray | np.generic) and np.ndim(initializer) == 0:
        return Distribution("constant", float(initializer), float(initializer))
    if isinstance(initializer, type):
        initializer = initializer()
    config = initializer.get_config() if hasattr(initializer, "get_config") else {}
    name = type(initializer).__name__.lower().replace("_", "")
    seed = config.get("seed") if isinstance(config.get("seed"), int) else None
    if "uniform" in name and config.keys() >= {"minval", "maxval"} and config["maxval"] is not None:
        return Distribution("uniform", config["minval"], config["maxval"], seed)
    if "normal" in name and config.keys() >= {"mean", "stddev"}:
        kind = "truncated" if "truncated" in name else "normal"
        return Distribution(kind, config["mean"], config["mean"] + config["stddev"], seed)
    for kind, value in (("zeros", 0.0), ("ones", 1.0)):
        if kind in name:
            return Distribution("constant", value, value)
    constant = constant_of(initializer)
    if constant is None or constant.size != 1:
        return None
    return Distribution("constant", float(constant.reshape(())), float(constant.reshape(())))


def constant_of(initializer: Any) -> np.ndarray[Any, Any] | None:
    """Returns the values of an initializer of constants; None for another one."""
    value = getattr(initializer, "value", None)
    is_constant = "constant" in type(initializer).__name__.lower() and value is not None
    return np.asarray(value) if is_constant else None
