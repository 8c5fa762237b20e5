"""Metrics of click models that are exact over any number of workers: docs/MODELS.md."""

from __future__ import annotations

from ps_train.modeling.metrics import auc, calibration, of_clicks

__all__ = ["auc", "calibration", "of_clicks"]
