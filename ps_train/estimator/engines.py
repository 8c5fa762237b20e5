"""The engines that train an Estimator."""

from __future__ import annotations

from ps_train.estimator.run_config import RunConfig
from ps_train.estimator.training_run import TrainingRun
from ps_train.estimator.unfused import train_unfused
from ps_train.estimator.unfused_cluster import serve_unfused


def train(run: TrainingRun) -> int:
    """Trains with the engine that the configuration asks for; returns the global step at the end."""
    return train_unfused(run)


def serve(config: RunConfig) -> None:
    """Serves as a ps until all workers have ended."""
    serve_unfused(config)
