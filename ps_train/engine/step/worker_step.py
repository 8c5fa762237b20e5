"""The worker's part of a training step: batch, pull, forward, backward, push."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ps_train.base.private_tf import add_control_inputs
from ps_train.config.job import Job
from ps_train.data.batching import ONE_SIZE, Batching
from ps_train.data.data_shard import WHOLE, DataShard
from ps_train.data.pipeline import Batches, training_batches
from ps_train.engine.step.backward import Computed, PulledInputs, mean_gradients
from ps_train.engine.step.graph_spec import GraphSpec
from ps_train.engine.step.parts.step_part import Ahead, Pulled, StepParts, wrapped
from ps_train.engine.step.ps_state import PsState
from ps_train.engine.transport.beside_rows import TOUCHED
from ps_train.engine.transport.coding import pull_encoding_of
from ps_train.engine.transport.dense import Transport, all_joined
from ps_train.engine.transport.parcels import Parcel
from ps_train.engine.transport.received_push import ReceivedPush, empty_push
from ps_train.engine.transport.row_exchange import RowExchange, RowPush
from ps_train.engine.transport.sparse_mask import mask_name
from ps_train.engine.updates.gradients.push_guard import Guard, after, dropping, finite_guard, skipping
from ps_train.engine.updates.modes.base import Replica, UpdateMode
from ps_train.engine.variables.global_step import pulled_step
from ps_train.engine.variables.variables import input_resources
from ps_train.engine.variables.worker_state import local_variable


@dataclasses.dataclass(frozen=True)
class WorkerStep:
    """The worker's part of a step.

    Attributes:
      batches: the batches of the step.
      loss: float scalar of the batch, before the update.
      examples: float32 scalar, number of examples that the step stands for.
      received: the push as each ps receives it, by ps index.
      calls_begun: int64 scalar on the worker, number of training calls that have begun on all their tasks.
      ahead: what the step has read on the ps.
    """

    batches: Batches
    loss: tf.Tensor
    examples: tf.Tensor
    received: list[ReceivedPush]
    calls_begun: tf.Tensor
    ahead: Ahead


def build_worker_step(spec: GraphSpec, update: UpdateMode, state: PsState, parts: StepParts) -> WorkerStep:
    """Builds the worker's part of a step; call it in the worker's device scope.

    Args:
      spec: specification of the replica's graph.
      update: the update mode.
      state: the variables on the ps.
      parts: the features of the step.
    """
    encoding, dtype = pull_encoding_of(spec.job), tf.as_dtype(spec.job.compute_dtype)
    layout = wrapped(parts, "layout", all_joined)
    kept_as = tf.float32 if spec.job.has_local_steps else dtype  # what small steps change must not be rounded
    transport = Transport(
        spec.plan, spec.variables, state.variables, update.lockstep, encoding, kept_as, layout, update.scaled
    )

    exchange = RowExchange(spec.plan, spec.variables.tables(), state.variables, state.vocabularies, encoding)

    def plain_pull(received: Callable[[tf.Tensor], tf.Tensor]) -> Pulled:
        values = transport.pull(state.versions, received)
        step = pulled_step(state.global_step, state.versions[0])
        read = [*transport.pulled, *state.versions, step]
        return Pulled(values, state.versions, step, state.versions, read, exchange, torn=transport.torn)

    batches = _batches(spec, update, parts)
    pulled = wrapped(parts, "pull", plain_pull)(lambda vector: vector)
    # Without this, a call that one task refuses could still read a batch or push to another ps.
    calls_begun = local_variable("ps_train/begun_calls", [], tf.int64)
    begun = transport.begun_anew(calls_begun) if pulled.is_kept else transport.begun(pulled.answers, calls_begun)
    add_control_inputs(batches.get_next_op, [begun, *pulled.before_batch])
    inputs = PulledInputs(
        pulled.values,
        state.variables,
        spec.variables,
        lambda requests: exchange.pull(requests, state.versions),
        exchange.of_vocabularies(state.versions, _batches_per_update(spec, update)),
        tf.identity(pulled.step),
        dtype,
    )
    compute = functools.partial(mean_gradients, spec.model, accumulate=spec.job.accumulate, towers=spec.towers)
    computed = wrapped(parts, "compute", compute)(inputs, batches)
    pushes = _pushes(spec, state, transport, exchange, computed, update.scaled, pulled.torn)
    received = wrapped(parts, "push", lambda pushes, computed: pushes)(pushes, computed)
    ahead = Ahead(pulled.read, exchange.received, functools.partial(transport.begun_anew, calls_begun))
    return WorkerStep(batches, computed.loss, computed.examples, received, calls_begun.read_value(), ahead)


def _batches_per_update(spec: GraphSpec, update: UpdateMode) -> int:
    """Returns the number of batches whose rows are in an update."""
    return (1 if spec.job.rows_are_async else update.batches_per_update(spec.replica)) * len(spec.towers.devices)


def _batches(spec: GraphSpec, update: UpdateMode, parts: StepParts) -> Batches:
    """Returns the batches of a step."""
    job = spec.job

    def plain(data: Any, batching: Batching) -> Batches:
        return _static_batches(job, data, spec.replica, update.lockstep, batching)

    make = wrapped(parts, "batches", plain)
    with input_resources(spec.device):
        data = spec.source.get()
    with tf.device("/device:CPU:0"), input_resources(spec.device):
        if not (job.has_local_steps and job.local_tables and spec.variables.tables()):
            return dataclasses.replace(make(data, ONE_SIZE), name=spec.source.name)
        # A round begins with all its batches, which its steps and hooks get from where they are kept.
        batching = Batching(max(ONE_SIZE.ahead, job.local_step_limits.upper))
        return dataclasses.replace(make(data, batching).apart(), name=spec.source.name)


def _static_batches(job: Job, data: Any, replica: Replica, lockstep: bool, batching: Batching) -> Batches:
    """Returns the batches of the replica's shard.

    An undeclared replica reads all data, because the declared replicas already have one shard each.
    """
    shard = DataShard(replica.index, replica.declared) if replica.is_declared() else WHOLE
    endless = lockstep or job.may_run_out_of_input
    size, buffer = job.min_batch_size, job.shuffle_buffer
    return training_batches(data, shard, size, job.epochs, buffer, endless, batching, of_known_size=job.is_endless)


def _pushes(
    spec: GraphSpec,
    state: PsState,
    transport: Transport,
    exchange: RowExchange,
    computed: Computed,
    is_weighted: bool,
    torn: Sequence[tf.Tensor],
) -> list[ReceivedPush]:
    """Returns the guarded gradients of a step as they are pushed to each ps."""
    gradients = dict(computed.gradients)
    of_rows = {name: gradients.pop(name) for name in computed.rows}
    rows = exchange.push(of_rows, {TOUCHED: computed.used, **computed.beside}) if of_rows else {}
    gradients |= {mask_name(name): mask for name, mask in computed.masks.items()}
    vectors = transport.vectors(gradients, computed.examples, is_weighted, rows, torn, spec.job.rows_are_mean)
    parcels = [parcel for some in transport.pushed for parcel in some]
    early = [parcel.is_early for parcel in parcels] + [False] * len(rows)
    guarded = [parcel for parcel in parcels if not parcel.is_early]
    guard = _guard(
        spec, state, computed, guarded, rows, [one for one, is_early in zip(vectors, early, strict=True) if is_early]
    )
    left = iter(guard([one for one, is_early in zip(vectors, early, strict=True) if not is_early]))
    return transport.pushes(
        [one if is_early else next(left) for one, is_early in zip(vectors, early, strict=True)], rows
    )


def _guard(
    spec: GraphSpec,
    state: PsState,
    computed: Computed,
    parcels: Sequence[Parcel],
    rows: Mapping[int, RowPush],
    early: Sequence[tf.Tensor],
) -> Guard:
    """Returns the guard of the vectors of these parcels and of rows, which are not `early`.

    It also delays them until the model's UPDATE_OPS are done.
    """
    job = spec.job
    # A scalar in the place of a vector keeps the graph small where every job has it; --on_nan=skip copies nothing.
    otherwise: list[Any] = [
        _zero(parcel.dtype) if computed.skipped and not parcel.header else empty_push(parcel) for parcel in parcels
    ]
    if job.epochs or job.is_dynamic:
        # A batch after the end of the input repeats examples, and stands for none: its gradient is nothing to skip.
        otherwise = [
            vector * tf.cast(computed.examples > 0, vector.dtype) if parcel.header else vector
            for parcel, vector in zip(parcels, otherwise, strict=True)
        ]
    otherwise += [_zero("float32") for _ in rows]
    guard = skipping(computed.skipped, otherwise, finite_guard(job, computed.judged, otherwise, early))
    return after(computed.updates, dropping(job, spec.replica, state.counters.dropped, guard))


def _zero(dtype: str) -> np.ndarray[Any, Any]:
    """Returns the scalar 0, which replaces a vector of any length."""
    return np.zeros((), tf.as_dtype(dtype).as_numpy_dtype)
