"""The worker's part of a training step: batch, pull, forward, backward, gradient transforms, push."""

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
from ps_train.data.shard_batches import ShardedBatches
from ps_train.data.shard_readers import reader_of
from ps_train.graph.backward import PulledInputs, mean_gradients
from ps_train.graph.ps_state import PsState
from ps_train.graph.spec import GraphSpec
from ps_train.placement.global_step import pulled_step
from ps_train.private_tf import add_control_inputs
from ps_train.transport.dense import ReceivedPush, Transport, empty_push
from ps_train.transport.row_exchange import RowExchange
from ps_train.transport.sparse_mask import apply_masks, mask_name
from ps_train.updates import finite
from ps_train.updates.base import Replica, UpdateMode
from ps_train.updates.chain import transforms_of
from ps_train.updates.drop_push import drop_pushes

Guard = Callable[[list[tf.Tensor]], list[tf.Tensor]]
"""A function that takes the vectors of a push and returns the vectors to send instead."""


@dataclasses.dataclass(frozen=True)
class WorkerStep:
    """The worker's part of a step.

    Attributes:
      batches: the batches of the step.
      assigned: the source of the batches under dynamic sharding, else None.
      loss: float scalar of the batch, before the update.
      examples: float32 scalar, number of examples that the step stands for.
      received: the push as each ps receives it, by ps index.
      calls_begun: int64 scalar on the worker, number of training calls that have begun on all their tasks.
    """

    batches: Batches
    assigned: ShardedBatches | None
    loss: tf.Tensor
    examples: tf.Tensor
    received: list[ReceivedPush]
    calls_begun: tf.Tensor


def build_worker_step(spec: GraphSpec, update: UpdateMode, state: PsState) -> WorkerStep:
    """Builds the worker's part of a step; call it in the worker's device scope.

    Args:
      spec: specification of the replica's graph.
      update: the update mode.
      state: the variables on the ps.
    """
    job, replica = spec.job, spec.replica
    transport = Transport(spec.plan, spec.variables, state.variables, detect_torn=update.lockstep)
    with tf.device("/device:CPU:0"):
        assigned = _assigned_batches(job, spec.source) if job.is_dynamic else None
        batches = assigned.batches if assigned else _static_batches(job, spec.source, replica, update.lockstep)
        batches = dataclasses.replace(batches, name=spec.source.name)
    values = transport.pull(state.versions, state.backups)
    # Without this, a call that one task refuses could still read a batch or push to another ps.
    calls_begun = _make_calls_begun()
    add_control_inputs(batches.get_next_op, [transport.begun(state.versions, calls_begun)])
    exchange = RowExchange(spec.plan, spec.variables.tables(), state.variables, state.vocabularies)
    inputs = PulledInputs(
        values,
        state.variables,
        spec.variables,
        lambda requests: exchange.pull(requests, state.versions),
        pulled_step(state.update_counts[0], state.versions[0]),
    )
    backward = mean_gradients(spec.model, batches, inputs, job.accumulate, spec.towers)
    gradients, used = backward.gradients, apply_masks(values, backward.masks) | backward.rows
    for transform in transforms_of(job):
        gradients = transform(gradients, used)
    rows = exchange.push({name: gradients.pop(name) for name in backward.rows}) if backward.rows else []
    gradients |= {mask_name(name): mask for name, mask in backward.masks.items()}
    guard = _guard(job, backward.loss, transport, sum(push is not None for push in rows))
    guard = _after(backward.updates, _drop_pushes(job, replica, state.counters.dropped, guard))
    pushes = transport.push(gradients, backward.examples, update.scaled, guard, rows)
    pushed_state = transport.push_state(backward.state if replica.index == 0 else None)
    received = [dataclasses.replace(p, progress=batches.progress, state=pushed_state[p.ps]) for p in pushes]
    return WorkerStep(batches, assigned, backward.loss, backward.examples, received, calls_begun.read_value())


def _make_calls_begun() -> Any:
    """Makes a local variable of this worker: the number of calls that have begun."""
    zeros, collections = v1.zeros_initializer(), [v1.GraphKeys.LOCAL_VARIABLES]
    name = "ps_train/begun_calls"
    return v1.get_variable(name, [], tf.int64, zeros, trainable=False, collections=collections, use_resource=True)


def _static_batches(job: Job, source: DataSource, replica: Replica, lockstep: bool) -> Batches:
    """Returns the batches of the replica's shard.

    An undeclared replica reads all data, because the declared replicas already have one shard each.
    """
    shard = DataShard(replica.index, replica.declared) if replica.is_declared() else WHOLE
    endless = lockstep or job.may_run_out_of_input
    return training_batches(source.get(), shard, job.batch_size, job.epochs, job.shuffle_buffer, endless)


def _assigned_batches(job: Job, source: DataSource) -> ShardedBatches:
    return ShardedBatches(reader_of(source.get(), job), job.batch_size)


def _guard(job: Job, loss: tf.Tensor, transport: Transport, rows: int) -> Guard:
    """Returns the guard against gradients that are not finite (--on_nan); `rows` vectors hold rows of tables."""
    if job.on_nan == "stop":
        return lambda vectors: finite.stop_if_not_finite(loss, vectors)
    otherwise = [empty_push(parcel) for parcels in transport.pushed for parcel in parcels]
    otherwise += [np.zeros((), np.float32)] * rows
    return lambda vectors: finite.skip_if_not_finite(loss, vectors, otherwise)


def _after(updates: Sequence[tf.Operation], guard: Guard) -> Guard:
    """Returns a guard that also delays the push until these operations are done."""

    def delayed(vectors: list[tf.Tensor]) -> list[tf.Tensor]:
        with tf.control_dependencies(updates):
            return [tf.identity(vector) for vector in guard(vectors)]

    return delayed if updates else guard


def _drop_pushes(job: Job, replica: Replica, dropped: Any, guard: Guard) -> Guard:
    """Returns a guard that also drops pushes, if the job injects that fault."""
    share = dropped_share(job.inject_fault)
    if not share:
        return guard
    seed = derived_seed(job.seed, "drop_push", replica.index)
    return lambda vectors: drop_pushes(share, seed, guard(vectors), dropped)
