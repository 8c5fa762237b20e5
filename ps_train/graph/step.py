"""Assembles the graph of one replica: batch, pull, forward, backward, push, update.

    step = build_step(job, model, source, traced, plan, Replica(index=0, count=2), worker_device)
    session.run(step.ops.train)

Two passes build a model: `trace` ran it once to learn its variables; here it is built again with a getter that hands
it the pulled values in the variables' place.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.config import Job
from ps_train.data.shard import Batches, Share, Source, derived_seed, training_batches
from ps_train.errors import ModelError
from ps_train.gradients import finite, transforms_of
from ps_train.graph.plan import Plan
from ps_train.graph.trace import Traced
from ps_train.graph.transport import Transport, nothing
from ps_train.graph.variables import Stored, make_variables, ps_device, stored_variables
from ps_train.model import Model
from ps_train.updates import make_update
from ps_train.updates.base import Counts, Replica, Shard, StepOps
from ps_train.updates.staleness import BINS


@dataclasses.dataclass(frozen=True)
class Step:
    """A replica's graph and the handles to what it runs and fetches.

    Attributes:
      loss: float scalar of this replica's batch, before the update.
      examples: float32 scalar, how many examples the step stands for; 0 when the input has ended.
      global_step: variable on ps 0.
      counts: variables on ps 0.
      stored: all variables that a checkpoint holds; complete on replica 0 only.
      initialise: gives every variable its initial value.
      uninitialised: bool vector, one entry for each stored variable.
    """

    graph: tf.Graph
    batches: Batches
    ops: StepOps
    loss: tf.Tensor
    examples: tf.Tensor
    global_step: tf.Variable
    counts: Counts
    stored: list[Stored]
    initialise: tf.Operation
    uninitialised: tf.Tensor
    lockstep: bool


def build_step(
    job: Job, model: Model, source: Source, traced: Traced, plan: Plan, replica: Replica, worker_device: str
) -> Step:
    """The graph of one replica.  `worker_device` is its own device, `/job:worker/replica:0/task:1`."""
    update = make_update(job)
    with tf.Graph().as_default() as graph:
        v1.set_random_seed(derived_seed(job.seed, "replica", replica.index))
        clocks, counts = _clocks(plan.num_ps), _counts(replica.count)
        stamps = [_stamp(ps, clock) for ps, clock in enumerate(clocks)]
        variables = make_variables(traced, plan, job.seed)
        transport = Transport(plan, traced, variables)
        with tf.device(worker_device):
            with tf.device("/device:CPU:0"):
                share, endless = Share(replica.index, replica.count), update.lockstep or job.accumulate > 1
                batches = training_batches(source.get(), share, job.batch_size, job.epochs, job.shuffle_buffer, endless)
            values = transport.pull(after=stamps)
            learned = {name: values[name] for name in traced.learned()}
            loss, gradients, examples = _gradients(model, batches, values, variables, learned, job.accumulate)
            for transform in transforms_of(job):
                gradients = transform(gradients, values)
            arrived = transport.push(gradients, examples, update.scaled, _guard(job, loss, transport))
        made: dict[int, list[Any]] = {ps: [] for ps in range(plan.num_ps)}
        shards = [
            Shard(ps, _applier(ps, job, model, variables, made[ps]), clocks[ps], stamps[ps], None if ps else counts)
            for ps in range(plan.num_ps)
        ]
        ops = update.build(shards, arrived, replica)
        if replica.index == 0:
            ops.train.extend(v1.get_collection(v1.GraphKeys.UPDATE_OPS))
        stored = [Stored("global_step", "", clocks[0])]
        stored += [Stored(v.op.name, "", v) for v in (counts.examples, counts.skipped, counts.dropped)]
        stored += stored_variables(plan, variables, made)
        initialise = tf.group(*[v.initializer for v in v1.global_variables()])
        uninitialised = tf.stack([tf.logical_not(v1.is_variable_initialized(s.variable)) for s in stored])
        return Step(
            graph=graph,
            batches=batches,
            ops=ops,
            loss=loss,
            examples=examples,
            global_step=clocks[0],
            counts=counts,
            stored=stored,
            initialise=initialise,
            uninitialised=uninitialised,
            lockstep=update.lockstep,
        )


def _loss(model: Model, batches: Batches, values: Mapping[str, tf.Tensor], variables: Mapping[str, Any]) -> tf.Tensor:
    with v1.variable_scope(v1.get_variable_scope(), custom_getter=_getter(values, variables)):
        outputs = model.forward(batches.features, training=True)
        return model.loss(outputs, batches.labels)


def _getter(values: Mapping[str, tf.Tensor], variables: Mapping[str, Any]) -> Callable[..., Any]:
    def get(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        if name not in values and name not in variables:
            raise ModelError(
                f"forward() made variable {name}, which it did not make the first time: build it the same way."
            )
        found = values[name] if name in values else variables[name]
        regularizer = kwargs.get("regularizer")
        if regularizer is not None and not kwargs.get("reuse"):
            v1.add_to_collection(v1.GraphKeys.REGULARIZATION_LOSSES, regularizer(found))
        return found

    return get


def _gradients(
    model: Model,
    batches: Batches,
    values: Mapping[str, tf.Tensor],
    variables: Mapping[str, Any],
    learned: Mapping[str, tf.Tensor],
    accumulate: int,
) -> tuple[tf.Tensor, dict[str, tf.Tensor], tf.Tensor]:
    """Loss and gradients, the means over the examples of `accumulate` batches, and the number of those examples."""
    losses: list[tf.Tensor] = []
    found: list[list[tf.Tensor]] = []
    sizes: list[tf.Tensor] = []
    for number in range(accumulate):
        if number:
            batches = batches.next(after=found[-1])  # one after the other, so that they need not all fit into memory
        losses.append(_loss(model, batches, values, variables))
        dense = [tf.convert_to_tensor(one) for one in tf.gradients(losses[-1], list(learned.values()))]
        found.append(dense)
        sizes.append(batches.examples)
    if accumulate == 1:
        return losses[0], dict(zip(learned, found[0], strict=True)), sizes[0]
    examples = tf.add_n(sizes)
    shares = [size / tf.maximum(examples, 1.0) for size in sizes]
    means = [_weighted(some, shares) for some in zip(*found, strict=True)]
    return _weighted(losses, shares), dict(zip(learned, means, strict=True)), examples


def _weighted(tensors: Sequence[tf.Tensor], shares: Sequence[tf.Tensor]) -> tf.Tensor:
    return tf.add_n([tensor * tf.cast(share, tensor.dtype) for tensor, share in zip(tensors, shares, strict=True)])


def _guard(job: Job, loss: tf.Tensor, transport: Transport) -> Callable[[list[tf.Tensor]], list[tf.Tensor]]:
    """What becomes of gradients that are no finite numbers; see --on_nan."""
    if job.on_nan == "stop":
        return lambda vectors: finite.stop(loss, vectors)
    otherwise = [nothing(parcel) for parcels in transport.pushed for parcel in parcels]
    return lambda vectors: finite.skip(loss, vectors, otherwise)


def _clocks(num_ps: int) -> list[Any]:
    """Counters of updates, one on each ps; the first is TensorFlow's global step."""
    clocks = []
    for ps in range(num_ps):
        with tf.device(ps_device(ps)):
            clocks.append(_counter(f"ps_train/clock_{ps}", tf.int64) if ps else v1.train.create_global_step())
    return clocks


def _counts(replicas: int) -> Counts:
    with tf.device(ps_device(0)):
        return Counts(
            _counter("ps_train/examples", tf.float64),
            _counter("ps_train/skipped", tf.int64),
            _counter("ps_train/dropped", tf.int64),
            _counter("ps_train/staleness", tf.int64, [replicas, BINS]),
        )


def _stamp(ps: int, clock: Any) -> tf.Tensor:
    with tf.device(ps_device(ps)):
        return clock.read_value()


def _optimizer(job: Job, model: Model, slowdown: tf.Tensor | None) -> Any:
    name = job.optimizer or model.default_optimizer
    rate = job.learning_rate or model.default_learning_rate
    rule = model.optimizer(name, rate if slowdown is None else rate / slowdown)
    if not isinstance(rule, v1.train.Optimizer):
        raise ModelError(f"optimizer() returned {type(rule).__name__}: return a tf.compat.v1.train.Optimizer.")
    return rule


def _applier(
    ps: int, job: Job, model: Model, variables: Mapping[str, Any], made: list[Any]
) -> Callable[[Mapping[str, tf.Tensor], tf.Tensor | None], tf.Operation]:
    """Every ps gets an optimizer of its own, so that rates and powers of beta live where they are used; `made` collects
    the variables that it makes."""

    def apply(gradients: Mapping[str, tf.Tensor], slowdown: tf.Tensor | None) -> tf.Operation:
        if not gradients:
            return tf.no_op()
        before = {id(v) for v in v1.global_variables()}
        with tf.device(ps_device(ps)):
            rule = _optimizer(job, model, slowdown)
            done = rule.apply_gradients([(gradient, variables[name]) for name, gradient in gradients.items()])
        made.extend(v for v in v1.global_variables() if id(v) not in before)
        return done

    return apply


def _counter(name: str, dtype: tf.DType, shape: Sequence[int] = ()) -> Any:
    return v1.get_variable(name, shape, dtype, v1.zeros_initializer(), trainable=False, use_resource=True)
