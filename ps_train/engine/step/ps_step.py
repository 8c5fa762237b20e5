"""The ps's part of a training step: the update, and all variables there that it makes.

state = make_ps_state(spec, update, pusher)
worker = build_worker_step(spec, update, state, parts)
ps, ops = build_ps_step(spec, update, state, parts, worker.received, pusher)
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.step.graph_spec import GraphSpec
from ps_train.engine.step.parts.step_part import StepParts, ToUpdate, Updated, wrapped
from ps_train.engine.step.ps_state import PsState
from ps_train.engine.transport.received_push import ReceivedPush
from ps_train.engine.transport.vocabulary import rebuild_all
from ps_train.engine.updates.gradients.apply_gradients import AppliedOptimizers, RulesOfModel, RuleSource
from ps_train.engine.updates.modes.base import ParameterShard, Replica, StepOps, UpdateMode, WaitLimit
from ps_train.engine.updates.modes.shard_part import RunCounting, ShardPart
from ps_train.engine.variables.initialization import initialize_ps
from ps_train.engine.variables.old_rows import OldRows
from ps_train.engine.variables.variables import CheckpointEntry, OptimizerVariable, checkpoint_entries, ps_device
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
    """

    entries: list[CheckpointEntry]
    tables: Mapping[str, Table]
    old_rows: list[OldRows]
    initialize: list[tf.Operation]
    uninitialized: tf.Tensor


def build_ps_step(
    spec: GraphSpec,
    update: UpdateMode,
    state: PsState,
    parts: StepParts,
    received: list[ReceivedPush],
    pusher: Replica,
) -> tuple[PsStep, StepOps]:
    """Builds the update of a step, in the default graph; returns the ps's part, and the operations of the whole step.

    Args:
      spec: specification of the replica's graph.
      update: the update mode.
      state: the variables on the ps so far.
      parts: the features of the step.
      received: the push, as each ps receives it.
      pusher: the replica that the ps see.
    """

    def plain(given: ToUpdate) -> Updated:
        optimizers = given.make_optimizers(given.rules)
        shards = _shards(state, optimizers, given)
        return Updated(update.build(shards, given.received, pusher, state.counters, given.limit), optimizers)

    limit = WaitLimit.fixed(spec.job.wait_limits(spec.replica.declared).lower)
    rules = RulesOfModel(spec.job, spec.model)
    make = functools.partial(_make_optimizers, spec, state)
    given = ToUpdate(received, rules, make, state.update_counts, state.variables, state.versions, limit)
    updated = wrapped(parts, "update", plain)(given)
    optimizers = [*updated.optimizers, *updated.of_rows]
    entries = [*_plain_entries(spec, state, optimizers), *(entry for part in parts for entry in part.entries())]
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
    ), updated.ops


def _initialize(ps: int, spec: GraphSpec, state: PsState) -> tf.Operation:
    """Returns the operation that initializes the variables on a ps, then the vocabularies, which depend on them."""
    vocabularies = {
        piece.name: state.vocabularies[piece.name]
        for piece in spec.plan.slices_on(ps)
        if piece.name in state.vocabularies
    }
    with tf.control_dependencies([initialize_ps(ps, spec.variables, spec.plan, spec.job.seed)]):
        return rebuild_all(vocabularies)


def _make_optimizers(spec: GraphSpec, state: PsState, rules: RuleSource) -> list[AppliedOptimizers]:
    """Returns the optimizers of each ps."""
    strict = [name for name, table in spec.variables.tables_by_name().items() if not table.allows_dense_updates]
    tables = frozenset(piece.name for name in strict for piece in spec.plan.slices_of(name))
    return [
        AppliedOptimizers(
            ps_device(ps),
            rules,
            state.variables,
            update_count,
            # A push has every row once, a round the rows of several workers.
            spec.job.rows_are_mean,
            tables,
            state.vocabularies,
            state.keeps_rows,
        )
        for ps, update_count in enumerate(state.update_counts)
    ]


def _shards(state: PsState, optimizers: Sequence[AppliedOptimizers], given: ToUpdate) -> list[ParameterShard]:
    plain: dict[int, list[ShardPart]] = {0: [RunCounting(state.counters)]}
    return [
        ParameterShard(
            ps,
            optimizer.apply,
            state.update_counts[ps],
            given.versions[ps],
            [*given.shard_parts.get(ps, ()), *plain.get(ps, ())],
            given.rate_divisors,
        )
        for ps, optimizer in enumerate(optimizers)
    ]


def _plain_entries(spec: GraphSpec, state: PsState, optimizers: Sequence[AppliedOptimizers]) -> list[CheckpointEntry]:
    """Returns the entries of a plain step: counters, variables and slots."""
    slots: dict[int, dict[str, list[OptimizerVariable]]] = {}
    keys: dict[str, AppliedOptimizers] = {}
    for number, optimizer in enumerate(optimizers):
        on_ps = slots.setdefault(number % spec.plan.num_ps, {})
        for group, made in optimizer.slots.items():
            on_ps.setdefault(group, []).extend(made)
            keys.setdefault(group, optimizer)
    variables = checkpoint_entries(
        spec.plan,
        state.variables,
        slots,
        lambda group, kind, number: keys[group].key_of(group, kind, number),
        lambda group, variable, kind: keys[group].slot_key_of(group, variable, kind),
    )
    if spec.job.has_local_steps:  # an outer optimizer may begin in any run: its momentum is then zero
        names = {piece.variable for piece in spec.plan.slices}
        tables = tuple(f"{name}/" for name in spec.variables.tables_by_name())  # whose slots are the model's
        variables = [
            dataclasses.replace(one, optional=one.optional or (one.key not in names and not one.key.startswith(tables)))
            for one in variables
        ]
    return [*_counter_entries(state), *variables]


def _counter_entries(state: PsState) -> list[CheckpointEntry]:
    """Returns the entries of counters; every ps restores the global step, from which learning rates are computed."""
    counters = [state.counters.examples, state.counters.skipped, state.counters.dropped]
    counts = enumerate(state.update_counts)
    steps = [CheckpointEntry("global_step", "", count, follower=ps > 0) for ps, count in counts]
    return [*steps, *(CheckpointEntry(v.op.name, "", v, optional=True) for v in counters)]  # only ps_train writes these
