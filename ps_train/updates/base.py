"""The one interface of all update modes.

A mode is given the parcels that one replica's push brings to each ps, and the shards that can apply gradients; it says
which operations make up one step of that replica.  It knows nothing of models, optimizers or transport.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.cluster.spec import Cluster
from ps_train.config.task import Task
from ps_train.placement.variables import ps_device
from ps_train.sharding.progress import ShardProgress
from ps_train.transport.dense import Header, ReceivedPush


@dataclasses.dataclass(frozen=True)
class RunCounters:
    """What is counted over the whole run, in variables on ps 0.

    Attributes:
      examples: float64 scalar, the examples that all updates stand for.
      skipped: int64 scalar, gradients that were left out because they were no finite numbers.
      dropped: int64 scalar, gradients that were left out because they were too old.
      staleness: int64 [replicas, staleness.BINS], updates by replica and staleness.
      waiting: float64 [replicas, 2], seconds that steps waited for other replicas, and seconds that they took in all.
    """

    examples: tf.Variable
    skipped: tf.Variable
    dropped: tf.Variable
    staleness: tf.Variable
    waiting: tf.Variable


@dataclasses.dataclass(frozen=True)
class ParameterShard:
    """One ps's part of the model.

    Attributes:
      ps: its index.
      apply: given slice name to gradient (on this ps), and by what to divide the learning rate (float32 scalar or
        None), the operation that applies the optimizer's rule to them all.
      clock: int64 variable on this ps, the number of updates made; on ps 0 it is the global step.
      stamp: int64 scalar, what was read before the values of this step; see `Update.stamps`.
      counts: on ps 0; None elsewhere.
      values: slice name to variable, on this ps.
      backups: slice name to the variable that holds what this replica pulled last; empty where none is kept.
      ledger: which examples were used; None where shards of the data are not handed out.
    """

    ps: int
    apply: Callable[[Mapping[str, tf.Tensor], tf.Tensor | None], tf.Operation]
    update_count: tf.Variable
    version: tf.Tensor
    counts: RunCounters | None = None
    values: Mapping[str, tf.Variable] = dataclasses.field(default_factory=dict)
    backups: Mapping[str, tf.Variable] = dataclasses.field(default_factory=dict)
    ledger: ShardProgress | None = None

    def update(
        self,
        gradients: Mapping[str, tf.Tensor],
        header: Header,
        only_if: tf.Tensor | None = None,
        slowdown: tf.Tensor | None = None,
        state: Mapping[str, tf.Tensor] | None = None,
        state_if: tf.Tensor | None = None,
    ) -> tf.Operation:
        """Applies gradients and counts the update; where `only_if` (bool scalar) is given and false, nothing.

        Args:
          state: slice name to a value that the model has assigned; used where `state_if` (bool scalar) is true or None.
        """

        def assign() -> tf.Operation:
            return tf.group(
                *[self.values[name].assign(value, read_value=False) for name, value in (state or {}).items()]
            )

        def do() -> tf.Operation:
            with tf.control_dependencies([self.apply(gradients, slowdown)]):
                counted = [self.update_count.assign_add(1, read_value=False)]
                if state:
                    counted.append(assign() if state_if is None else v1.cond(state_if, assign, tf.no_op))
                if self.counts is not None:
                    examples = tf.cast(header.examples, tf.float64)
                    counted.append(self.counts.examples.assign_add(examples, read_value=False))
                return tf.group(*counted)

        return do() if only_if is None else v1.cond(only_if, do, tf.no_op)


@dataclasses.dataclass(frozen=True)
class Replica:
    """Which of the processes that compute gradients.

    Attributes:
      count: how many there may be.
      declared: how many there are from the beginning, the first ones; the others may join.
    """

    index: int
    count: int
    declared: int

    @classmethod
    def of(cls, cluster: Cluster, task: Task) -> Replica:
        return cls(cluster.replica_index(task), len(cluster.possible_replicas()), cluster.num_replicas)

    def is_declared(self) -> bool:
        return self.index < self.declared

    def each(self, declared: int, other: int) -> list[int]:
        """One number for each that there may be."""
        return [declared if index < self.declared else other for index in range(self.count)]


@dataclasses.dataclass(frozen=True)
class StepOps:
    """What a replica runs.

    Attributes:
      train: one step, from pull to update.
      step_after: int64 scalar, the global step after that update; fetch it together with `train`.
      leave: from now on nobody waits for the replica `leaver`, until it makes a step again; None where
        nobody ever does.
      leaver: int64 scalar, to be fed.
      awaited: bool [replicas], for whom steps of others wait at the moment; None where nobody ever waits.
      reset: begins anew after state was lost: everybody is a member and nobody has arrived, whoever waits goes on,
        and what is still on its way from before will not count; None where there is nothing of the kind.
      marks: of each ps that is pushed to a variable there, int64 of one shape, written under the ps's lock: all have
        the same value when no update is made in part.
      gate: a lock on ps 0 that every step passes at its end; None where there is none.
    """

    train: list[tf.Operation]
    step_after: tf.Tensor
    remove: tf.Operation | None = None
    removed_replica: tf.Tensor | None = None
    awaited: tf.Tensor | None = None
    reset: tf.Operation | None = None
    push_counters: Sequence[Any] = ()
    step_gate: str | None = None


class UpdateMode(abc.ABC):
    """An update mode.

    Args:
      may_be_empty: gradients that stand for no example may arrive, and must change nothing.

    Attributes:
      lockstep: all replicas make every step together; one whose input ends must not fail in the middle of a step.
      scaled: parcels carry gradients multiplied by their number of examples.
    """

    lockstep = False
    scaled = False

    def __init__(self, may_be_empty: bool = False) -> None:
        self.may_be_empty = may_be_empty

    def read_versions(self, clocks: list[Any], replica: Replica) -> list[tf.Tensor]:
        """For each ps an int64 scalar there that is read before the values of a step are: by it an update mode knows
        how old the gradients are.  `clocks`: the number of updates made on each ps."""
        stamps = []
        for ps, clock in enumerate(clocks):
            with tf.device(ps_device(ps)):
                stamps.append(clock.read_value())
        return stamps

    @abc.abstractmethod
    def build(self, shards: list[ParameterShard], arrived: list[ReceivedPush], replica: Replica) -> StepOps:
        """Adds this mode's operations to the graph."""
