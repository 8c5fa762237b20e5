"""Optimizers that touch only the rows of a batch: docs/MODELS.md."""

from __future__ import annotations

from ps_train.modeling.optimizers import Adagrad, LazyAdam, RowWiseAdagrad

__all__ = ["Adagrad", "LazyAdam", "RowWiseAdagrad"]
