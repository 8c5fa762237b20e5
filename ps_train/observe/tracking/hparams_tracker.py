"""TensorBoard's hyperparameters: the flags of a run beside its scalars, in the chief's event file.

The dashboard HPARAMS then compares the runs below one --logdir, by any scalar as the metric.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as v1

from ps_train.observe.tracking.tracked_run import TrackedRun
from ps_train.observe.tracking.tracking import Point, RefusedRunError, RunEnd

NAME = "tensorboard-hparams"


class HparamsTracker:
    """The hyperparameters of a run in its event file, which has the points already.

    Args:
      add_summary: writes a summary at a step.
    """

    def __init__(self, add_summary: Callable[[Any, int], None]) -> None:
        self._add_summary, self._step = add_summary, 0

    def load(self) -> None:
        """Imports TensorBoard; see `Tracker.load`."""
        try:
            import tensorboard.plugins.hparams.summary_v2  # noqa: F401
        except ImportError as error:
            raise RefusedRunError(f"tensorboard cannot be imported ({error})") from error

    def begin(self, run: TrackedRun) -> str:
        """Writes the hyperparameters; see `Tracker.begin`."""
        from tensorboard.plugins.hparams.summary_v2 import hparams_pb

        values, name = dict(run.hyperparameters), run.run_id
        if run.trial is not None:  # each execution has a row, and the number under which the study shows it
            values, name = {"trial": run.trial, **values}, f"{run.parent} {run.name.removesuffix('/model')}"
        found = hparams_pb(values, trial_id=name, start_time_secs=run.start_time)
        self._write(found)
        return ""

    def send(self, points: Sequence[Point], tags: Mapping[str, str]) -> None:
        """Remembers the step: the points are in the event file."""
        self._step = points[-1].step if points else self._step

    def end(self, end: RunEnd) -> None:
        """Writes the state of the run; see `Tracker.end`."""
        from tensorboard.plugins.hparams.api_pb2 import STATUS_FAILURE, STATUS_SUCCESS
        from tensorboard.plugins.hparams.summary import session_end_pb

        self._write(session_end_pb(STATUS_SUCCESS if end.state == "done" else STATUS_FAILURE))

    def abandon(self) -> None:
        """Does nothing: the thread ends with the process."""

    def _write(self, summary: Any) -> None:
        self._add_summary(v1.Summary.FromString(summary.SerializeToString()), self._step)
