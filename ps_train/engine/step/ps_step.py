"""The ps's part of a training step: the update, and all variables there that it makes.

state = make_ps_state(spec, update)
worker = build_worker_step(spec, update, state)
ps, ops = build_ps_step(spec, update, state, worker)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.data.shards.shard_batches import ShardedBatches
from ps_train.engine.step.graph_spec import GraphSpec
from ps_train.engine.step.ps_state import PsState
from ps_train.engine.step.worker_step import WorkerStep
from ps_train.engine.transport.received_push import ReceivedPush
from ps_train.engine.transport.vocabulary import rebuild_all
from ps_train.engine.updates.following.batch_size_control import learning_rate_divisor
from ps_train.engine.updates.gradients.apply_gradients import OptimizerFactory, PsOptimizer
from ps_train.engine.updates.gradients.momentum_correction import WithoutMomentum
from ps_train.engine.updates.gradients.residuals import Residuals
from ps_train.engine.updates.modes.base import ParameterShard, StepOps, UpdateMode
from ps_train.engine.updates.shards.event_cut_table import EventCutTable
from ps_train.engine.updates.shards.shard_ownership import OwnershipTable
from ps_train.engine.updates.shards.shard_progress import ShardProgress
from ps_train.engine.variables.initialization import initialize_ps
from ps_train.engine.variables.old_rows import OldRows
from ps_train.engine.variables.variables import CheckpointEntry, checkpoint_entries, on_worker, shared_entries
from ps_train.modeling.tables.plain_vocabulary import AFTER_RESTORE
from ps_train.modeling.tables.table import Table


@dataclasses.dataclass(frozen=True)
class PsStep(PsState):
    """The ps's part of a step: the variables that the worker uses, with those of the update.

    Attributes:
      entries: the checkpoint's variables; complete on replica 0 only.
      tables: name to declaration of each table.
      old_rows: the large variables of which updates keep old rows for checkpoints.
      initialize: for each ps, the operation that initializes all variables there.
      uninitialized: bool [entries], True for each variable of `entries` that has no value.
      residuals: what the pushes have left out; None without a push codec.
      ownership: the owners of the data's shards under dynamic sharding, else None.
    """

    entries: list[CheckpointEntry]
    tables: Mapping[str, Table]
    old_rows: list[OldRows]
    initialize: list[tf.Operation]
    uninitialized: tf.Tensor
    residuals: Residuals | None
    ownership: OwnershipTable | None


def build_ps_step(spec: GraphSpec, update: UpdateMode, state: PsState, worker: WorkerStep) -> tuple[PsStep, StepOps]:
    """Builds the update of a step, in the default graph; returns the ps's part, and the operations of the whole step.

    Args:
      spec: specification of the replica's graph.
      update: the update mode.
      state: the variables on the ps so far.
      worker: the worker's part.
    """
    progress = _make_progress(worker.assigned, worker.received)
    optimizers = _make_optimizers(spec, state, worker.momenta)
    shards = _shards(state, optimizers, progress, learning_rate_divisor(spec.job, spec.replica.declared))
    ops = update.build(shards, worker.received, spec.pusher)
    if worker.rack is not None:
        rack = worker.rack.round.ops(ops.train)
        ops = dataclasses.replace(ops, train=[worker.rack.train], step_after=worker.rack.step_after, rack=rack)
    ops = dataclasses.replace(ops, train=[*ops.train, *worker.kept])
    with on_worker(spec.device):
        apply = [optimizer.apply_residuals for optimizer in optimizers]
        residuals = Residuals(worker.encodings, apply, update.scaled) if worker.encodings else None
    ownership = _make_ownership(worker.assigned, progress, state.global_step, spec)
    if ownership is not None:
        ops = _with_release(ops, ownership)
    entries = _all_entries(spec, state, optimizers, worker, progress)
    if ownership is not None and ownership.event_cuts is not None:
        entries.append(ownership.event_cuts.entry)
    initialize = [_initialize(ps, spec, state) for ps in range(spec.plan.num_ps)]
    v1.add_to_collection(AFTER_RESTORE, rebuild_all(state.vocabularies))
    uninitialized = tf.logical_not(tf.stack([v1.is_variable_initialized(entry.variable) for entry in entries]))
    return PsStep(
        **vars(state),
        entries=entries,
        tables=spec.variables.tables_by_name(),
        old_rows=[
            *[old for one in state.vocabularies.values() for old in one.old_rows],
            *[old for one in optimizers for old in one.old_rows.values()],
        ],
        initialize=initialize,
        uninitialized=uninitialized,
        residuals=residuals,
        ownership=ownership,
    ), ops


def _initialize(ps: int, spec: GraphSpec, state: PsState) -> tf.Operation:
    """Returns the operation that initializes the variables on a ps, then the vocabularies, which depend on them."""
    vocabularies = {
        piece.name: state.vocabularies[piece.name]
        for piece in spec.plan.slices_on(ps)
        if piece.name in state.vocabularies
    }
    with tf.control_dependencies([initialize_ps(ps, spec.variables, spec.plan, spec.job.seed)]):
        return rebuild_all(vocabularies)


def _make_optimizers(spec: GraphSpec, state: PsState, momenta: Collection[str]) -> list[PsOptimizer]:
    """Returns the optimizers of each ps; `momenta` names the variables whose momentum is on the worker."""
    model: OptimizerFactory = spec.model
    if momenta:
        model = WithoutMomentum(model, {piece.name for name in momenta for piece in spec.plan.slices_of(name)})
    strict = [name for name, table in spec.variables.tables_by_name().items() if not table.allows_dense_updates]
    tables = frozenset(piece.name for name in strict for piece in spec.plan.slices_of(name))
    return [
        PsOptimizer(ps, spec.job, model, state.variables, update_count, tables, state.vocabularies, state.keeps_rows)
        for ps, update_count in enumerate(state.update_counts)
    ]


def _shards(
    state: PsState, optimizers: Sequence[PsOptimizer], progress: Mapping[int, ShardProgress], rate_divisor: Any
) -> list[ParameterShard]:
    values = {**state.variables, **state.vocabularies}
    return [
        ParameterShard(
            ps,
            optimizer.apply,
            state.update_counts[ps],
            state.versions[ps],
            None if ps else state.counters,
            values,
            progress.get(ps),
            rate_divisor,
        )
        for ps, optimizer in enumerate(optimizers)
    ]


def _all_entries(
    spec: GraphSpec,
    state: PsState,
    optimizers: Sequence[PsOptimizer],
    worker: WorkerStep,
    progress: Mapping[int, ShardProgress],
) -> list[CheckpointEntry]:
    slots = {ps: optimizer.slots for ps, optimizer in enumerate(optimizers)}
    entries = _counter_entries(state, worker.batch_size.saved)
    keys = next((optimizer for optimizer in optimizers if optimizer.slots), optimizers[0])
    entries += checkpoint_entries(spec.plan, state.variables, slots, keys.key_of, keys.slot_key_of)
    return entries + (_progress_entries(worker.assigned.name, progress, spec.plan.num_ps) if worker.assigned else [])


def _make_progress(assigned: ShardedBatches | None, received: Sequence[ReceivedPush]) -> dict[int, ShardProgress]:
    """Returns the progress on each ps that receives pushes, by ps index; empty without dynamic sharding."""
    return {push.ps: ShardProgress(push.ps, assigned.count) for push in received if push.vectors} if assigned else {}


def _make_ownership(
    assigned: ShardedBatches | None, progress: Mapping[int, ShardProgress], global_step: Any, spec: GraphSpec
) -> OwnershipTable | None:
    if assigned is None:
        return None
    variables = [on_ps.progress for on_ps in progress.values()]
    seats = spec.replica.count if assigned.reader.is_endless else 0
    event_cuts = EventCutTable(assigned.count) if spec.job.save_event_secs else None
    return OwnershipTable(assigned.count, variables, global_step, seats, event_cuts)


def _with_release(ops: StepOps, ownership: OwnershipTable) -> StepOps:
    """Returns the operations with `remove` extended: it also frees the shards of the removed replica."""
    removed = v1.placeholder(tf.int64, [], "leaver") if ops.removed_replica is None else ops.removed_replica
    free = ownership.release(removed + 1)
    return dataclasses.replace(
        ops, remove=tf.group(free, *([ops.remove] if ops.remove else [])), removed_replica=removed
    )


def _counter_entries(state: PsState, saved: Sequence[Any]) -> list[CheckpointEntry]:
    """Returns the entries of counters; every ps restores the global step, from which learning rates are computed."""
    counters = [state.counters.examples, state.counters.skipped, state.counters.dropped, *saved]
    counts = enumerate(state.update_counts)
    steps = [CheckpointEntry("global_step", "", count, follower=ps > 0) for ps, count in counts]
    return [*steps, *(CheckpointEntry(v.op.name, "", v, optional=True) for v in counters)]  # only ps_train writes these


def _progress_entries(name: str, progress: Mapping[int, ShardProgress], num_ps: int) -> list[CheckpointEntry]:
    """Returns the entries of the cursors of each ps; the key names the layout."""
    advice = (
        "the used examples can be restored only with the flags of the saved run (sharding, batch_size, "
        "shard_examples, shuffle_buffer, seed) and the same data; use these, or another --model_dir."
    )
    variables = {ps: of_ps.progress for ps, of_ps in progress.items()}
    return shared_entries(f"ps_train/progress/{name}", variables, num_ps, advice)
