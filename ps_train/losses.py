"""Losses for clicks and rankings: help: ranking#losses."""

from __future__ import annotations

from ps_train.modeling.losses import focal, listwise, pairwise, sigmoid, softmax

__all__ = ["focal", "listwise", "pairwise", "sigmoid", "softmax"]
