"""Common interface of all update modes.

A mode receives the parcels that one replica's push brings to each ps, and the shards that can apply gradients.  It
returns the operations of one step of that replica.  It knows nothing of models, optimizers or transport.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.cluster.addresses.cluster import Cluster
from ps_train.config.job import Task
from ps_train.engine.racks.rack_ops import RackOps
from ps_train.engine.transport.received_push import Header, ReceivedPush
from ps_train.engine.updates.counters.run_counters import RunCounters
from ps_train.engine.updates.following.adapted_value import AdaptedValue
from ps_train.engine.updates.shards.shard_progress import ShardProgress
from ps_train.engine.variables.variables import ps_device


@dataclasses.dataclass(frozen=True)
class ParameterShard:
    """One ps's part of the model.

    Attributes:
      ps: index of the ps.
      apply: function of gradients (slice name to gradient, on this ps) and of the learning rate's divisor (float32
        scalar or None).  It returns the operation that applies the optimizers to all of them.
      update_count: int64 variable on this ps, the number of updates made; on ps 0 it is the global step.
      version: int64 scalar, read before the values of this step; see `UpdateMode.read_versions`.
      counters: the run's counters, on ps 0; None elsewhere.
      values: slice name to variable, on this ps.
      progress: the examples that were used; None without dynamic sharding.
      rate_divisor: function of an update's examples that gives a further divisor of its learning rate; None: 1.
    """

    ps: int
    apply: Callable[[Mapping[str, tf.Tensor], tf.Tensor | None], tf.Operation]
    update_count: tf.Variable
    version: tf.Tensor
    counters: RunCounters | None = None
    values: Mapping[str, tf.Variable] = dataclasses.field(default_factory=dict)
    progress: ShardProgress | None = None
    rate_divisor: Callable[[tf.Tensor], tf.Tensor] | None = None

    def update(
        self,
        gradients: Mapping[str, tf.Tensor],
        header: Header,
        only_if: tf.Tensor | None = None,
        lr_divisor: tf.Tensor | None = None,
        state: Mapping[str, tf.Tensor] | None = None,
        state_if: tf.Tensor | None = None,
    ) -> tf.Operation:
        """Applies gradients and counts the update.

        Args:
          gradients: slice name to gradient.
          header: header of the push, or of the round.
          only_if: bool scalar; the update is skipped where it is false.  None: the update is always made.
          lr_divisor: float32 scalar that divides the learning rate; None: 1.
          state: slice name to a value that the model has assigned.
          state_if: bool scalar; `state` is assigned where it is true.  None: `state` is always assigned.
        """

        def assign() -> tf.Operation:
            return tf.group(
                *[self.values[name].assign(value, read_value=False) for name, value in (state or {}).items()]
            )

        if self.rate_divisor is not None:
            own = self.rate_divisor(header.examples)
            lr_divisor = own if lr_divisor is None else own * lr_divisor

        def do() -> tf.Operation:
            with tf.control_dependencies([self.apply(gradients, lr_divisor)]):
                done = [self.update_count.assign_add(1, read_value=False)]
                if state:
                    done.append(assign() if state_if is None else v1.cond(state_if, assign, tf.no_op))
                if self.counters is not None:
                    examples = tf.cast(header.examples, tf.float64)
                    done.append(self.counters.examples.assign_add(examples, read_value=False))
                return tf.group(*done)

        return do() if only_if is None else v1.cond(only_if, do, tf.no_op)


@dataclasses.dataclass(frozen=True)
class Replica:
    """A replica's place among the processes that compute gradients.

    Attributes:
      index: index of this replica.
      count: largest possible number of replicas.
      declared: number of replicas at the start, which are the first ones; the others may join.
    """

    index: int
    count: int
    declared: int

    @classmethod
    def of(cls, cluster: Cluster, task: Task) -> Replica:
        """Returns the replica that a task of the cluster is."""
        return cls(cluster.replica_index(task), len(cluster.possible_replicas()), cluster.num_replicas)

    def is_declared(self) -> bool:
        """Returns whether the replica is one of those at the start."""
        return self.index < self.declared

    def each(self, declared: int, other: int) -> list[int]:
        """Returns one number for each possible replica: `declared` for the declared ones, `other` for the rest."""
        return [declared if index < self.declared else other for index in range(self.count)]


@dataclasses.dataclass(frozen=True)
class StepOps:
    """The operations of a replica.

    Attributes:
      train: one step, from pull to update.
      step_after: int64 scalar, the global step after that update; fetch it together with `train`.
      remove: ends all waiting for `removed_replica`, until that replica makes a step again; None in modes without
        waiting.
      removed_replica: int64 scalar placeholder, a replica's index.
      awaited: bool [replicas], the replicas that other replicas' steps wait for now; None in modes without waiting.
      reset: starts again after state was lost.  Every declared replica is a member, no replica has arrived, all
        waiting steps continue, and pushes from before do not count.  None in modes without such state.
      push_counters: one int64 variable, all of one shape, on each ps that is pushed to.  They are written under the
        ps's mutex and are equal when no update is half applied.
      step_gate: name of a mutex on ps 0 that every step passes at its end; None without one.
      wait_limit: how far steps go on without the slowest replica; None in modes without waiting.
      pause: as `remove`, for a replica that only waits for a checkpoint and keeps its data; None without waiting.
      allow: lets rounds be made up to the global step `allowed_step`, since backup workers could make the next one
        before a checkpoint; None in modes that need no such limit.
      allowed_step: int64 scalar placeholder of `allow`.
      rack: the operations of the worker's rack; None without racks.  `removed_replica` and `awaited` are of racks then.
    """

    train: list[tf.Operation]
    step_after: tf.Tensor
    remove: tf.Operation | None = None
    removed_replica: tf.Tensor | None = None
    awaited: tf.Tensor | None = None
    reset: tf.Operation | None = None
    push_counters: Sequence[Any] = ()
    step_gate: str | None = None
    wait_limit: AdaptedValue | None = None
    pause: tf.Operation | None = None
    allow: tf.Operation | None = None
    allowed_step: tf.Tensor | None = None
    rack: RackOps | None = None


class UpdateMode(abc.ABC):
    """An update mode.

    Args:
      may_be_empty: gradients that stand for no example may arrive; they must change nothing.

    Attributes:
      lockstep: all replicas make every step together; a replica whose input ends must not fail within a step.
      scaled: parcels carry gradients multiplied by their number of examples.
    """

    lockstep = False
    scaled = False

    def __init__(self, may_be_empty: bool = False) -> None:
        self.may_be_empty = may_be_empty

    def batches_per_update(self, replica: Replica) -> int:
        """Returns the number of replicas whose batches are in an update."""
        return 1

    def read_versions(self, update_counts: list[Any], replica: Replica) -> list[tf.Tensor]:
        """Reads each ps's version before the values of a step, so that the age of the gradients is known.

        Args:
          update_counts: for each ps an int64 variable, the number of updates made there.
          replica: the replica that makes the step.

        Returns:
          For each ps an int64 scalar on that ps.
        """
        versions = []
        for ps, update_count in enumerate(update_counts):
            with tf.device(ps_device(ps)):
                versions.append(update_count.read_value())
        return versions

    @abc.abstractmethod
    def build(self, shards: list[ParameterShard], received: list[ReceivedPush], replica: Replica) -> StepOps:
        """Adds this mode's operations to the graph.

        Args:
          shards: one for each ps.
          received: the push, as each ps received it.
          replica: the replica that makes the step.
        """
