"""How stale updates were: of each, the updates that were made between its pull and its apply.

    summary(counts)         # {"mean": 0.9, "p95": 2, "max": 5, "conflict_rate": 0.6, "histogram": {"0": 400, ...}}

Counts are int64 [replicas, BINS], as they are kept on ps 0; the last bin holds what is stale by BINS - 1 or more.
"""

from __future__ import annotations

from typing import Any

import numpy as np

BINS = 257


def summary(counts: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Of all replicas together (or of one row).  `conflict_rate` is the share of updates with any staleness."""
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
    """The summary of all, and of each replica by its name."""
    return {**summary(counts), "per_worker": {name: summary(row) for name, row in zip(names, counts, strict=True)}}
