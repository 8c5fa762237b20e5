"""Assembles the graph of one replica: batch, pull, forward, backward, push, update.

    step = build_step(job, model, source, traced, plan, Replica(index=0, count=2, declared=2), worker_device)
    session.run(step.ops.train)

Two passes build a model: `trace` ran it once to learn its variables; `backward` builds it again with the pulled values.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.config.job import Job, described
from ps_train.data.pipeline import Batches, derived_seed
from ps_train.embeddings.plain_vocabulary import AFTER_RESTORE
from ps_train.errors import ConfigError
from ps_train.graph.local_state import LocalState, collect_local_state
from ps_train.graph.ps_state import PsState, make_ps_state
from ps_train.graph.spec import GraphSpec
from ps_train.graph.unroll import UnrolledStep, unroll
from ps_train.graph.worker_step import build_worker_step
from ps_train.placement.initialization import initialize_ps
from ps_train.placement.plan import Plan
from ps_train.placement.seeded_graph import SeededGraph
from ps_train.placement.trace import ModelVariables
from ps_train.placement.variables import CheckpointEntry, checkpoint_entries
from ps_train.sharding.batches import ShardedBatches
from ps_train.sharding.ownership import OwnershipTable
from ps_train.sharding.progress import ShardProgress
from ps_train.tables.vocabulary import rebuild_all
from ps_train.transport.dense import ReceivedPush
from ps_train.updates import make_update
from ps_train.updates.apply_gradients import PsOptimizer
from ps_train.updates.base import ParameterShard, RunCounters, StepOps

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class TrainStep:
    """A replica's graph and the handles to what it runs and fetches.

    Attributes:
      more: the steps that may follow the first in the same run.
      is_endless: whether the input never ends.
      loss: float scalar of this replica's batch, before the update.
      examples: float32 scalar, how many examples the step stands for; 0 when the input has ended.
      global_step: variable on ps 0.
      counts: variables on ps 0.
      stored: all variables that a checkpoint holds; complete on replica 0 only.
      initialise: for each ps, what gives every variable state its initial value.
      uninitialised: bool vector, one entry for each stored variable.
      local: what the model keeps on this worker.
      leased: what the batches are read from, where shards of the data are handed out.
      handout: who holds them; with `leased`.
      begun: int64 scalar on the worker, how many calls that train have begun on all their tasks.
    """

    graph: tf.Graph
    batches: Batches
    ops: StepOps
    more: list[UnrolledStep]
    loss: tf.Tensor
    examples: tf.Tensor
    global_step: tf.Variable
    counters: RunCounters
    entries: list[CheckpointEntry]
    initialize: list[tf.Operation]
    uninitialized: tf.Tensor
    lockstep: bool
    is_endless: bool
    calls_begun: tf.Tensor
    local: LocalState
    assigned: ShardedBatches | None = None
    ownership: OwnershipTable | None = None

    def steps_per_call(self, length: int) -> dict[str, Any]:
        """What to fetch for so many steps in one run: the operations, and how many examples each step stands for
        where that says whether it was one at all."""
        steps = [UnrolledStep(self.ops.train, self.examples), *self.more[: length - 1]]
        return {
            "train": [op for step in steps for op in step.train],
            "examples": [] if self.is_endless else [step.examples for step in steps],
        }


def build_train_step(spec: GraphSpec) -> TrainStep:
    """Builds the graph of one replica.

    Raises:
      ConfigError: the job asks for something that this model cannot do.
      ModelError: the model cannot be built as it was traced.
    """
    job, plan, replica = spec.job, spec.plan, spec.replica
    _check_accumulate(job, spec.variables)
    update = make_update(job)
    with SeededGraph(derived_seed(job.seed, "replica", replica.index)).as_default() as graph:
        state = make_ps_state(spec, update)
        with tf.device(spec.device):
            work = build_worker_step(spec, update, state)
        ledgers = _ledgers(work.leased, work.arrived)
        rules = _rules(spec, state)
        ops = update.build(_shards(state, rules, ledgers), work.arrived, replica)
        handout = _handout(work.leased, ledgers, state.update_counts[0])
        if handout is not None:
            ops = _with_release(ops, handout)
        stored = _all_stored(plan, state, rules, work.leased, ledgers)
        initialise = [_initialize(ps, spec, state) for ps in range(plan.num_ps)]
        v1.add_to_collection(AFTER_RESTORE, rebuild_all(state.vocabularies))
        uninitialised = tf.stack([tf.logical_not(v1.is_variable_initialized(s.variable)) for s in stored])
        return TrainStep(
            graph=graph,
            batches=work.batches,
            ops=ops,
            more=unroll(ops.train, work.examples, plan.num_ps, job.longest_run - 1, _ahead(job, spec.variables)),
            loss=work.loss,
            examples=work.examples,
            global_step=state.update_counts[0],
            counters=state.counters,
            entries=stored,
            initialize=initialise,
            uninitialized=uninitialised,
            lockstep=update.lockstep,
            is_endless=job.epochs == 0 and not work.leased,
            calls_begun=work.begun,
            assigned=work.leased,
            ownership=handout,
            local=collect_local_state(),
        )


def _check_accumulate(job: Job, variables: ModelVariables) -> None:
    if job.accumulate > 1 and variables.tables():
        raise ConfigError(
            f"{described(job, 'accumulate')} is not possible with tables ({', '.join(variables.tables())}): "
            "use accumulate=1 and a larger batch_size."
        )


def _ahead(job: Job, traced: ModelVariables) -> int:
    """How many steps ahead values are pulled.  None where the model assigns some: it would assign older ones."""
    if job.prefetch_pulls and traced.state():
        log.warning(
            "%s has no effect: the model assigns %s itself, which the next step must see",
            described(job, "prefetch_pulls"),
            ", ".join(traced.state()[:3]),
        )
        return 0
    return job.prefetch_pulls


def _initialize(ps: int, spec: GraphSpec, state: PsState) -> tf.Operation:
    """What is computed from variables follows them."""
    there = {
        piece.name: state.vocabularies[piece.name]
        for piece in spec.plan.slices_on(ps)
        if piece.name in state.vocabularies
    }
    with tf.control_dependencies([initialize_ps(ps, spec.variables, spec.plan, spec.job.seed)]):
        return rebuild_all(there)


def _rules(spec: GraphSpec, state: PsState) -> list[PsOptimizer]:
    """One for each ps."""
    tables = frozenset(piece.name for name in spec.variables.tables() for piece in spec.plan.slices_of(name))
    return [
        PsOptimizer(ps, spec.job, spec.model, state.variables, clock, tables, state.vocabularies)
        for ps, clock in enumerate(state.update_counts)
    ]


def _shards(state: PsState, rules: Sequence[PsOptimizer], ledgers: Mapping[int, ShardProgress]) -> list[ParameterShard]:
    known = {**state.variables, **state.vocabularies}
    return [
        ParameterShard(
            ps,
            rule.apply,
            state.update_counts[ps],
            state.versions[ps],
            None if ps else state.counters,
            known,
            state.backups,
            ledgers.get(ps),
        )
        for ps, rule in enumerate(rules)
    ]


def _all_stored(
    plan: Plan,
    state: PsState,
    rules: Sequence[PsOptimizer],
    leased: ShardedBatches | None,
    ledgers: Mapping[int, ShardProgress],
) -> list[CheckpointEntry]:
    made = {ps: rule.slots for ps, rule in enumerate(rules)}
    stored = _stored(state.update_counts, state.counters)
    stored += checkpoint_entries(plan, state.variables, made)
    return stored + (_stored_progress(leased.name, ledgers) if leased else [])


def _ledgers(leased: ShardedBatches | None, arrived: Sequence[ReceivedPush]) -> dict[int, ShardProgress]:
    """One on each ps that is pushed to."""
    return {some.ps: ShardProgress(some.ps, leased.count) for some in arrived if some.vectors} if leased else {}


def _handout(
    leased: ShardedBatches | None, ledgers: Mapping[int, ShardProgress], global_step: Any
) -> OwnershipTable | None:
    progress = [ledger.progress for ledger in ledgers.values()]
    return OwnershipTable(leased.count, progress, global_step) if leased else None


def _with_release(ops: StepOps, handout: OwnershipTable) -> StepOps:
    """Who leaves holds nothing any more."""
    leaver = v1.placeholder(tf.int64, [], "leaver") if ops.removed_replica is None else ops.removed_replica
    free = handout.release(leaver + 1)
    return dataclasses.replace(
        ops, remove=tf.group(free, *([ops.remove] if ops.remove else [])), removed_replica=leaver
    )


def _stored(clocks: Sequence[Any], counts: RunCounters) -> list[CheckpointEntry]:
    """The clocks of all ps begin with the global step of the checkpoint: rates are computed from them."""
    counted = (counts.examples, counts.skipped, counts.dropped)
    steps = [CheckpointEntry("global_step", "", clock, follower=ps > 0) for ps, clock in enumerate(clocks)]
    return [*steps, *(CheckpointEntry(v.op.name, "", v) for v in counted)]


def _stored_progress(name: str, ledgers: Mapping[int, ShardProgress]) -> list[CheckpointEntry]:
    """One for all: a checkpoint is of one moment.  By its name it is known how to read it."""
    advice = (
        "which examples were used can be known only with the flags that it was saved with (sharding, batch_size, "
        "shard_examples, shuffle_buffer, seed) and the same data; use these, or another --model_dir."
    )
    key = f"ps_train/progress/{name}"
    return [CheckpointEntry(key, "", ledger.progress, follower=ps > 0, advice=advice) for ps, ledger in ledgers.items()]
