"""Update modes: the rules by which pushed gradients become new values.

The idea: all modes take the same push and differ in one question: when does a gradient become a new value?  The
answer is given on the ps, under its lock.  A worker that must wait ends its step at a gate there, which costs no
message.

Data structures: `UpdateMode` (`base.py`) is the interface, `StepOps` what a mode gives to a step, `ParameterShard`
one ps's part of the model.  `RoundState` is a round of `sync`, `ReplicaClocks` the steps of each replica under
`bounded`.  A `StaleGradientRule` slows or drops stale gradients under `async` and `bounded`.  A `BatchSize`,
like any `AdaptedValue`, is fixed or follows measurements, by one `Adaptation`.  `RunCounters` count for the whole run,
on ps 0.

A new mode is one file here, a new rule one class.  Transforms of gradients (clipping, L2) run on the worker before the
push.  No module here knows how values travel.
"""

from __future__ import annotations

from ps_train.config.fault_spec import dropped_share
from ps_train.config.job import Job
from ps_train.engine.updates.base import UpdateMode


def make_update(job: Job, replicas: int) -> UpdateMode:
    """Returns the update mode that the job asks for; `replicas` is their number at the start."""
    from ps_train.engine.updates.adaptation_policy import STRAGGLERS, Ladder
    from ps_train.engine.updates.adapted_value import AdaptedValue
    from ps_train.engine.updates.asynchronous import Asynchronous
    from ps_train.engine.updates.bounded import Bounded
    from ps_train.engine.updates.stale_gradients import stale_gradient_rules
    from ps_train.engine.updates.synchronous import Synchronous

    may_be_empty = job.may_skip or job.may_run_out_of_input or job.is_dynamic or dropped_share(job.inject_fault) > 0
    if job.update == "sync":
        backups = AdaptedValue("backup_workers", Ladder(job.backup_limits(replicas).values, STRAGGLERS))
        return Synchronous(
            may_be_empty or job.epochs > 0, job.max_steps, backups, bool(job.save_steps) and not job.has_racks
        )
    rules = stale_gradient_rules(job)
    if job.update == "bounded":
        lead = AdaptedValue("max_steps_ahead", Ladder(job.steps_ahead_limits.values, STRAGGLERS))
        return Bounded(lead, may_be_empty, job.max_steps, rules)
    return Asynchronous(may_be_empty, job.max_steps, rules)
