"""The update mode that a job asks for."""

from __future__ import annotations

from ps_train.config.fault_spec import dropped_share
from ps_train.config.job import Job
from ps_train.engine.updates.modes.base import UpdateMode


def make_update(job: Job, replicas: int, may_skip: bool = False) -> UpdateMode:
    """Returns the update mode that the job asks for.

    Args:
      job: has the flags.
      replicas: number of replicas at the start.
      may_skip: True if the model leaves out some pushes.
    """
    from ps_train.engine.updates.modes.asynchronous import Asynchronous
    from ps_train.engine.updates.modes.bounded import Bounded
    from ps_train.engine.updates.modes.stale_gradients import stale_gradient_rules
    from ps_train.engine.updates.modes.synchronous import Synchronous

    may_be_empty = may_skip or job.may_skip or job.may_run_out_of_input or job.is_dynamic
    may_be_empty = may_be_empty or dropped_share(job.inject_fault) > 0
    if job.update == "sync":
        backups = job.wait_limits(replicas).lower
        return Synchronous(may_be_empty or job.epochs > 0, job.max_steps, backups, bool(job.save_steps))
    rules = stale_gradient_rules(job)
    if job.update == "bounded":
        return Bounded(may_be_empty, job.max_steps, rules)
    return Asynchronous(may_be_empty, job.max_steps, rules)
