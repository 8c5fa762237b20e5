"""Data in memory.

    Arrays(features={"image": images, "id": ids}, labels=labels)

Every array's first dimension is the number of examples.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from ps_train.errors import DataError


@dataclasses.dataclass(frozen=True)
class Arrays:
    """Examples as numpy arrays.

    Attributes:
      features: one array [n, ...] or a dict of such arrays.
      labels: one array [n, ...].

    Raises:
      DataError: the arrays differ in their number of examples.
    """

    features: np.ndarray[Any, Any] | Mapping[str, np.ndarray[Any, Any]]
    labels: np.ndarray[Any, Any]

    def __post_init__(self) -> None:
        parts = self.features if isinstance(self.features, Mapping) else {"features": self.features}
        lengths = {name: len(values) for name, values in {**parts, "labels": self.labels}.items()}
        if len(set(lengths.values())) > 1:
            shown = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise DataError(f"features and labels differ in number ({shown}): give each example a row in every array.")

    def __len__(self) -> int:
        return len(self.labels)
