"""Assembles the graph of one replica: batch, pull, forward, backward, push, update.

    step = build_step(job, model, source, traced, plan, Replica(index=0, count=2), worker_device)
    session.run(step.ops.train)

Two passes build a model: `trace` ran it once to learn its variables; here it is built again with a getter that hands
it the pulled values in the variables' place.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
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
from ps_train.updates.base import Replica, Shard, StepOps

EXAMPLES = "ps_train/examples"
"""Name of the variable that counts the examples of all updates."""

SKIPPED = "ps_train/skipped"
"""Name of the variable that counts the gradients that were skipped; see --on_nan."""


@dataclasses.dataclass(frozen=True)
class Step:
    """A replica's graph and the handles to what it runs and fetches.

    Attributes:
      loss: float scalar of this replica's batch, before the update.
      global_step, examples, skipped: variables on ps 0.
      stored: all variables that a checkpoint holds; complete on replica 0 only.
      initialise: gives every variable its initial value.
      uninitialised: bool vector, one entry for each stored variable.
    """

    graph: tf.Graph
    batches: Batches
    ops: StepOps
    loss: tf.Tensor
    global_step: tf.Variable
    examples: tf.Variable
    skipped: tf.Variable
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
        with tf.device(ps_device(0)):
            global_step = v1.train.create_global_step()
            examples = _counter(EXAMPLES, tf.float64)
            skipped = _counter(SKIPPED, tf.int64)
        variables = make_variables(traced, plan, job.seed)
        transport = Transport(plan, traced, variables)
        with tf.device(worker_device):
            with tf.device("/device:CPU:0"):
                share = Share(replica.index, replica.count)
                batches = training_batches(
                    source.get(), share, job.batch_size, job.epochs, job.shuffle_buffer, endless=update.lockstep
                )
            values = transport.pull()
            loss = _loss(model, batches, values, variables)
            gradients = _gradients(loss, {name: values[name] for name in traced.learned()})
            for transform in transforms_of(job):
                gradients = transform(gradients, values)
            arrived = transport.push(gradients, batches.examples, update.scaled, _guard(job, loss, transport))
        shards, made = _shards(job, model, variables, plan.num_ps, global_step, examples, skipped)
        ops = update.build(shards, arrived, replica)
        if replica.index == 0:
            ops.train.extend(v1.get_collection(v1.GraphKeys.UPDATE_OPS))
        stored = [Stored("global_step", "", global_step), Stored(EXAMPLES, "", examples)]
        stored.append(Stored(SKIPPED, "", skipped))
        stored += stored_variables(plan, variables, made)
        initialise = tf.group(*[v.initializer for v in v1.global_variables()])
        uninitialised = tf.stack([tf.logical_not(v1.is_variable_initialized(s.variable)) for s in stored])
        return Step(
            graph,
            batches,
            ops,
            loss,
            global_step,
            examples,
            skipped,
            stored,
            initialise,
            uninitialised,
            update.lockstep,
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


def _gradients(loss: tf.Tensor, values: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    found = tf.gradients(loss, list(values.values()))
    return {name: tf.convert_to_tensor(gradient) for name, gradient in zip(values, found, strict=True)}


def _guard(job: Job, loss: tf.Tensor, transport: Transport) -> Callable[[list[tf.Tensor]], list[tf.Tensor]]:
    """What becomes of gradients that are no finite numbers; see --on_nan."""
    if job.on_nan == "stop":
        return lambda vectors: finite.stop(loss, vectors)
    otherwise = [nothing(parcel) for parcels in transport.pushed for parcel in parcels]
    return lambda vectors: finite.skip(loss, vectors, otherwise)


def _shards(
    job: Job, model: Model, variables: Mapping[str, Any], num_ps: int, global_step: Any, examples: Any, skipped: Any
) -> tuple[list[Shard], dict[int, list[Any]]]:
    """Every ps gets an optimizer of its own, so that rates and powers of beta live where they are used; the second
    value collects the variables that each of them makes."""
    made: dict[int, list[Any]] = {ps: [] for ps in range(num_ps)}
    shards = []
    for ps in range(num_ps):
        with tf.device(ps_device(ps)):
            clock = global_step if ps == 0 else _counter(f"ps_train/clock_{ps}", tf.int64)
            rule = _optimizer(job, model)
        apply = _applier(ps, rule, variables, made[ps])
        shards.append(Shard(ps, apply, clock, *((examples, skipped) if ps == 0 else ())))
    return shards, made


def _optimizer(job: Job, model: Model) -> Any:
    name = job.optimizer or model.default_optimizer
    rate = job.learning_rate or model.default_learning_rate
    rule = model.optimizer(name, rate)
    if not isinstance(rule, v1.train.Optimizer):
        raise ModelError(f"optimizer() returned {type(rule).__name__}: return a tf.compat.v1.train.Optimizer.")
    return rule


def _applier(ps: int, rule: Any, variables: Mapping[str, Any], made: list[Any]) -> Callable[..., tf.Operation]:
    def apply(gradients: Mapping[str, tf.Tensor]) -> tf.Operation:
        if not gradients:
            return tf.no_op()
        before = {id(v) for v in v1.global_variables()}
        with tf.device(ps_device(ps)):
            done = rule.apply_gradients([(gradient, variables[name]) for name, gradient in gradients.items()])
        made.extend(v for v in v1.global_variables() if id(v) not in before)
        return done

    return apply


def _counter(name: str, dtype: tf.DType) -> Any:
    return v1.get_variable(name, [], dtype, v1.zeros_initializer(), trainable=False, use_resource=True)
