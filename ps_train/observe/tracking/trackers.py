"""The tracking of a job: its queue, with the tracker that --track names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ps_train.config.job import Job
from ps_train.observe.status.board import Board
from ps_train.observe.tracking.hparams_tracker import HparamsTracker
from ps_train.observe.tracking.mlflow_tracker import MlflowTracker
from ps_train.observe.tracking.tracking import Findings, Tracker, Tracking
from ps_train.observe.tracking.wandb_tracker import WandbTracker


def make_tracking(job: Job, board: Board, add_summary: Callable[[Any, int], None]) -> Tracking:
    """Returns the tracking of a job; its thread begins with `begin`.

    Args:
      job: `track` names the tracker.
      board: the state of the job.
      add_summary: writes a summary into the event file at a step.
    """
    makers: dict[str, Callable[[], Tracker]] = {
        "mlflow": MlflowTracker,
        "wandb": WandbTracker,
        "tensorboard-hparams": lambda: HparamsTracker(add_summary),
    }
    make = makers.get(job.track)
    return Tracking(make() if make else None, job.track, Findings(board.evaluations, board.health))
