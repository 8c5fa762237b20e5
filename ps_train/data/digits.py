"""The handwritten digits that ship with the package: 1,797 images of 8x8; every fifth belongs to the test split.

    images, labels = load("train")      # float32 [1438, 64] in 0..1, int64 [1438]

Source and licence: ps_train/data/digits.LICENSE.
"""

from __future__ import annotations

import importlib.resources
from typing import Any

import numpy as np

__all__ = ["load"]

_TEST_EVERY = 5


def load(split: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Returns images float32 [n, 64] in 0..1 and labels int64 [n] of the split "train" or "test"."""
    with importlib.resources.files("ps_train.data").joinpath("digits.npz").open("rb") as file:
        stored = np.load(file)
        images, labels = stored["images"], stored["labels"]
    is_test = np.arange(len(labels)) % _TEST_EVERY == _TEST_EVERY - 1
    in_split = is_test if split == "test" else ~is_test
    return images[in_split].astype(np.float32) / 16.0, labels[in_split].astype(np.int64)
