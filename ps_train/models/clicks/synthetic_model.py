"""The model that synthetic clicks are drawn from.  It is known, so a trained model can be compared with it.

    model = SyntheticClickModel(seed=1)
    clicks = model.draw(np.random.default_rng([1, 0]), 10_000)
    model.probabilities(clicks)                     # float64 [10000], about a quarter of them clicked

The logit of a click:

    logit = bias + sum over integers: slope * (log(1 + integer) - its mean), or the field's effect of a missing value
                 + sum over categories: an effect of the value; missing is a value like any other
                 + sum over pairs of fields: an effect of the pair of values

The values of a category are Zipf-distributed; fields have between three and two hundred values.  Integers and
categories are drawn independently.  Some are always present, some are mostly missing.  The module does not use
TensorFlow.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ps_train.data.criteo.format import CATEGORIES, INTEGERS

Array = np.ndarray[Any, Any]

CLICK_RATE = 0.25
"""Mean probability of a click."""

_VOCABULARY = (12, 30, 100, 100, 8, 6, 60, 10, 3, 100, 30, 100, 40, 6, 60, 100, 5, 40, 20, 4, 200, 4, 6, 100, 10, 60)
_MISSING_CATEGORY = np.zeros(CATEGORIES)
_MISSING_CATEGORY[[2, 3, 11, 15, 20, 23]] = 0.03
_MISSING_CATEGORY[[5, 18, 19, 24, 25, 21]] = 0.12, 0.44, 0.44, 0.44, 0.44, 0.76
_MISSING_INTEGER = (0.45, 0, 0.21, 0.22, 0.03, 0.22, 0.04, 0, 0.04, 0.45, 0.04, 0.76, 0.22)
_ZIPF = 2.0
_EVEN = 2
"""Added to the rank of a value; it lowers the share of the most frequent value."""

_PAIRS = ((8, 16), (5, 21))
"""Pairs of fields, counted from 0, with a joint effect; fields of few values, so few lines suffice to learn it."""

_EFFECT, _PAIR_EFFECT, _SLOPE = 0.24, 0.25, 0.35
"""Standard deviations, in units of the logit."""

_CALIBRATION_EXAMPLES = 50_000


@dataclasses.dataclass(frozen=True)
class Clicks:
    """Examples without labels.

    Attributes:
      integers: float64 [n, 13], NaN where missing.
      categories: int64 [n, 26], -1 where missing.
    """

    integers: Array
    categories: Array


class SyntheticClickModel:
    """A model of clicks whose parameters are drawn from a seed."""

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng([seed, 1 << 20])
        self._mean = random.uniform(0.5, 4.0, INTEGERS)
        self._spread = random.uniform(0.6, 1.6, INTEGERS)
        self._slope = random.normal(0, _SLOPE, INTEGERS) / self._spread
        self._missing_effect = random.normal(0, _SLOPE, INTEGERS)
        self._shares = [_zipf(size) for size in _VOCABULARY]
        self._effects = [random.normal(0, _EFFECT, size + 1) for size in _VOCABULARY]  # the last is for a missing value
        self._pairs = [self._pair(random, *pair) for pair in _PAIRS]
        self._ids = [identities(field, size) for field, size in enumerate(_VOCABULARY)]
        self._order = [np.argsort(ids) for ids in self._ids]
        self._bias = 0.0
        self._bias = _bias_for(self.logits(self.draw(random, _CALIBRATION_EXAMPLES)))

    def _pair(self, random: np.random.Generator, first: int, second: int) -> Array:
        """Returns the effects of all pairs of values of two fields, float64 [first values + 1, second values + 1].

        An effect is a product of one factor for each field.  The factors vary around 1, because gradient descent is
        slow to find products whose mean over either field is 0.
        """
        factors = []
        for field in (first, second):
            weights = np.append(
                np.diff(self._shares[field], prepend=0) * (1 - _MISSING_CATEGORY[field]), _MISSING_CATEGORY[field]
            )
            deviations = random.normal(0, 1, _VOCABULARY[field] + 1)
            deviations -= np.sum(weights * deviations)
            factors.append(1 + deviations / np.sqrt(np.sum(weights * deviations**2)))
        return _PAIR_EFFECT * np.outer(*factors)

    def draw(self, random: np.random.Generator, count: int) -> Clicks:
        """Draws `count` examples."""
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
        """Returns the logit of each example, float64 [n]; a category unknown to the model counts as missing."""
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
        """Returns the probability that each example is clicked, float64 [n]."""
        return 1 / (1 + np.exp(-self.logits(clicks)))

    def _ranks(self, field: int, ids: Array) -> Array:
        """Returns each id's rank in the field's vocabulary: 0 is the most frequent value, the last a missing one."""
        order, known = self._order[field], self._ids[field]
        ranks = order[np.minimum(np.searchsorted(known, ids, sorter=order), len(known) - 1)]
        return np.where(known[ranks] == ids, ranks, len(known))


def identities(field: int, count: int) -> Array:
    """Returns distinct 32-bit ids of a field's values, int64 [count].

    They are consecutive numbers mixed by MurmurHash3's finalizer, which is one-to-one.
    """
    mask = np.uint64(0xFFFFFFFF)
    numbers = (np.arange(count, dtype=np.uint64) + np.uint64(0x9E3779B9 * (field + 1))) & mask
    for factor, shift in ((0x85EBCA6B, 16), (0xC2B2AE35, 13), (1, 16)):
        numbers ^= numbers >> np.uint64(shift)
        numbers = (numbers * np.uint64(factor)) & mask
    return numbers.astype(np.int64)


def _zipf(count: int) -> Array:
    """Returns the cumulative shares of the ranks."""
    shares = (np.arange(count) + float(_EVEN)) ** -_ZIPF
    return np.cumsum(shares) / shares.sum()


def _bias_for(logits: Array) -> float:
    """Returns the bias that makes the mean probability CLICK_RATE, found by bisection."""
    low, high = -20.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        rate = np.mean(1 / (1 + np.exp(-(logits + middle))))
        low, high = (middle, high) if rate < CLICK_RATE else (low, middle)
    return low
