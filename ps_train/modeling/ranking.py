"""Metrics of ranked rows, within groups or among all: AUC, precision, recall and NDCG; in numpy.

    ranked = Ranked(labels, scores, groups)
    ranked.auc(), ranked.recall_at(10)

Rows with equal scores have no order.  Each value is the mean over all their orders, so that it does not depend on the
order in which rows were read.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class Ranked:
    """Rows in the order of their groups and scores.

    Args:
      labels: [n]; a row with a label above 0 is positive.
      scores: [n].
      groups: [n], keys of the groups; None: one group.
    """

    def __init__(self, labels: Array, scores: Array, groups: Array | None = None) -> None:
        self._order = np.argsort(scores, kind="stable") if groups is None else np.lexsort((scores, groups))
        self._labels = np.asarray(labels, np.float64)[self._order]
        self._positive = self._labels > 0
        scores, keys = scores[self._order], None if groups is None else groups[self._order]
        first_of_group = _changes(keys) if keys is not None else np.arange(len(scores)) == 0
        first_of_tie = first_of_group | _changes(scores)
        self._group, self._tie = np.cumsum(first_of_group) - 1, np.cumsum(first_of_tie) - 1
        self._tie_starts, self._group_starts = np.flatnonzero(first_of_tie), np.flatnonzero(first_of_group)
        self._group_of_tie = self._group[self._tie_starts]

    def auc(self, weights: Array | None = None) -> float:
        """Returns the share of pairs of a group whose positive row has the higher score, ties counted half.

        The groups' shares are averaged by the weights of their rows.  Groups without pairs count nothing.

        Args:
          weights: of the rows, [n]; None: 1 for all.

        Returns:
          The share; NaN without pairs.
        """
        weights = np.ones(len(self._order)) if weights is None else weights[self._order]
        ties, groups = len(self._tie_starts), len(self._group_starts)
        positives = np.bincount(self._tie, weights * self._positive, ties)
        negatives = np.bincount(self._tie, weights * ~self._positive, ties)
        of_group = [np.bincount(self._group_of_tie, one, groups) for one in (positives, negatives)]
        before = np.cumsum(of_group[1]) - of_group[1]  # negatives of the groups before
        below = np.cumsum(negatives) - negatives / 2 - before[self._group_of_tie]
        pairs = of_group[0] * of_group[1]
        has_pairs = pairs > 0
        if not has_pairs.any():
            return float("nan")
        areas = np.bincount(self._group_of_tie, positives * below, groups)[has_pairs] / pairs[has_pairs]
        return float(np.average(areas, weights=(of_group[0] + of_group[1])[has_pairs]))

    def precision_at(self, k: int) -> float:
        """Returns the mean over groups of the share of positive rows among the k highest; NaN without rows.

        Args:
          k: number of rows; all rows of a smaller group are taken.
        """
        sizes = self._sizes()
        return _mean(self._found(self._positive, np.arange(k + 1.0)), np.minimum(sizes, k))

    def recall_at(self, k: int) -> float:
        """Returns the mean over groups of the share of their positive rows that are among the k highest.

        Args:
          k: number of rows.

        Returns:
          The mean over the groups with a positive row; NaN without such a group.
        """
        return _mean(self._found(self._positive, np.arange(k + 1.0)), self._sum_in_group(self._positive))

    def ndcg_at(self, k: int) -> float:
        """Returns the mean over groups of the discounted gain of the k highest rows over the largest possible gain.

        A row's gain is its label over log2(1 + rank), with rank 1 for the highest (Järvelin and Kekäläinen 2002).

        Args:
          k: number of rows.

        Returns:
          The mean over the groups with a positive row; NaN without such a group.
        """
        k = min(k, int(self._sizes().max(initial=0)))
        discounts = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(k) + 2))])
        ideal_order = np.lexsort((-self._labels, self._group))
        ranks = np.minimum(np.arange(len(self._labels)) - self._group_starts[self._group], k)
        each = np.append(np.diff(discounts), 0.0)[ranks]
        return _mean(self._found(self._labels, discounts), self._sum_in_group(self._labels[ideal_order] * each))

    def _sizes(self) -> Array:
        return np.diff(np.append(self._group_starts, len(self._order)))

    def _sum_in_group(self, values: Array) -> Array:
        return np.bincount(self._group, values, len(self._group_starts))

    def _found(self, gains: Array, discounts: Array) -> Array:
        """Returns the discounted gains of each group.

        Args:
          gains: of the rows in their order, [n].
          discounts: sums of the discounts of the highest 0, 1, ... k rows, [k + 1].
        """
        k = len(discounts) - 1
        ends = np.append(self._tie_starts[1:], len(self._order))
        end_of_group = np.append(self._group_starts[1:], len(self._order))[self._group_of_tie]
        taken = (
            discounts[np.minimum(end_of_group - self._tie_starts, k)] - discounts[np.minimum(end_of_group - ends, k)]
        )
        mean = np.bincount(self._tie, gains, len(ends)) / (ends - self._tie_starts)
        return np.bincount(self._group_of_tie, mean * taken, len(self._group_starts))


def _changes(ordered: Array) -> Array:
    """Returns for each value whether it differs from the one before it; True for the first."""
    return np.concatenate([np.ones(min(1, len(ordered)), bool), ordered[1:] != ordered[:-1]])


def _mean(found: Array, possible: Array) -> float:
    """Returns the mean of found / possible where something is possible; NaN if nothing is."""
    counts = possible > 0
    return float((found[counts] / possible[counts]).mean()) if counts.any() else float("nan")
