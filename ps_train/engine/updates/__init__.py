"""Update modes: the rules by which pushed gradients become new values."""

from __future__ import annotations

from typing import Any

from ps_train.config.fault_spec import dropped_share
from ps_train.config.job import Job
from ps_train.engine.updates.base import UpdateMode


def make_update(job: Job) -> UpdateMode:
    """Returns the update mode that the job asks for."""
    from ps_train.engine.updates.asynchronous import Asynchronous
    from ps_train.engine.updates.bounded import Bounded
    from ps_train.engine.updates.synchronous import Synchronous

    may_be_empty = job.may_skip or job.may_run_out_of_input or job.is_dynamic or dropped_share(job.inject_fault) > 0
    if job.update == "sync":
        return Synchronous(may_be_empty or job.epochs > 0, job.max_steps, job.backup_workers)
    options: dict[str, Any] = {
        "may_be_empty": may_be_empty,
        "max_steps": job.max_steps,
        "max_staleness": job.max_staleness,
        "divide_lr_by_staleness": job.divide_lr_by_staleness,
        "delay_compensation": job.delay_compensation,
    }
    return Bounded(job.max_steps_ahead, **options) if job.update == "bounded" else Asynchronous(**options)
