"""The parts of an Estimator that training loops and hooks use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from ps_train.specs.run_config import RunConfig


@runtime_checkable
class EstimatorLike(Protocol):
    """An Estimator, or an object that has its methods."""

    @property
    def config(self) -> RunConfig:
        """The settings."""

    @property
    def model_dir(self) -> str:
        """The directory of checkpoints and events."""

    train: Callable[..., Any]
    evaluate: Callable[..., Any]
    export_saved_model: Callable[..., Any]
    latest_checkpoint: Callable[[], str | None]


def check_estimator(estimator: Any) -> None:
    """Raises TypeError for an object that is not an Estimator."""
    if not isinstance(estimator, EstimatorLike):
        raise TypeError(
            f"estimator={estimator!r} is of type {type(estimator).__name__}: use a ps_train.estimator.Estimator."
        )
