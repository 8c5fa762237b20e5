"""What a worker does in a step: batch, pull, forward, backward, transforms, push."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.config.fault_spec import dropped_share
from ps_train.config.job import Job
from ps_train.data.data_shard import WHOLE, DataShard
from ps_train.data.pipeline import Batches, DataSource, derived_seed, training_batches
from ps_train.faults.drop_push import drop_pushes
from ps_train.gradients import finite
from ps_train.gradients.chain import transforms_of
from ps_train.graph.backward import mean_gradients
from ps_train.graph.ps_state import PsState
from ps_train.graph.spec import GraphSpec
from ps_train.placement.global_step import pulled_step
from ps_train.sharding.batches import ShardedBatches
from ps_train.sharding.readers import reader_of
from ps_train.tables.row_exchange import RowExchange
from ps_train.transport.dense import ReceivedPush, Transport, empty_push
from ps_train.transport.sparse_mask import apply_masks, mask_name
from ps_train.updates.base import Replica, UpdateMode

Guard = Callable[[list[tf.Tensor]], list[tf.Tensor]]
"""Given what is to be pushed, what is pushed in its place."""


@dataclasses.dataclass(frozen=True)
class WorkerStep:
    """Attributes:
    leased: what the batches are read from, where shards of the data are handed out.
    arrived: of each ps.
    begun: int64 scalar on the worker, how many calls that train have begun on all their tasks.
    """

    batches: Batches
    leased: ShardedBatches | None
    loss: tf.Tensor
    examples: tf.Tensor
    arrived: list[ReceivedPush]
    begun: tf.Tensor


def build_worker_step(spec: GraphSpec, update: UpdateMode, state: PsState) -> WorkerStep:
    """Builds the worker's part of a step, in the worker's device scope."""
    job, replica = spec.job, spec.replica
    transport = Transport(spec.plan, spec.variables, state.variables, compares=update.lockstep)
    with tf.device("/device:CPU:0"):
        leased = _assigned_batches(job, spec.source) if job.is_dynamic else None
        batches = leased.batches if leased else _static_batches(job, spec.source, replica, update.lockstep)
    values = transport.pull(state.versions, state.backups)
    # Else a call that is refused by one task could have taken a batch, or have pushed to another one.
    begun = _begun_calls()
    batches.taking._add_control_input(transport.begun(state.versions, begun))
    exchange = RowExchange(spec.plan, spec.variables.tables(), state.variables, state.vocabularies)
    found = mean_gradients(
        spec.model,
        batches,
        values,
        state.variables,
        spec.variables,
        lambda wanted: exchange.pull(wanted, state.versions),
        pulled_step(state.update_counts[0], state.versions[0]),
        job.accumulate,
    )
    gradients, seen = found.gradients, apply_masks(values, found.masks) | found.rows
    for transform in transforms_of(job):
        gradients = transform(gradients, seen)
    rows = exchange.push({name: gradients.pop(name) for name in found.rows}) if found.rows else []
    gradients |= {mask_name(name): mask for name, mask in found.masks.items()}
    guard = _guard(job, found.loss, transport, sum(some is not None for some in rows))
    guard = _after(found.updates, _drop_pushes(job, transport, replica, guard))
    arrived = transport.push(gradients, found.examples, update.scaled, guard, rows)
    pushed = transport.push_state(found.state if replica.index == 0 else None)
    ticketed = [dataclasses.replace(some, progress=batches.ticket, state=pushed[some.ps]) for some in arrived]
    return WorkerStep(batches, leased, found.loss, found.examples, ticketed, begun.read_value())


def _begun_calls() -> Any:
    """A variable of this worker's own."""
    zeros, collections = v1.zeros_initializer(), [v1.GraphKeys.LOCAL_VARIABLES]
    name = "ps_train/begun_calls"
    return v1.get_variable(name, [], tf.int64, zeros, trainable=False, collections=collections, use_resource=True)


def _static_batches(job: Job, source: DataSource, replica: Replica, lockstep: bool) -> Batches:
    """Who was not declared reads all of the data: each of the others has its own share of it already."""
    share = DataShard(replica.index, replica.declared) if replica.is_declared() else WHOLE
    endless = lockstep or job.may_run_dry
    return training_batches(source.get(), share, job.batch_size, job.epochs, job.shuffle_buffer, endless)


def _assigned_batches(job: Job, source: DataSource) -> ShardedBatches:
    return ShardedBatches(reader_of(source.get(), job), job.batch_size)


def _guard(job: Job, loss: tf.Tensor, transport: Transport, rows: int) -> Guard:
    """What becomes of gradients that are no finite numbers; see --on_nan.  `rows`: how many vectors are of tables."""
    if job.on_nan == "stop":
        return lambda vectors: finite.stop_if_not_finite(loss, vectors)
    otherwise = [empty_push(parcel) for parcels in transport.pushed for parcel in parcels]
    otherwise += [np.zeros((), np.float32)] * rows
    return lambda vectors: finite.skip_if_not_finite(loss, vectors, otherwise)


def _after(updates: Sequence[tf.Operation], guard: Guard) -> Guard:
    """The same, but nothing is pushed before these operations are done."""

    def following(vectors: list[tf.Tensor]) -> list[tf.Tensor]:
        with tf.control_dependencies(updates):
            return [tf.identity(vector) for vector in guard(vectors)]

    return following if updates else guard


def _drop_pushes(job: Job, transport: Transport, replica: Replica, guard: Guard) -> Guard:
    """The same, but that pushes are lost where the job asks for it."""
    share = dropped_share(job.inject)
    if not share:
        return guard
    marked = [parcel.header > 0 for parcels in transport.pushed for parcel in parcels]
    seed = derived_seed(job.seed, "drop_push", replica.index)

    def lossy(vectors: list[tf.Tensor]) -> list[tf.Tensor]:
        return drop_pushes(share, seed, guard(vectors), marked + [False] * (len(vectors) - len(marked)))

    return lossy
