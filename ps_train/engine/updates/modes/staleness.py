"""Summary of staleness: the number of updates made between a gradient's pull and its apply.

    summary(counts)         # {"mean": 0.9, "p95": 2, "max": 5, "conflict_rate": 0.6, "histogram": {"0": 400, ...}}

Counts are int64 [replicas, BINS], as they are kept on ps 0.  The last bin counts staleness of BINS - 1 or more.
"""

from __future__ import annotations

from typing import Any

import numpy as np

BINS = 257


def summary(counts: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Summarizes the staleness of all replicas together, or of one row.

    Args:
      counts: int64 [replicas, BINS] or [BINS], updates by staleness.

    Returns:
      mean, p95 and max of the staleness, its histogram, and `conflict_rate`: the share of updates with any staleness.
    """
    total = counts if counts.ndim == 1 else counts.sum(axis=0)
    updates = int(total.sum())
    if updates == 0:
        return {"mean": 0.0, "p95": 0, "max": 0, "conflict_rate": 0.0, "histogram": {}}
    bins = np.arange(len(total))
    return {
        "mean": round(float(total @ bins) / updates, 4),
        "p95": int(np.searchsorted(np.cumsum(total), 0.95 * updates)),
        "max": int(bins[total > 0].max()),
        "conflict_rate": round(1 - int(total[0]) / updates, 4),
        "histogram": {str(bin): int(total[bin]) for bin in bins[total > 0]},
    }


def report(counts: np.ndarray[Any, Any], names: list[str]) -> dict[str, Any]:
    """Returns the summary of all replicas, and under `per_worker` that of each replica by its name."""
    return {**summary(counts), "per_worker": {name: summary(row) for name, row in zip(names, counts, strict=True)}}
