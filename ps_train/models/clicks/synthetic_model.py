"""The model that made-up clicks come from: known, so that what a learner reaches can be compared with what there is.

    planted = Planted(seed=1)
    clicks = planted.draw(np.random.default_rng([1, 0]), 10_000)
    planted.probabilities(clicks)                   # float64 [10000], about a quarter of them clicked

    logit = bias + sum over integers of slope * (log(1 + integer) - its mean), or an effect of its own where missing
                 + sum over categories of an effect of each value, a missing one being a value like others
                 + sum over pairs of fields of an effect of each pair of values

Values of a category are Zipf-distributed; some fields have a handful of them, some two hundred.  Integers and
categories are drawn independently of one another; some are always there and some mostly missing.  No TensorFlow.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ps_train.data.criteo.format import CATEGORIES, INTEGERS

Array = np.ndarray[Any, Any]

CLICK_RATE = 0.25

_VOCABULARY = (12, 30, 100, 100, 8, 6, 60, 10, 3, 100, 30, 100, 40, 6, 60, 100, 5, 40, 20, 4, 200, 4, 6, 100, 10, 60)
_MISSING_CATEGORY = np.zeros(CATEGORIES)
_MISSING_CATEGORY[[2, 3, 11, 15, 20, 23]] = 0.03
_MISSING_CATEGORY[[5, 18, 19, 24, 25, 21]] = 0.12, 0.44, 0.44, 0.44, 0.44, 0.76
_MISSING_INTEGER = (0.45, 0, 0.21, 0.22, 0.03, 0.22, 0.04, 0, 0.04, 0.45, 0.04, 0.76, 0.22)
_ZIPF = 2.0
_EVEN = 2
"""Added to the rank of a value, so that the most frequent one is not nearly all there are."""

_PAIRS = ((8, 16), (5, 21))
"""Fields, counted from 0, that act together; of few values each, or nobody could learn it from few lines."""

_EFFECT, _PAIR_EFFECT, _SLOPE = 0.24, 0.25, 0.35
"""Standard deviations, in units of the logit."""

_CALIBRATION = 50_000


@dataclasses.dataclass(frozen=True)
class Clicks:
    """Examples without labels: integers float64 [n, 13], NaN where missing; categories int64 [n, 26], -1 there."""

    integers: Array
    categories: Array


class SyntheticClickModel:
    """One planted model, all of it from a seed."""

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng([seed, 1 << 20])
        self._mean = random.uniform(0.5, 4.0, INTEGERS)
        self._spread = random.uniform(0.6, 1.6, INTEGERS)
        self._slope = random.normal(0, _SLOPE, INTEGERS) / self._spread
        self._missing_effect = random.normal(0, _SLOPE, INTEGERS)
        self._shares = [_zipf(size) for size in _VOCABULARY]
        self._effects = [random.normal(0, _EFFECT, size + 1) for size in _VOCABULARY]  # the last: of a missing one
        self._pairs = [self._pair(random, *pair) for pair in _PAIRS]
        self._ids = [identities(field, size) for field, size in enumerate(_VOCABULARY)]
        self._order = [np.argsort(ids) for ids in self._ids]
        self._bias = 0.0
        self._bias = _bias_for(self.logits(self.draw(random, _CALIBRATION)))

    def _pair(self, random: np.random.Generator, first: int, second: int) -> Array:
        """Products of a number for each value of either field.  The numbers are around 1: gradient descent finds
        products late whose mean over either field is 0."""
        sides = []
        for field in (first, second):
            weights = np.append(
                np.diff(self._shares[field], prepend=0) * (1 - _MISSING_CATEGORY[field]), _MISSING_CATEGORY[field]
            )
            side = random.normal(0, 1, _VOCABULARY[field] + 1)
            side -= np.sum(weights * side)
            sides.append(1 + side / np.sqrt(np.sum(weights * side**2)))
        return _PAIR_EFFECT * np.outer(*sides)

    def draw(self, random: np.random.Generator, count: int) -> Clicks:
        """That many examples."""
        integers = np.floor(np.exp(self._mean + self._spread * random.standard_normal([count, INTEGERS])))
        integers[:, 1] -= 2  # the challenge's second integer is sometimes negative
        integers[random.random([count, INTEGERS]) < np.array(_MISSING_INTEGER)] = np.nan
        categories = np.empty([count, CATEGORIES], np.int64)
        for field, shares in enumerate(self._shares):
            ranks = np.searchsorted(shares[:-1], random.random(count), side="right")
            categories[:, field] = self._ids[field][ranks]
        categories[random.random([count, CATEGORIES]) < np.array(_MISSING_CATEGORY)] = -1
        return Clicks(integers, categories)

    def logits(self, clicks: Clicks) -> Array:
        """Of every example; categories that the model does not make count as missing."""
        deviation = np.log1p(np.maximum(clicks.integers, 0)) - self._mean
        terms = np.where(np.isnan(clicks.integers), self._missing_effect, self._slope * deviation)
        ranks = np.stack([self._ranks(field, clicks.categories[:, field]) for field in range(CATEGORIES)], axis=1)
        logits = self._bias + terms.sum(axis=1)
        for field, effects in enumerate(self._effects):
            logits += effects[ranks[:, field]]
        for (first, second), effects in zip(_PAIRS, self._pairs, strict=True):
            logits += effects[ranks[:, first], ranks[:, second]]
        return logits

    def probabilities(self, clicks: Clicks) -> Array:
        return 1 / (1 + np.exp(-self.logits(clicks)))

    def _ranks(self, field: int, ids: Array) -> Array:
        """Which value of its vocabulary each is: 0 the most frequent; the last place for missing ones."""
        order, known = self._order[field], self._ids[field]
        places = order[np.minimum(np.searchsorted(known, ids, sorter=order), len(known) - 1)]
        return np.where(known[places] == ids, places, len(known))


def identities(field: int, count: int) -> Array:
    """The 32-bit numbers that stand for the values of a field, all different: the finalizer of MurmurHash3,
    which is one-to-one, of consecutive numbers."""
    mask = np.uint64(0xFFFFFFFF)
    numbers = (np.arange(count, dtype=np.uint64) + np.uint64(0x9E3779B9 * (field + 1))) & mask
    for factor, shift in ((0x85EBCA6B, 16), (0xC2B2AE35, 13), (1, 16)):
        numbers ^= numbers >> np.uint64(shift)
        numbers = (numbers * np.uint64(factor)) & mask
    return numbers.astype(np.int64)


def _zipf(count: int) -> Array:
    """Cumulated shares of the ranks."""
    shares = (np.arange(count) + float(_EVEN)) ** -_ZIPF
    return np.cumsum(shares) / shares.sum()


def _bias_for(logits: Array) -> float:
    """What to add to the logits so that CLICK_RATE is clicked, by bisection."""
    low, high = -20.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        rate = np.mean(1 / (1 + np.exp(-(logits + middle))))
        low, high = (middle, high) if rate < CLICK_RATE else (low, middle)
    return low
