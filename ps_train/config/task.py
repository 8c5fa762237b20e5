"""The Task: the position of this process in the job."""

from __future__ import annotations

import dataclasses

from ps_train.config.fields import job_field
from ps_train.config.validators import at_least, one_of, optional

JOB_NAMES = ("ps", "worker", "chief", "evaluator", "local")


@dataclasses.dataclass(frozen=True)
class Task:
    """Job name and task index of a process: `Task("ps", 0)` is written ps:0."""

    job_name: str = job_field("local", "task", "What this process is.", one_of(JOB_NAMES), common=True)
    task_index: int | None = job_field(
        None, "task", "Which task of its job, counted from 0.", optional(at_least(0)), common=True
    )

    def with_default_index(self) -> Task:
        """Returns the task with the index 0 if it has none."""
        return self if self.task_index is not None else dataclasses.replace(self, task_index=0)

    def __str__(self) -> str:
        return f"{self.job_name}:{self.task_index}"
