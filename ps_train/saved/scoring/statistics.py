"""Numbers of two models on the same rows: AUC, log-loss, calibration, and intervals of their differences.

    pair = Pair(labels, probabilities_of_a, probabilities_of_b)
    pair.metrics()                                      # {"auc": (0.71, 0.72), ...}
    intervals({"all": (pair, np.arange(n))}, n, resamples=1000, seed=0)     # {"all": {"auc": (0.004, 0.016), ...}}

numpy only.  The intervals are those of a paired bootstrap by rows (Efron and Tibshirani 1993, "An Introduction to the
Bootstrap", chapter 13): each resample draws rows once, for both models.  A row is drawn a number of times that has
Poisson's distribution with mean 1.  For many rows that is drawing with replacement, and it needs no list of rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ps_train.modeling.ranking import Ranked

Array = np.ndarray[Any, Any]

METRICS = ("auc", "log_loss", "calibration")

LEAST = float(np.finfo(np.float32).eps)
"""Probabilities nearer to 0 or 1 count as this far from it in the log-loss, which is then finite."""


class Pair:
    """The probabilities that two models give to the same rows.

    Args:
      labels: 0 or 1, [n].
      first: probabilities of the first model, [n].
      second: those of the second one.
    """

    def __init__(self, labels: Array, first: Array, second: Array) -> None:
        self._labels = np.asarray(labels, np.float64)
        self._scores = [np.asarray(one, np.float64) for one in (first, second)]
        self._ranked = [Ranked(self._labels, one) for one in self._scores]
        self._losses = [_losses(self._labels, one) for one in self._scores]

    def __len__(self) -> int:
        return len(self._labels)

    def metrics(self, weights: Array | None = None) -> dict[str, tuple[float, float]]:
        """Returns each metric of both models; NaN where it is not defined.

        Args:
          weights: of the rows, [n]; None: 1 for all.
        """
        weights = np.ones(len(self)) if weights is None else weights
        total, seen = weights.sum(), (weights * self._labels).sum()
        found = {
            "auc": [ranked.auc(weights) for ranked in self._ranked],
            "log_loss": [(weights * one).sum() / total if total else np.nan for one in self._losses],
            "calibration": [(weights * one).sum() / seen if seen else np.nan for one in self._scores],
        }
        return {name: (float(first), float(second)) for name, (first, second) in found.items()}


def intervals(
    pairs: Mapping[str, tuple[Pair, Array]], rows: int, resamples: int, seed: int, share: float = 0.95
) -> dict[str, dict[str, tuple[float, float]]]:
    """Returns the interval of the second model's metric minus the first one's, for each of some sets of rows.

    Args:
      pairs: name to a pair and the numbers of its rows among all.
      rows: number of all rows; a resample draws them once for all sets.
      resamples: number of resamples.
      seed: of the generator.
      share: of the resamples that lie within an interval, as many above it as below it.
    """
    generator = np.random.default_rng(seed)
    differences: dict[str, dict[str, list[float]]] = {name: {metric: [] for metric in METRICS} for name in pairs}
    for _ in range(resamples):
        weights = generator.poisson(1.0, rows).astype(np.float64)
        for name, (pair, numbers) in pairs.items():
            for metric, (first, second) in pair.metrics(weights[numbers]).items():
                differences[name][metric].append(second - first)
    ends = [(1 - share) / 2, (1 + share) / 2]
    return {
        name: {metric: _quantiles(values, ends) for metric, values in found.items()}
        for name, found in differences.items()
    }


def _quantiles(values: list[float], ends: list[float]) -> tuple[float, float]:
    known = [value for value in values if not np.isnan(value)]
    if not known:
        return (float("nan"), float("nan"))
    low, high = np.quantile(known, ends)
    return (float(low), float(high))


def _losses(labels: Array, probabilities: Array) -> Array:
    inside = np.clip(probabilities, LEAST, 1 - LEAST)
    return -np.log(np.where(labels > 0, inside, 1 - inside))
