"""The model's own summaries and a description of the job in the chief's event file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.config.fields import job_fields
from ps_train.config.job import Job
from ps_train.engine.variables.plan import Plan
from ps_train.observe.progress.progress import EventFile

_SCOPE = re.compile(r"(^|/)model(?:_\d+)?/")
"""The name scope in which a model is built; a summary's family stands before it."""


class SummaryHook(v1.train.SessionRunHook):
    """A hook that writes the model's summaries at every multiple of --summary_steps and at the last step.

    Args:
      summaries: string tensors, each a serialized Summary.
      step: int64 scalar, the global step after the update.
      next_step: returns the global step that the next call is expected to reach.
      file: gets the summaries.
    """

    def __init__(
        self,
        summaries: Sequence[tf.Tensor],
        job: Job,
        step: tf.Tensor,
        next_step: Callable[[], int],
        file: EventFile,
    ) -> None:
        self._summaries, self._job, self._step = list(summaries), job, step
        self._next_step, self._file = next_step, file
        self._known = 0

    def resumed(self, step: int) -> None:
        """Begins at the step at which a session begins."""
        self._known = step

    def before_run(self, run_context: Any) -> v1.train.SessionRunArgs:
        """Returns the fetches of the hook: the step, and the summaries if they are due."""
        step, every = self._next_step(), self._job.summary_steps
        is_due = step // every > self._known // every or step >= self._job.max_steps > self._known
        return v1.train.SessionRunArgs({"step": self._step, "summaries": self._summaries if is_due else []})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Writes the summaries that were fetched."""
        written = run_values.results["summaries"]
        if written:
            self._known = int(run_values.results["step"])
            values = [value for text in written for value in v1.Summary.FromString(text).value]
            for value in values:
                value.tag = _SCOPE.sub(r"\1", value.tag, count=1)
            self._file.add(v1.Summary(value=values), self._known)


def text_of(job: Job, plan: Plan) -> str:
    """Returns flags and plan of a job in Markdown."""
    values = {field.name: getattr(job, field.name) for field in job_fields(type(job))}
    flags = [f"--{name}={_shown(value)}" for name, value in values.items() if value is not None]
    return "\n".join(["Flags:", "", *_code(flags), "", "Plan:", "", *_code(plan.table().splitlines())])


def _code(lines: Sequence[str]) -> list[str]:
    """Returns lines that Markdown shows as they are."""
    return [f"    {line}" for line in lines]


def _shown(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
