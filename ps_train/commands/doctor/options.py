"""The doctor's own flags, as a value."""

from __future__ import annotations

import dataclasses

from ps_train.config.job import Job


@dataclasses.dataclass(frozen=True)
class Options:
    """The doctor's own flags.

    Attributes:
      plan_only: True for the plan alone, without network and servers.
      wait_secs: how long other tasks' doctors may take; None for the job's start-up time, at most a minute.
    """

    plan_only: bool = False
    wait_secs: float | None = None

    def wait(self, job: Job) -> float:
        """Returns the seconds to wait for other tasks."""
        return min(job.startup_timeout_secs, 60.0) if self.wait_secs is None else self.wait_secs
