"""The worker's part of a training step: batch, pull, forward, backward, gradient transforms, push."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from ps_train.base.private_tf import add_control_inputs
from ps_train.config.codec_spec import AUTO_CODECS
from ps_train.config.job import Job
from ps_train.config.job_values import described
from ps_train.config.validators import AUTO
from ps_train.data.data_shard import WHOLE, DataShard
from ps_train.data.dynamic_batches import DynamicBatches
from ps_train.data.pipeline import Batches, training_batches
from ps_train.data.shards.shard_batches import ShardedBatches
from ps_train.data.shards.shard_readers import reader_of
from ps_train.engine.racks.rack_round import RackRound
from ps_train.engine.step.backward import Backward, PulledInputs, mean_gradients
from ps_train.engine.step.graph_spec import GraphSpec
from ps_train.engine.step.ps_state import PsState
from ps_train.engine.step.unroll import Ahead
from ps_train.engine.transport.codecs.feedback import Momentum
from ps_train.engine.transport.coding import coding_of
from ps_train.engine.transport.dense import Transport
from ps_train.engine.transport.push_encoding import PushEncoding
from ps_train.engine.transport.received_push import ReceivedPush, empty_push
from ps_train.engine.transport.row_exchange import RowExchange, RowPush
from ps_train.engine.transport.sparse_mask import apply_masks, mask_name
from ps_train.engine.updates.following.adaptation_policy import BYTES, Ladder
from ps_train.engine.updates.following.adapted_value import AdaptedValue
from ps_train.engine.updates.following.batch_size_control import BatchSize, batch_size_of
from ps_train.engine.updates.gradients.momentum_correction import momenta_of
from ps_train.engine.updates.gradients.push_guard import Guard, after, dropping, finite_guard, scaled_guard
from ps_train.engine.updates.gradients.transforms import transforms_of
from ps_train.engine.updates.modes.base import Replica, UpdateMode
from ps_train.engine.variables.global_step import pulled_step
from ps_train.engine.variables.precision import LossScale
from ps_train.engine.variables.variables import input_resources
from ps_train.engine.variables.worker_state import local_variable

log = logging.getLogger(__name__)


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
      kept: operations of the step that keep what the push has left out.
      encodings: the encodings of the pushes, with what they have left out.
      momenta: variable name to momentum, for variables whose velocity the worker adds up.
      ahead: what a worker needs to pull ahead; None if it does not.
      batch_size: the size of the batches.
      push_codec: the place in AUTO_CODECS of the codec of pushes; fixed unless it follows the network.
      loss_scale: float32 scalar, the present loss scale of the worker; None unless the loss is scaled.
      rack: the worker's part in its rack; `received` is then the rack's push.  None without racks.
    """

    batches: Batches
    assigned: ShardedBatches | None
    loss: tf.Tensor
    examples: tf.Tensor
    received: list[ReceivedPush]
    calls_begun: tf.Tensor
    kept: list[tf.Operation]
    encodings: list[PushEncoding]
    momenta: dict[str, Momentum]
    ahead: Ahead | None
    batch_size: BatchSize
    push_codec: AdaptedValue
    loss_scale: tf.Tensor | None
    rack: RackVisit | None = None


class RackVisit(NamedTuple):
    """A worker's part in its rack.

    Attributes:
      round: the rack's rounds.
      train: the worker's push, and its wait for the next values.
      step_after: int64 scalar, the global step after it.
    """

    round: RackRound
    train: tf.Operation
    step_after: tf.Tensor


def build_worker_step(spec: GraphSpec, update: UpdateMode, state: PsState) -> WorkerStep:
    """Builds the worker's part of a step; call it in the worker's device scope.

    Args:
      spec: specification of the replica's graph.
      update: the update mode.
      state: the variables on the ps.
    """
    job = spec.job
    momenta = momenta_of(job, spec.model, spec.variables.with_gradient())
    codec = AdaptedValue("push_codec", Ladder(range(len(AUTO_CODECS) if job.push_codec == AUTO else 1), BYTES))
    codec.make()
    chosen = codec.pulled(state.versions[0])
    coding = coding_of(job, spec.replica.index, momenta, chosen)
    transport = Transport(spec.plan, spec.variables, state.variables, update.lockstep, coding)
    size = batch_size_of(job, ahead=not update.lockstep)
    assigned, batches = _batches(spec, update, size.of_input)
    rack = None if spec.place is None else RackRound(spec.place, job.max_steps)
    values = transport.pull(state.versions) if rack is None else transport.pull(state.versions, rack.received)
    versions = state.versions if rack is None else [rack.version] * len(state.versions)
    # Without this, a call that one task refuses could still read a batch or push to another ps.
    calls_begun = local_variable("ps_train/begun_calls", [], tf.int64)
    add_control_inputs(batches.get_next_op, [transport.begun(versions, calls_begun)])
    exchange = RowExchange(spec.plan, spec.variables.tables(), state.variables, state.vocabularies, coding.pulled)
    scale = LossScale() if job.scales_loss else None
    step = pulled_step(state.global_step, state.versions[0])
    if rack is not None:
        rack.publish(state.versions, step)
        step = rack.step
    read = [*transport.pulled, *state.versions, step, *size.follow(step, batches)]
    read += [] if chosen is None else [chosen]
    inputs = PulledInputs(
        values,
        state.variables,
        spec.variables,
        lambda requests: exchange.pull(requests, state.versions),
        exchange.of_vocabularies(state.versions, update.batches_per_update(spec.replica) * len(spec.towers.devices)),
        tf.identity(step),
        tf.as_dtype(job.compute_dtype),
        None if scale is None else scale.value,
    )
    backward = mean_gradients(spec.model, batches, inputs, job.accumulate, spec.towers)
    pushes = _push(spec, state, transport, exchange, _Computed(values, backward, scale, update.scaled))
    received = [dataclasses.replace(push, progress=batches.progress) for push in pushes]
    visit = None
    if rack is not None:
        visit = RackVisit(rack, *rack.visit(received, spec.replica))
        received = rack.sums()
    ahead = Ahead(read, _rows(spec, exchange), transport.begun_anew(calls_begun)) if _pulls_ahead(spec) else None
    return WorkerStep(
        batches, assigned, backward.loss, backward.examples, received, calls_begun.read_value(), transport.kept,
        [encoding for encoding in transport.encodings if encoding is not None], momenta, ahead, size, codec,
        None if scale is None else scale.present, visit,
    )  # fmt: skip


def _rows(spec: GraphSpec, exchange: RowExchange) -> list[tf.Tensor]:
    """Returns the rows that a call may pull for the next one: none where its batch would be missing at the end."""
    return exchange.received if spec.job.is_endless else []


def _pulls_ahead(spec: GraphSpec) -> bool:
    """Returns whether values are pulled ahead: not if the model assigns variables, which must not be outdated."""
    state = spec.variables.state()
    if spec.job.prefetch_pulls and state:
        log.warning(
            "%s has no effect: the model assigns %s itself, which the next step must see",
            described(spec.job, "prefetch_pulls"),
            ", ".join(state[:3]),
        )
    return bool(spec.job.prefetch_pulls) and not state


class _Computed(NamedTuple):
    """The results of a step that are to be pushed.

    Attributes:
      values: variable name to pulled value.
      backward: loss and gradients.
      scale: the loss scale; None unless the loss is scaled.
      is_weighted: whether gradients are multiplied by their number of examples.
    """

    values: dict[str, tf.Tensor]
    backward: Backward
    scale: LossScale | None
    is_weighted: bool


def _push(
    spec: GraphSpec, state: PsState, transport: Transport, exchange: RowExchange, computed: _Computed
) -> list[ReceivedPush]:
    """Transforms the gradients and sends them, with the model's own state."""
    job, replica, backward = spec.job, spec.replica, computed.backward
    gradients = dict(backward.gradients)
    used = apply_masks({**computed.values, **backward.rows}, {**backward.masks, **backward.used})
    for transform in transforms_of(job):
        gradients = transform(gradients, used)
    of_rows = {name: gradients.pop(name) for name in backward.rows}
    rows = exchange.push(of_rows, backward.used) if of_rows else []
    gradients |= {mask_name(name): mask for name, mask in backward.masks.items()}
    guard = _guard(spec, state, backward, transport, rows, computed.scale)
    pushes = transport.push(gradients, backward.examples, computed.is_weighted, guard, rows)
    pushed_state = transport.push_state(backward.state if replica.index == 0 else None)
    return [dataclasses.replace(push, state=pushed_state[push.ps]) for push in pushes]


def _batches(spec: GraphSpec, update: UpdateMode, size: int | DynamicBatches) -> tuple[ShardedBatches | None, Batches]:
    """Returns the batches, and their source under dynamic sharding."""
    job = spec.job
    with input_resources(spec.device):
        data = spec.source.get()
    with tf.device("/device:CPU:0"), input_resources(spec.device):
        assigned = ShardedBatches(reader_of(data, job), size) if job.is_dynamic else None
        batches = assigned.batches if assigned else _static_batches(job, data, spec.replica, update.lockstep, size)
    return assigned, dataclasses.replace(batches, name=spec.source.name)


def _static_batches(job: Job, data: Any, replica: Replica, lockstep: bool, size: int | DynamicBatches) -> Batches:
    """Returns the batches of the replica's shard.

    An undeclared replica reads all data, because the declared replicas already have one shard each.
    """
    shard = DataShard(replica.index, replica.declared) if replica.is_declared() else WHOLE
    endless = lockstep or job.may_run_out_of_input
    return training_batches(data, shard, size, job.epochs, job.shuffle_buffer, endless)


def _guard(
    spec: GraphSpec,
    state: PsState,
    backward: Backward,
    transport: Transport,
    rows: Sequence[RowPush | None],
    scale: LossScale | None,
) -> Guard:
    """Returns the guard of the push, which also delays it until the model's UPDATE_OPS are done."""
    job = spec.job
    parcels = [parcel for some in transport.pushed for parcel in some]
    otherwise_rows = [np.zeros((), np.float32) for push in rows if push is not None]
    if scale is None:
        otherwise: list[Any] = [empty_push(parcel) for parcel in parcels]
    else:
        otherwise = [empty_push(parcel) if parcel.header else _zero(parcel.dtype) for parcel in parcels]
    if job.epochs or job.is_dynamic:
        # A batch after the end of the input repeats examples, and stands for none: its gradient is nothing to skip.
        otherwise = [
            vector * tf.cast(backward.examples > 0, vector.dtype) if parcel.header else vector
            for parcel, vector in zip(parcels, otherwise, strict=True)
        ]
    otherwise += otherwise_rows
    if scale is None:
        guard = finite_guard(job, backward.loss, otherwise)
    else:
        guard = scaled_guard(job, backward.loss, list(backward.gradients.values()), scale, otherwise)
    return after(backward.updates, dropping(job, spec.replica, state.counters.dropped, guard))


def _zero(dtype: str) -> np.ndarray[Any, Any]:
    """Returns the scalar 0, which replaces a vector of any length."""
    return np.zeros((), tf.as_dtype(dtype).as_numpy_dtype)
