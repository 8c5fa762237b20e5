"""The training graph of one replica: batch, pull, forward, backward, push, update.

    step = build_train_step(spec)
    session.run(step.ops.train)

A model is built twice: `trace` builds it to find its variables, `backward` builds it with the pulled values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ConfigError
from ps_train.config.job import Job
from ps_train.config.job_values import described
from ps_train.data.pipeline import Batches, derived_seed
from ps_train.data.shards.shard_batches import ShardedBatches
from ps_train.engine.checkpoint.initial_values import InitialValues
from ps_train.engine.step.ps_state import PsState, make_ps_state
from ps_train.engine.step.spec import GraphSpec
from ps_train.engine.step.unroll import UnrolledCalls, unroll
from ps_train.engine.step.worker_step import WorkerStep, build_worker_step
from ps_train.engine.transport.received_push import ReceivedPush
from ps_train.engine.transport.vocabulary import rebuild_all
from ps_train.engine.updates import make_update
from ps_train.engine.updates.apply_gradients import OptimizerFactory, PsOptimizer
from ps_train.engine.updates.base import ParameterShard, StepOps, UpdateMode
from ps_train.engine.updates.batch_size_control import learning_rate_divisor
from ps_train.engine.updates.momentum_correction import WithoutMomentum
from ps_train.engine.updates.residuals import Residuals
from ps_train.engine.updates.run_counters import RunCounters
from ps_train.engine.updates.shard_ownership import OwnershipTable
from ps_train.engine.updates.shard_progress import ShardProgress
from ps_train.engine.variables.initialization import initialize_ps
from ps_train.engine.variables.plan import Plan
from ps_train.engine.variables.seeded_graph import SeededGraph
from ps_train.engine.variables.trace import ModelVariables
from ps_train.engine.variables.variables import CheckpointEntry, checkpoint_entries, shared_entries
from ps_train.engine.variables.worker_state import LocalState, collect_local_state
from ps_train.modeling.tables.plain_vocabulary import AFTER_RESTORE


@dataclasses.dataclass(frozen=True)
class TrainStep:
    """A replica's training graph, and the operations and tensors that its worker runs and fetches.

    Attributes:
      graph: the graph.
      batches: the batches of the first step.
      ops: the operations of the step, made by the update mode.
      calls: the steps of calls.
      loss: float scalar of this replica's batch, before the update.
      examples: float32 scalar, number of examples that the step stands for; 0 after the end of the input.
      global_step: int64 scalar variable on ps 0.
      counters: counters of the whole run, variables on ps 0.
      entries: the checkpoint's variables; complete on replica 0 only.
      initialize: for each ps, the operation that initializes all variables there.
      initial_values: values that the chief writes into initialized variables, where no checkpoint is restored.
      uninitialized: bool [entries], True for each variable of `entries` that has no value.
      lockstep: True if all replicas make every step together.
      is_endless: True if the input never ends, and all batches have the same size.
      calls_begun: int64 scalar on the worker, number of training calls that have begun on all their tasks.
      local: the state that the model keeps on this worker.
      residuals: what the pushes have left out; None without a push codec.
      loss_scale: float32 scalar, the present loss scale of this worker; None unless the loss is scaled.
      assigned: the source of the batches under dynamic sharding, else None.
      ownership: the owners of the data's shards under dynamic sharding, else None.
    """

    graph: tf.Graph
    batches: Batches
    ops: StepOps
    calls: UnrolledCalls
    loss: tf.Tensor
    examples: tf.Tensor
    global_step: tf.Variable
    counters: RunCounters
    entries: list[CheckpointEntry]
    initialize: list[tf.Operation]
    initial_values: InitialValues
    uninitialized: tf.Tensor
    lockstep: bool
    is_endless: bool
    calls_begun: tf.Tensor
    local: LocalState
    residuals: Residuals | None = None
    loss_scale: tf.Tensor | None = None
    assigned: ShardedBatches | None = None
    ownership: OwnershipTable | None = None

    def steps_per_call(self, length: int) -> dict[str, Any]:
        """Returns the fetches of one call that makes several steps.

        Args:
          length: number of steps; 0 for the call that a session makes before all others, if there is one.

        Returns:
          "train": the operations of all steps.  "examples": number of examples of each step; empty for endless input
          in batches of one size, where no step is without examples.
        """
        steps = self.calls.steps[:length]
        return {
            "train": [op for step in steps for op in step.train] + self.calls.ends.get(length, []),
            "examples": [] if self.is_endless else [step.examples for step in steps],
        }


def build_train_step(spec: GraphSpec) -> TrainStep:
    """Builds the training graph of one replica.

    Raises:
      ConfigError: a field of the job is not possible with this model.
      ModelError: the model was not built as in its trace.
    """
    job, plan, replica = spec.job, spec.plan, spec.replica
    _check_accumulate(job, spec.variables)
    update = make_update(job)
    with SeededGraph(derived_seed(job.seed, "replica", replica.index)).as_default() as graph:
        state = make_ps_state(spec, update)
        with tf.device(spec.device), tf.device(spec.towers.home):
            worker = build_worker_step(spec, update, state)
        ops, residuals, ownership, entries = _build_update(spec, update, state, worker)
        calls = unroll(ops.train, worker.examples, plan.num_ps, job.longest_call, worker.ahead)
        initialize = [_initialize(ps, spec, state) for ps in range(plan.num_ps)]
        v1.add_to_collection(AFTER_RESTORE, rebuild_all(state.vocabularies))
        uninitialized = tf.stack([tf.logical_not(v1.is_variable_initialized(entry.variable)) for entry in entries])
        return TrainStep(
            graph=graph,
            batches=worker.batches,
            ops=ops,
            calls=calls,
            loss=worker.loss,
            examples=worker.examples,
            global_step=state.update_counts[0],
            counters=state.counters,
            entries=entries,
            initialize=initialize,
            initial_values=InitialValues(spec.variables, plan, state.variables, spec.device, job.seed),
            uninitialized=uninitialized,
            lockstep=update.lockstep,
            is_endless=job.is_endless,
            calls_begun=worker.calls_begun,
            loss_scale=worker.loss_scale,
            assigned=worker.assigned,
            ownership=ownership,
            local=collect_local_state(),
            residuals=residuals,
        )


def _build_update(
    spec: GraphSpec, update: UpdateMode, state: PsState, worker: WorkerStep
) -> tuple[StepOps, Residuals | None, OwnershipTable | None, list[CheckpointEntry]]:
    """Builds the update of a step; returns operations, residuals, owners of shards, and the checkpoint's entries."""
    progress = _make_progress(worker.assigned, worker.received)
    optimizers = _make_optimizers(spec, state, worker.momenta)
    shards = _shards(state, optimizers, progress, learning_rate_divisor(spec.job, spec.replica.declared))
    ops = update.build(shards, worker.received, spec.replica)
    ops = dataclasses.replace(ops, train=[*ops.train, *worker.kept])
    with tf.device(spec.device):
        apply = [optimizer.apply_residuals for optimizer in optimizers]
        residuals = Residuals(worker.encodings, apply, update.scaled) if worker.encodings else None
    ownership = _make_ownership(worker.assigned, progress, state.update_counts[0])
    if ownership is not None:
        ops = _with_release(ops, ownership)
    return ops, residuals, ownership, _all_entries(spec.plan, state, optimizers, worker.assigned, progress)


def _check_accumulate(job: Job, variables: ModelVariables) -> None:
    if job.accumulate > 1 and variables.tables():
        raise ConfigError(
            f"{described(job, 'accumulate')} is not possible with tables ({', '.join(variables.tables())}): "
            "use accumulate=1 and a larger batch_size."
        )


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
        PsOptimizer(ps, spec.job, model, state.variables, update_count, tables, state.vocabularies)
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
            state.backups,
            progress.get(ps),
            rate_divisor,
        )
        for ps, optimizer in enumerate(optimizers)
    ]


def _all_entries(
    plan: Plan,
    state: PsState,
    optimizers: Sequence[PsOptimizer],
    assigned: ShardedBatches | None,
    progress: Mapping[int, ShardProgress],
) -> list[CheckpointEntry]:
    slots = {ps: optimizer.slots for ps, optimizer in enumerate(optimizers)}
    entries = _counter_entries(state.update_counts, state.counters)
    keys = next((optimizer for optimizer in optimizers if optimizer.slots), optimizers[0])
    entries += checkpoint_entries(plan, state.variables, slots, keys.key_of, keys.slot_key_of)
    return entries + (_progress_entries(assigned.name, progress, plan.num_ps) if assigned else [])


def _make_progress(assigned: ShardedBatches | None, received: Sequence[ReceivedPush]) -> dict[int, ShardProgress]:
    """Returns the progress on each ps that receives pushes, by ps index; empty without dynamic sharding."""
    return {push.ps: ShardProgress(push.ps, assigned.count) for push in received if push.vectors} if assigned else {}


def _make_ownership(
    assigned: ShardedBatches | None, progress: Mapping[int, ShardProgress], global_step: Any
) -> OwnershipTable | None:
    variables = [on_ps.progress for on_ps in progress.values()]
    return OwnershipTable(assigned.count, variables, global_step) if assigned else None


def _with_release(ops: StepOps, ownership: OwnershipTable) -> StepOps:
    """Returns the operations with `remove` extended: it also frees the shards of the removed replica."""
    removed = v1.placeholder(tf.int64, [], "leaver") if ops.removed_replica is None else ops.removed_replica
    free = ownership.release(removed + 1)
    return dataclasses.replace(
        ops, remove=tf.group(free, *([ops.remove] if ops.remove else [])), removed_replica=removed
    )


def _counter_entries(update_counts: Sequence[Any], counters: RunCounters) -> list[CheckpointEntry]:
    """Returns the entries of counters; every ps restores the global step, from which learning rates are computed."""
    saved = [counters.examples, counters.skipped, counters.dropped]
    saved += [counters.batch_size.variable] if counters.batch_size is not None else []
    steps = [CheckpointEntry("global_step", "", count, follower=ps > 0) for ps, count in enumerate(update_counts)]
    return [*steps, *(CheckpointEntry(v.op.name, "", v, optional=True) for v in saved)]  # only ps_train writes these


def _progress_entries(name: str, progress: Mapping[int, ShardProgress], num_ps: int) -> list[CheckpointEntry]:
    """Returns the entries of the cursors of each ps; the key names the layout."""
    advice = (
        "the used examples can be restored only with the flags of the saved run (sharding, batch_size, "
        "shard_examples, shuffle_buffer, seed) and the same data; use these, or another --model_dir."
    )
    variables = {ps: of_ps.progress for ps, of_ps in progress.items()}
    return shared_entries(f"ps_train/progress/{name}", variables, num_ps, advice)
