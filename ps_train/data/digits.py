"""The handwritten digits that ship with the package: 1,797 images of 8x8, of which every fifth is the test split.

    images, labels = load("train")      # float32 [1438, 64] in 0..1, int64 [1438]

Source and licence: ps_train/data/digits.LICENSE.
"""

from __future__ import annotations

import importlib.resources
from typing import Any

import numpy as np

_TEST_EVERY = 5


def load(split: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Images float32 [n, 64] in 0..1 and labels int64 [n] of the split "train" or "test"."""
    with importlib.resources.files("ps_train.data").joinpath("digits.npz").open("rb") as file:
        stored = np.load(file)
        images, labels = stored["images"], stored["labels"]
    is_test = np.arange(len(labels)) % _TEST_EVERY == _TEST_EVERY - 1
    chosen = is_test if split == "test" else ~is_test
    return images[chosen].astype(np.float32) / 16.0, labels[chosen].astype(np.int64)
