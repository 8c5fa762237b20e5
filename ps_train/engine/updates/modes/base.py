"""Common interface of all update modes.

A mode receives the parcels that one replica's push brings to each ps, and the shards that can apply gradients.  It
returns the operations of one step of that replica.  It knows nothing of models, optimizers or transport.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.cluster.addresses.cluster import Cluster
from ps_train.config.job import Task
from ps_train.engine.transport.received_push import ReceivedPush
from ps_train.engine.updates.counters.run_counters import RunCounters
from ps_train.engine.updates.modes.shard_part import ShardPart, Update
from ps_train.engine.variables.variables import ps_device

RateDivisor = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
"""Function of an update's examples (float32 scalar) and of the number of updates before it (int64 scalar); returns a
divisor of its learning rate, a float32 scalar."""


@dataclasses.dataclass(frozen=True)
class ParameterShard:
    """One ps's part of the model.

    Attributes:
      ps: index of the ps.
      apply: function of gradients (slice name to gradient, on this ps), of divisors of the learning rate (float32
        scalars), and of the number of steps of the update.  It returns the operation that applies the optimizers to all
        of them.
      update_count: int64 variable on this ps, the number of steps made; on ps 0 it is the global step.
      version: int64 scalar, read before the values of this step; see `UpdateMode.read_versions`.
      parts: what features add, inside the ps's lock.
      rate_divisors: further divisors of the learning rate of an update.
    """

    ps: int
    apply: Callable[[Mapping[str, tf.Tensor], Sequence[tf.Tensor], Any], tf.Operation]
    update_count: tf.Variable
    version: tf.Tensor
    parts: Sequence[ShardPart] = ()
    rate_divisors: Sequence[RateDivisor] = ()

    def update(
        self,
        gradients: Mapping[str, tf.Tensor],
        update: Update,
        only_if: Sequence[tf.Tensor] = (),
        rate_divisors: Sequence[tf.Tensor] = (),
    ) -> tf.Operation:
        """Applies gradients and counts the update.

        Args:
          gradients: slice name to gradient.
          update: what the parts of the shard get.
          only_if: bool scalars; the update is skipped where any of them is false.
          rate_divisors: float32 scalars that divide the learning rate.
        """

        def do() -> tf.Operation:
            examples, count = update.header.examples, self.update_count
            divisors = [*(divisor(examples, count.read_value()) for divisor in self.rate_divisors), *rate_divisors]
            with tf.control_dependencies([self.apply(gradients, divisors, update.steps)]):
                done = [self.update_count.assign_add(update.steps, read_value=False)]
                return tf.group(*done, *(op for part in self.parts for op in part.updated(update)))

        make: Callable[[], tf.Operation] = do
        for condition in only_if:
            make = functools.partial(v1.cond, condition, make, tf.no_op)
        return make()


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


class Removal(NamedTuple):
    """An operation that removes a replica, and the placeholder of its index (int64 scalar)."""

    op: tf.Operation
    replica: tf.Tensor


class StepLimit(NamedTuple):
    """An operation that sets the last global step that may be made, and the placeholder of it (int64 scalar)."""

    op: tf.Operation
    step: tf.Tensor


class WaitLimit(NamedTuple):
    """The number of replicas (`sync`) or steps (`bounded`) that a mode goes on without.

    Attributes:
      most: the largest one.
      value: returns the present one, an int or an int64 scalar that is read on ps 0 where it is used.
    """

    most: int
    value: Callable[[], int | tf.Tensor]

    @classmethod
    def fixed(cls, number: int) -> WaitLimit:
        """Returns the limit of a number that never changes."""
        return cls(number, lambda: number)


@dataclasses.dataclass(frozen=True)
class StepOps:
    """The operations of a replica; with racks, those of its rack.

    Attributes:
      train: one step, from pull to update.
      step_after: int64 scalar, the global step after that update; fetch it together with `train`.
      removals: each ends what waits for a replica, or is kept for it, until that replica makes a step again.
      awaited: bool [replicas], the replicas that other replicas' steps wait for now; empty in modes without waiting.
      reset: start again after state was lost.  Every declared replica is a member, no replica has arrived, all waiting
        steps continue, and pushes from before do not count.
      push_counters: one int64 variable, all of one shape, on each ps that is pushed to.  They are written under the
        ps's mutex and are equal when no update is half applied.
      step_gate: name of a mutex on ps 0 that every step passes at its end; "" without one.
      pauses: as `removals`, for a replica that only waits for a checkpoint and keeps its data.
      limits: each lets rounds be made up to a global step, since backup workers could make the next one before a
        checkpoint; empty in modes that need no such limit.
    """

    train: list[tf.Operation]
    step_after: tf.Tensor
    removals: Sequence[Removal] = ()
    awaited: Sequence[tf.Tensor] = ()
    reset: Sequence[tf.Operation] = ()
    push_counters: Sequence[Any] = ()
    step_gate: str = ""
    pauses: Sequence[Removal] = ()
    limits: Sequence[StepLimit] = ()


class UpdateMode(abc.ABC):
    """An update mode.

    Args:
      may_be_empty: gradients that stand for no example may arrive; they must change nothing.

    Attributes:
      lockstep: all replicas make every step together; a replica whose input ends must not fail within a step.
      scaled: parcels carry gradients multiplied by their number of examples.
      started_at: the time on ps 0 at which the step starts, float64 scalar, seconds; None in modes without waiting.
    """

    lockstep = False
    scaled = False
    started_at: tf.Tensor | None = None

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
    def build(
        self,
        shards: list[ParameterShard],
        received: list[ReceivedPush],
        replica: Replica,
        counters: RunCounters,
        limit: WaitLimit,
    ) -> StepOps:
        """Adds this mode's operations to the graph.

        Args:
          shards: one for each ps.
          received: the push, as each ps received it.
          replica: the replica that makes the step.
          counters: the run's counters, for what is counted outside of locks.
          limit: number of replicas or steps that the mode goes on without.
        """
