"""Metrics that are those of all examples over any number of workers: help: models#metrics."""

from __future__ import annotations

from ps_train.modeling.metrics import (
    auc,
    calibration,
    calibration_bins,
    grouped_auc,
    log_loss,
    ndcg_at,
    normalized_entropy,
    of_clicks,
    precision_at,
    recall_at,
)

__all__ = [
    "auc",
    "calibration",
    "calibration_bins",
    "grouped_auc",
    "log_loss",
    "ndcg_at",
    "normalized_entropy",
    "of_clicks",
    "precision_at",
    "recall_at",
]
