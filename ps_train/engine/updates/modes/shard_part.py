"""What a feature adds on one ps, inside the ps's lock.

The update mode calls a part, because the mode has the lock, the rounds and the gates.  A mode without rounds calls
`judge`, `updated` and `counted`; one with rounds has `in_round` in the place of `judge`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.transport.received_push import Header, ReceivedPush
from ps_train.engine.updates.counters.run_counters import RunCounters
from ps_train.engine.updates.modes.staleness import BINS


def _nothing(is_open: Sequence[tf.Tensor]) -> list[tf.Operation]:
    return []


class Verdict(NamedTuple):
    """What a part finds about a push.

    Attributes:
      used_if: bool scalars; the gradient is used where all of them are true.
      kept_if: bool scalars; the gradient counts as dropped unless all of them are true.
      ended: function of further conditions (bool scalars); makes the operations that follow, whether the gradient was
        used or not.
    """

    used_if: Sequence[tf.Tensor] = ()
    kept_if: Sequence[tf.Tensor] = ()
    ended: Callable[[Sequence[tf.Tensor]], list[tf.Operation]] = _nothing


class Update(NamedTuple):
    """An update.

    Attributes:
      header: header of the push, or of the round.
      state: slice name to a value that the model has assigned.
      state_if: a bool scalar, whether `state` is of this update; empty: it always is.
      steps: number of global steps that the update makes, an int or an int64 scalar.
    """

    header: Header
    state: Mapping[str, tf.Tensor] = {}
    state_if: Sequence[tf.Tensor] = ()
    steps: Any = 1


class Counts(NamedTuple):
    """What is counted of a push.

    Attributes:
      replica: index of the replica that pushes.
      skipped: an int64 scalar, as in `RunCounters`; empty for one of a round (`PendingSum`).
      dropped: an int64 scalar, as in `RunCounters`; empty where no push is dropped.
      staleness: the staleness of its gradient, and 1 if it was used; empty in modes without.
    """

    replica: int
    skipped: Sequence[tf.Tensor] = ()
    dropped: Sequence[tf.Tensor] = ()
    staleness: Sequence[tuple[tf.Tensor, tf.Tensor]] = ()


class RoundPart:
    """A part of a synchronous round on one ps; make it on the ps's device.  All methods but `add` may do nothing."""

    def accepts(self, push: ReceivedPush) -> list[tf.Tensor]:
        """Returns bool scalars; a push is added as an empty one unless all of them are true."""
        return []

    def add(self, push: ReceivedPush, only_if: tf.Tensor) -> tf.Operation:
        """Records the replica's push if `only_if` (bool scalar) is true: it is in time, and all parts accept it."""
        raise NotImplementedError

    def discard(self, push: ReceivedPush, only_if: tf.Tensor) -> tf.Operation:
        """Ends a late push that is left out for good, if `only_if` (bool scalar) is true."""
        return tf.no_op()

    def finish(self) -> tf.Operation:
        """Ends the round."""
        return tf.no_op()

    def clear(self) -> tf.Operation:
        """Begins the round again."""
        return tf.no_op()


class PendingSum(RoundPart):
    """What the pushes of a round add to a total, which counts when the round ends: as its update, once or not at all.

    Args:
      name: of the variable that keeps it meanwhile.
      total: variable on this ps.
      added: returns what a push adds.
    """

    def __init__(self, name: str, total: tf.Variable, added: Callable[[ReceivedPush], tf.Tensor]) -> None:
        self._total, self._added = total, added
        self._pending = v1.get_variable(
            name,
            shape=total.shape,
            dtype=total.dtype.base_dtype,
            initializer=v1.zeros_initializer(),
            trainable=False,
            use_resource=True,
        )

    def add(self, push: ReceivedPush, only_if: tf.Tensor) -> tf.Operation:
        """Adds a push if `only_if` (bool scalar) is true."""
        added = tf.cast(self._added(push), self._pending.dtype)
        return self._pending.assign_add(tf.where(only_if, added, tf.zeros_like(added)), read_value=False)

    def finish(self) -> tf.Operation:
        """Adds the round to the total."""
        pending = self._pending.read_value()
        with tf.control_dependencies([pending]):
            counted = self._total.assign_add(pending, read_value=False)
        with tf.control_dependencies([counted]):
            return self.clear()

    def clear(self) -> tf.Operation:
        """Forgets the round."""
        return self._pending.assign(tf.zeros_like(self._pending), read_value=False)


class ShardPart:
    """What a feature adds on one ps.  The methods of this class add nothing."""

    def judge(self, push: ReceivedPush) -> Verdict:
        """Returns whether a push is used."""
        return Verdict()

    def in_round(self, replica: int, replicas: int) -> list[RoundPart]:
        """Returns the part of a round: none, or one.

        Args:
          replica: index of this replica.
          replicas: number of replicas.
        """
        return []

    def updated(self, update: Update) -> list[tf.Operation]:
        """Returns the operations of an update that is made."""
        return []

    def counted(self, counts: Counts) -> list[tf.Operation]:
        """Returns the operations that count a push, whether it is used or not."""
        return []


class RunCounting(ShardPart):
    """The counters of the whole run, on ps 0."""

    def __init__(self, counters: RunCounters) -> None:
        self._counters = counters

    def in_round(self, replica: int, replicas: int) -> list[RoundPart]:
        """Returns the gradients of a round that were left out."""
        return [PendingSum("ps_train/skipped_of_round", self._counters.skipped, ReceivedPush.skipped)]

    def updated(self, update: Update) -> list[tf.Operation]:
        """Counts the examples of an update."""
        examples = tf.cast(update.header.examples, tf.float64)
        return [self._counters.examples.assign_add(examples, read_value=False)]

    def counted(self, counts: Counts) -> list[tf.Operation]:
        """Counts staleness, and gradients that were left out."""
        done = []
        for staleness, applied in counts.staleness:
            where = [[tf.constant(counts.replica, tf.int64), tf.minimum(staleness, BINS - 1)]]
            done.append(self._counters.staleness.scatter_nd_add(where, [applied]).op)
        done += [self._counters.skipped.assign_add(one, read_value=False) for one in counts.skipped]
        return done + [self._counters.dropped.assign_add(one, read_value=False) for one in counts.dropped]


class AssignedState(ShardPart):
    """The state that a model assigns itself.

    Args:
      values: slice name to variable, on this ps.
    """

    def __init__(self, values: Mapping[str, tf.Variable]) -> None:
        self._values = values

    def updated(self, update: Update) -> list[tf.Operation]:
        """Assigns the state that came with the update."""
        if not update.state:
            return []

        def assign() -> tf.Operation:
            pairs = update.state.items()
            return tf.group(*[self._values[name].assign(value, read_value=False) for name, value in pairs])

        return [v1.cond(condition, assign, tf.no_op) for condition in update.state_if] or [assign()]
