"""What initializers draw, where that can be had for any rows of a table apart from the others.

distribution_of(v1.random_normal_initializer(0.0, 0.1))     # Distribution("normal", 0.0, 0.1)
distribution_of(v1.orthogonal_initializer())                # None: its values depend on the whole
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

LIMIT = 0.05
"""Initial values where nothing is said: uniform within this, as those of Keras's embeddings."""


@dataclasses.dataclass(frozen=True)
class Distribution:
    """Attributes:
    kind: "constant", "uniform", "normal", or "truncated" (no further from the mean than two deviations).
    zero, one: what 0 and 1 become of the standard form, which is uniform from 0 to 1, or of mean 0 and deviation 1.
    seed: the initializer's own, if it has one.
    """

    kind: str
    zero: float
    one: float
    seed: int | None = None


def distribution_of(initializer: Any) -> Distribution | None:
    """Of an initializer, its class, a number, or None for what is usual."""
    if initializer is None:
        return Distribution("uniform", -LIMIT, LIMIT)
    if isinstance(initializer, int | float):
        return Distribution("constant", initializer, initializer)
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
    for kind, value in (("zeros", 0.0), ("ones", 1.0), ("constant", config.get("value"))):
        if kind in name and value is not None and np.ndim(value) == 0:
            return Distribution("constant", float(value), float(value))
    return None
