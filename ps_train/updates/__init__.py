"""When a pushed gradient becomes a new value."""

from __future__ import annotations

from ps_train.config import Job
from ps_train.updates.base import Update


def make_update(job: Job) -> Update:
    """The update mode that a job asks for."""
    from ps_train.updates.asynchronous import Asynchronous
    from ps_train.updates.synchronous import Synchronous

    return {"async": Asynchronous, "sync": Synchronous}[job.update](may_skip=job.on_nan == "skip")
