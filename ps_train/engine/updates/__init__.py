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

Files:

    adaptation.py            The chief's hook that measures a job and changes the values that follow the measurements
    adaptation_policy.py     The choice of values that follow measurements: batch size, wait limits, push codec
    adapted_value.py         A number in the graph of a step that follows measurements, in a variable on ps 0; or a
                               fixed one
    apply_gradients.py       Application of gradients on one ps, by the optimizers that the model asks for
    asynchronous.py          Asynchronous updates: every gradient is applied when it arrives, independently of other
                               replicas
    base.py                  Common interface of all update modes
    batch_size_control.py    A batch size that follows the network: its variable on ps 0, and its way to the workers
    bounded.py               Bounded staleness (stale synchronous parallel): asynchronous updates with a limited lead
                               over the slowest replica
    counter_values.py        Values of the counters of a run, which are the variables of `updates.base.RunCounters`
    event_cut_table.py       The next cut of a stream by event time, and which partitions have reached it: variables on
                               ps 0
    follower_shard.py        A ps that follows the first ps's decisions about synchronous rounds (`sync_rounds.py`)
    gradient_accumulator.py  Accumulator of a round's gradients on one ps: one vector for each parcel that replicas
                               push
    momentum_correction.py   Momentum on the worker, for a push codec that sends few of the values (Lin et al
    push_guard.py            Guards of a push: functions that take the vectors of a push and return the vectors to
                               send instead
    quorum.py                Membership and completion of a round of synchronous updates, as pure functions of tensors
    rack_ops.py              The operations of a worker of a rack, and the device on which its workers meet
    rack_round.py            The rack's part of a synchronous round: its workers add up their gradients on one of
                               them, the aggregator
    residuals.py             The end of a training with a lossy push codec: what the pushes have left out is applied
    run_counters.py          The counters of a whole run, in variables on ps 0; checkpoints keep some of them
    shard_ownership.py       Ownership of data shards: a variable on ps 0 that replicas change by compare-and-set
    shard_progress.py        The examples that a ps has used: the cursor of each data shard
                               (`data/shards/shard_layout.py`)
    sparse_accumulator.py    Accumulator of a round's row gradients on one ps, stored as each replica pushed them
                               until the round is complete
    stale_gradients.py       Rules for stale gradients: those whose values were pulled some updates ago
    staleness.py             Summary of staleness: the number of updates made between a gradient's pull and its apply
    sync_rounds.py           The part of a synchronous round on each ps: a replica's push, and a replica's removal
    synchronous.py           Synchronous updates: each is the mean, weighted by examples, of one gradient from every
                               replica of its round
    token_gate.py            Gate on a ps at which replicas wait for a number there to grow
    transforms.py            Gradient clipping: by value, by each variable's norm, by the global norm
    wait_time.py             Time that steps wait for other replicas, measured on ps 0 by its own clock
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
