"""The interface of a part: what a feature adds to one worker's step, on the worker and on the ps.

    class Halved(StepPart):
        def compute(self, compute):
            def halved(inputs, batches):
                computed = compute(inputs, batches)
                return dataclasses.replace(computed, gradients={n: g / 2 for n, g in computed.gradients.items()})

            return halved

    compute = wrapped(parts, "compute", compute)

Each method takes the function of the next part and returns a function in its place.  The last one's next is the plain
step's.  The words are called once, in the order of the methods here; so a part may keep what it has made in one of them
for the next.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import tensorflow as tf

from ps_train.base.gauge import Gauge
from ps_train.data.batching import Batching
from ps_train.data.pipeline import Batches
from ps_train.engine.step.backward import Computed, PulledInputs
from ps_train.engine.step.unroll import UnrolledCalls, UnrolledStep
from ps_train.engine.transport.parcels import Parcel
from ps_train.engine.transport.received_push import ReceivedPush
from ps_train.engine.transport.row_exchange import RowExchange
from ps_train.engine.updates.gradients.apply_gradients import AppliedOptimizers, RuleSource
from ps_train.engine.updates.modes.base import RateDivisor, Replica, StepOps, WaitLimit
from ps_train.engine.updates.modes.shard_part import ShardPart
from ps_train.engine.variables.plan import Slice
from ps_train.engine.variables.variables import CheckpointEntry

_Part = TypeVar("_Part", bound="StepPart")
_Word = TypeVar("_Word")


@dataclasses.dataclass(frozen=True)
class Pulled:
    """What a step has pulled.

    Attributes:
      values: variable name to value, on the worker.
      versions: for each ps an int64 scalar there, read before its values.
      step: int64 scalar, the global step of the values.
      answers: for each ps a tensor that shows that this task has begun its part of the call.
      read: the tensors that the step reads on the ps; they may be read ahead.
      before_batch: operations that the step's batch waits for.
      exchange: pulls and pushes the rows of tables.
      torn: whether the values are of several versions, a bool scalar; empty where it is not known.
      is_kept: whether the values were pulled in a call before.
    """

    values: dict[str, tf.Tensor]
    versions: Sequence[tf.Tensor]
    step: tf.Tensor
    answers: Sequence[tf.Tensor]
    read: Sequence[tf.Tensor]
    exchange: RowExchange
    before_batch: Sequence[tf.Operation] = ()
    torn: Sequence[tf.Tensor] = ()
    is_kept: bool = False


@dataclasses.dataclass(frozen=True)
class ToUpdate:
    """What the update of a step is made from.

    Attributes:
      received: the push, as each ps receives it.
      rules: the optimizers.
      make_optimizers: makes the optimizers of each ps by rules.
      update_counts: for each ps the variable with the number of updates made there; that of ps 0 is the global step.
      variables: slice name to variable of the model.
      versions: for each ps the version of the values from which the push was made, an int64 scalar.
      limit: number of replicas or steps that the update mode goes on without.
      rate_divisors: functions of an update's examples and of the updates before it; each gives a divisor of its
        learning rate.
      shard_parts: ps to what features add there, inside its lock.
    """

    received: list[ReceivedPush]
    rules: RuleSource
    make_optimizers: Callable[[RuleSource], list[AppliedOptimizers]]
    update_counts: Sequence[Any]
    variables: Mapping[str, Any]
    versions: Sequence[tf.Tensor]
    limit: WaitLimit
    rate_divisors: Sequence[RateDivisor] = ()
    shard_parts: Mapping[int, Sequence[ShardPart]] = dataclasses.field(default_factory=dict)

    @property
    def global_step(self) -> Any:
        """The variable of the global step."""
        return self.update_counts[0]

    def with_rate_divisor(self, divisor: RateDivisor) -> ToUpdate:
        """Returns the same with a further divisor of the learning rate."""
        return dataclasses.replace(self, rate_divisors=[*self.rate_divisors, divisor])

    def with_shard_parts(self, added: Mapping[int, ShardPart]) -> ToUpdate:
        """Returns the same with a further part on some ps."""
        parts = {ps: [*self.shard_parts.get(ps, ()), part] for ps, part in added.items()}
        return dataclasses.replace(self, shard_parts={**self.shard_parts, **parts})


@dataclasses.dataclass(frozen=True)
class Updated:
    """The update of a step.

    Attributes:
      ops: its operations.
      optimizers: the optimizers of each ps.
      of_rows: those of tables' rows on each ps, where these have updates of their own; else empty.
    """

    ops: StepOps
    optimizers: Sequence[AppliedOptimizers]
    of_rows: Sequence[AppliedOptimizers] = ()


@dataclasses.dataclass(frozen=True)
class Ahead:
    """What a step has read on the ps before it computes: a call may read it for the next one.

    Attributes:
      values: the tensors that every step reads.
      rows: the tensors with the rows of its batch.
      begin: makes an operation on the worker, which runs when every ps has begun its part of a call.
    """

    values: Sequence[tf.Tensor]
    rows: Sequence[tf.Tensor]
    begin: Callable[[], tf.Operation]


Layout = Callable[[Sequence[Slice], int], list[Parcel]]
"""Function of the slices on a ps that have a dense gradient, and the ps; returns the parcels of some of them."""

MakeBatches = Callable[[Any, Batching], Batches]
"""Function of the training data and the way in which batches are formed."""

Pull = Callable[[Callable[[tf.Tensor], tf.Tensor]], Pulled]
"""Function of what is called on the worker with each vector as it travels, and returns the vector in its place."""

Compute = Callable[[PulledInputs, Batches], Computed]
"""Function of the pulled values and the first batch; its result is what is pushed."""

Push = Callable[[list[ReceivedPush], Computed], list[ReceivedPush]]
"""Function of the push to each ps, and what it was made from; returns the push as the ps get it."""

MakeUpdate = Callable[[ToUpdate], Updated]

MakeCalls = Callable[[UnrolledStep, Ahead], UnrolledCalls]
"""Function of a finished step; returns the steps of calls, as copies of it or of sections of it."""


class StepPart:
    """What a feature adds to a step.  The methods of this class add nothing."""

    def pusher(self, replica: Replica) -> Replica:
        """Returns the replica that the ps see."""
        return replica

    def layout(self, layout: Layout) -> Layout:
        """Wraps the choice of gradients that travel in parcels of their own; the others are joined."""
        return layout

    def batches(self, batches: MakeBatches) -> MakeBatches:
        """Wraps the input; on the worker, as all methods up to `push`."""
        return batches

    def pull(self, pull: Pull) -> Pull:
        """Wraps the pull."""
        return pull

    def compute(self, compute: Compute) -> Compute:
        """Wraps forward pass, backward pass and transforms."""
        return compute

    def push(self, push: Push) -> Push:
        """Wraps the push."""
        return push

    def update(self, update: MakeUpdate) -> MakeUpdate:
        """Wraps the update on the ps."""
        return update

    def calls(self, calls: MakeCalls) -> MakeCalls:
        """Wraps the calls, which make several steps each."""
        return calls

    def entries(self) -> list[CheckpointEntry]:
        """Returns the checkpoint's variables of the part, after `update`."""
        return []

    def gauges(self) -> Mapping[Gauge, tf.Tensor]:
        """Returns tensors with the present values of what it shows, after `update`."""
        return {}


class StepParts(tuple[StepPart, ...]):
    """The parts of a step; the first is the outermost."""

    def of(self, kind: type[_Part]) -> list[_Part]:
        """Returns the parts of a class: none, or one."""
        return [part for part in self if isinstance(part, kind)]


def wrapped(parts: Iterable[StepPart], word: str, plain: _Word) -> _Word:
    """Returns the function of a word, with every part's around the plain one.

    Args:
      parts: the parts, the outermost first.
      word: name of a method of `StepPart`.
      plain: the plain step's function.
    """
    found = plain
    for part in reversed([*parts]):
        found = getattr(part, word)(found)
    return found
