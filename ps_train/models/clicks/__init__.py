"""Synthetic click data in the format of the Criteo challenge, for trying models without data."""

from __future__ import annotations

from ps_train.models.clicks.cache import cached_synthetic_data
from ps_train.models.clicks.synthetic import best_scores

__all__ = ["best_scores", "cached_synthetic_data"]
