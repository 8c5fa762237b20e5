"""The one interface of all update modes.

A mode is given the parcels that one replica's push brings to each ps, and the shards that can apply gradients; it says
which operations make up one step of that replica.  It knows nothing of models, optimizers or transport.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.graph.transport import Arrived, Header


@dataclasses.dataclass(frozen=True)
class Shard:
    """One ps's part of the model.

    Attributes:
      ps: its index.
      apply: slice name to gradient (on this ps) -> operation that applies the optimizer's rule to them all.
      clock: int64 variable on this ps, the number of updates made; on ps 0 it is the global step.
      examples: float64 variable on ps 0, the examples that all updates stand for; None elsewhere.
      skipped: int64 variable on ps 0, the gradients that were skipped; None elsewhere.
    """

    ps: int
    apply: Callable[[Mapping[str, tf.Tensor]], tf.Operation]
    clock: tf.Variable
    examples: tf.Variable | None = None
    skipped: tf.Variable | None = None

    def update(self, gradients: Mapping[str, tf.Tensor], header: Header, may_skip: bool) -> tf.Operation:
        """Applies gradients and counts the update; if `may_skip`, only where they stand for an example at all."""

        def do() -> tf.Operation:
            with tf.control_dependencies([self.apply(gradients)]):
                counted = [self.clock.assign_add(1, read_value=False)]
                if self.examples is not None:
                    counted.append(self.examples.assign_add(tf.cast(header.examples, tf.float64), read_value=False))
                return tf.group(*counted)

        if not may_skip:
            return do()
        done = [v1.cond(header.examples > 0, do, tf.no_op)]
        if self.skipped is not None:
            done.append(self.skipped.assign_add(tf.cast(header.skipped, tf.int64), read_value=False))
        return tf.group(*done)


@dataclasses.dataclass(frozen=True)
class Replica:
    """Which of the processes that compute gradients; the leader is replica 0."""

    index: int
    count: int


@dataclasses.dataclass(frozen=True)
class StepOps:
    """What a replica runs.

    Attributes:
      train: one step, from pull to update.
      step_after: int64 scalar, the global step after that update; fetch it together with `train`.
      reset: run once by the leader after the variables are initialised or restored.
    """

    train: list[tf.Operation]
    step_after: tf.Tensor
    reset: list[tf.Operation]


class Update(abc.ABC):
    """An update mode.

    Args:
      may_skip: gradients that stand for no example may arrive, and must change nothing.

    Attributes:
      lockstep: all replicas make every step together; one whose input has ended goes on with a weight of zero.
      scaled: parcels carry gradients multiplied by their number of examples.
    """

    lockstep = False
    scaled = False

    def __init__(self, may_skip: bool = False) -> None:
        self.may_skip = may_skip

    @abc.abstractmethod
    def build(self, shards: list[Shard], arrived: list[Arrived], replica: Replica) -> StepOps:
        """Adds this mode's operations to the graph."""
