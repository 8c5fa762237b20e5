"""When a pushed gradient becomes a new value."""

from __future__ import annotations

from ps_train.config import Job
from ps_train.updates.base import Update


def make_update(job: Job) -> Update:
    """The update mode that a job asks for."""
    from ps_train.updates.asynchronous import Asynchronous
    from ps_train.updates.synchronous import Synchronous

    may_skip = job.on_nan == "skip" or job.accumulate > 1  # the input may end within the batches of one push
    if job.update == "sync":
        return Synchronous(may_skip)
    return Asynchronous(may_skip, job.max_staleness, job.staleness_lr, job.delay_compensation)
