"""Synthetic pictures of ten shapes, in the form of CIFAR-10: for trying a model of images without data.

    images, labels = synthetic_shapes("train")      # uint8 [5000, 32, 32, 3], int64 [5000]; SHAPES[label] is the name

A shape is lighter than its background.  Colours, places, sizes and noise are random, and the same in every process.
A mirrored picture shows the same shape.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["SHAPES", "synthetic_shapes"]

_Array = np.ndarray[Any, Any]

_COUNTS = {"train": 5000, "test": 1000}
_SEEDS = {"train": 1, "test": 2}
_SIZE = 32
_NOISE = 28
"""Largest change of a colour value by noise."""

_CONTRAST = 90.0
"""Least distance of the shape's colour from the background's."""


def _ring(u: _Array, v: _Array) -> _Array:
    radius = np.hypot(u, v)
    return (radius < 1) & (radius > 0.6)


def _frame(u: _Array, v: _Array) -> _Array:
    distance = np.maximum(abs(u), abs(v))
    return (distance < 0.9) & (distance > 0.55)


def _is_inside(u: _Array, v: _Array) -> _Array:
    return np.maximum(abs(u), abs(v)) < 1


def _stripes(u: _Array) -> _Array:
    """Returns where the stripes across `u` are: three, with two gaps, over -1..1."""
    return np.floor((u + 1) * 2.5) % 2 == 0


_MASKS: dict[str, Callable[[_Array, _Array], _Array]] = {
    "disc": lambda u, v: np.hypot(u, v) < 1,
    "ring": _ring,
    "square": lambda u, v: np.maximum(abs(u), abs(v)) < 0.9,
    "frame": _frame,
    "triangle": lambda u, v: (v < 0.8) & (abs(u) < (v + 1) / 1.8),
    "plus": lambda u, v: _is_inside(u, v) & (np.minimum(abs(u), abs(v)) < 0.25),
    "saltire": lambda u, v: _is_inside(u, v) & (abs(abs(u) - abs(v)) < 0.3),
    "horizontal stripes": lambda u, v: _is_inside(u, v) & _stripes(v),
    "vertical stripes": lambda u, v: _is_inside(u, v) & _stripes(u),
    "checkers": lambda u, v: _is_inside(u, v) & (_stripes(u) == _stripes(v)),
}
"""Name to a function of a pixel's place, from -1 to 1 to the right (u) and down (v): is the pixel part of the shape?"""

SHAPES = tuple(_MASKS)


@functools.lru_cache(maxsize=2)
def synthetic_shapes(split: str) -> tuple[_Array, _Array]:
    """Returns images uint8 [n, 32, 32, 3] and labels int64 [n]: 5,000 for "train", 1,000 for "test".

    The arrays are read-only, because all calls return the same ones.
    """
    random = np.random.RandomState(_SEEDS[split])  # numpy guarantees its stream across versions
    labels = random.permutation(np.arange(_COUNTS[split]) % len(SHAPES))
    images = _paint(_shape_masks(random, labels), random)
    for array in (images, labels):
        array.flags.writeable = False
    return images, labels


def _shape_masks(random: np.random.RandomState, labels: _Array) -> _Array:
    """Returns the pixels of each image's shape, bool [n, 32, 32]; a shape is 14 to 24 pixels wide and all visible."""
    count = len(labels)
    radius = random.uniform(7, 12, count)
    middle = radius[:, None] + random.uniform(size=(count, 2)) * (_SIZE - 2 * radius[:, None])
    pixels = np.arange(_SIZE) + 0.5
    down, right = ((pixels - middle[:, i, None]) / radius[:, None] for i in (0, 1))
    found = np.zeros((count, _SIZE, _SIZE), bool)
    for number, name in enumerate(SHAPES):
        chosen = labels == number
        found[chosen] = _MASKS[name](right[chosen, None, :], down[chosen, :, None])
    return found


def _paint(masks: _Array, random: np.random.RandomState) -> _Array:
    """Returns pictures with a colour for the shape, another for the background, and noise, uint8 [n, 32, 32, 3]."""
    count = len(masks)
    back = random.uniform(0, 130, (count, 3))
    direction = abs(random.normal(size=(count, 3)))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    front = back + direction * random.uniform(_CONTRAST, 2 * _CONTRAST, (count, 1))
    colours = np.stack([back, front], axis=1).astype(np.int16)
    painted = colours[np.arange(count)[:, None, None], masks.astype(np.int8)]
    painted += random.randint(-_NOISE, _NOISE + 1, painted.shape, np.int8)
    return np.clip(painted, 0, 255).astype(np.uint8)
