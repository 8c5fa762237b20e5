"""Optimizers that touch only the rows of a batch: help: models#optimizers."""

from __future__ import annotations

from ps_train.modeling.optimizers import Adagrad, LazyAdam, RowWiseAdagrad

__all__ = ["Adagrad", "LazyAdam", "RowWiseAdagrad"]
