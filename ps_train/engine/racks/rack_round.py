"""The rack's part of a synchronous round: its workers add up their gradients on one of them, the aggregator.

    rack = RackRound(place, max_steps)                      # in the graph of each worker of the rack
    values = transport.pull(..., received=rack.received)    # from the aggregator, in the place of the ps
    rack.publish(versions, step)                            # the aggregator: the values of a new round
    train, step_after = rack.visit(pushes, replica)         # a worker: its push, and the wait for the next round
    sums = rack.sums()                                      # the aggregator: the rack's push to the ps

To the ps a rack is one replica, which pushes the sum of its workers' gradients and of their examples.  The relay is a
call of the aggregator that runs beside its own steps.  It pulls, publishes what it has pulled, waits until every worker
of the rack has pushed, and pushes the sum; so it is a step whose computation is done by others.

The workers meet on a server of the aggregator, whose device is RACK_DEVICE in every session of the rack.  Everything
there happens under a mutex, except the waits.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.unsaved_key import UnsavedKey
from ps_train.cluster.topology import RackPlace
from ps_train.engine.racks.rack_ops import RACK_DEVICE, RackOps
from ps_train.engine.transport.received_push import ReceivedPush
from ps_train.engine.updates.modes.base import Replica
from ps_train.engine.updates.modes.gradient_accumulator import GradientAccumulator
from ps_train.engine.updates.modes.quorum import JOINING, MEMBER, RoundState
from ps_train.engine.updates.modes.token_gate import TokenGate
from ps_train.engine.variables.mutex import with_mutex
from ps_train.engine.variables.variables import zeros_variable

_MUTEX = "ps_train_lock/rack"
_ROUND, _COMPLETE, _STEP, _IS_PUBLISHED = range(4)
"""Places in the rack's numbers: its present round, its last complete round, the global step of the published values,
and 1 if values are published."""


class RackRound:
    """A rack's rounds, in the graph of one of its workers.

    Args:
      place: the worker's place.
      max_steps: no round begins once the global step has reached it.
    """

    def __init__(self, place: RackPlace, max_steps: int) -> None:
        self._place, self._max_steps = place, max_steps
        self._variables: list[Any] = []
        self._published: list[tuple[Any, tf.Tensor]] = []
        self._sums: list[GradientAccumulator] = []
        self._pushes: list[ReceivedPush] = []
        self._me = np.arange(place.size) == place.rank
        with self._on_rack():
            begin = np.array([0, -1, 0, 0], np.int64)
            self._numbers = self._variable("numbers", begin)
            self._initial_state = np.array([[MEMBER] * place.size, [0] * place.size], np.int64)
            self._state = self._variable("state", self._initial_state)
            self._gate = TokenGate("ps_train/rack/gate", place.size)
            self._relay_gate = TokenGate("ps_train/rack/relay_gate", 1)
            numbers = self._numbers.read_value()
            self.version, self.step = tf.identity(numbers[_ROUND]), tf.identity(numbers[_STEP])
            self._is_published = tf.equal(self._numbers.read_value()[_IS_PUBLISHED], 1)

    @contextlib.contextmanager
    def _on_rack(self) -> Iterator[None]:
        """Makes operations and variables on the aggregator in the body; no other graph saves or trains them."""

        def of_rack(getter: Any, *arguments: Any, **options: Any) -> Any:
            made = getter(*arguments, **{**options, "collections": [_OF_RACK]})
            self._variables.append(made)
            return made

        with (
            tf.device(None),
            tf.device(RACK_DEVICE),
            v1.variable_scope(v1.get_variable_scope(), custom_getter=of_rack),
        ):
            yield

    @staticmethod
    def _variable(name: str, initial: np.ndarray[Any, Any]) -> Any:
        return v1.get_variable(f"ps_train/rack/{name}", initializer=initial, trainable=False, use_resource=True)

    def received(self, vector: tf.Tensor) -> tf.Tensor:
        """Returns the published vector in the place of one that is pulled; see `Transport.pull`."""
        with self._on_rack():
            kept = zeros_variable(f"ps_train/rack/values_{len(self._published)}", vector.dtype, vector.shape.as_list())
            self._published.append((kept, vector))
            # A publication may come between the reads of a worker that is not waited for.  Its push is late then.
            with tf.control_dependencies([self.version]):
                return tf.raw_ops.ReadVariableOp(resource=kept.handle, dtype=kept.dtype)

    def visit(self, received: Sequence[ReceivedPush], replica: Replica) -> tuple[tf.Operation, tf.Tensor]:
        """Adds the worker's push; ends when the next values are published, if the worker waits for them.

        Args:
          received: the push, by ps index.
          replica: the worker.

        Returns:
          The operation, and the global step after it (int64 scalar).
        """
        self._pushes = list(received)
        with self._on_rack():
            here = [push.on_ps() for push in received if push.parcels]
            self._sums = [GradientAccumulator(f"ps_train/rack/sums_{push.ps}", push, replica) for push in here]
            after = [tensor for push in here for tensor in push.tensors()]
            locked, waits = with_mutex(_MUTEX, [*after, self.version], lambda: self._visit(here))
            passed = self._gate.wait_for_token(self._place.rank, waits, locked)
            with tf.control_dependencies([passed]):
                return passed, tf.identity(self._numbers.read_value()[_STEP])

    def _visit(self, here: Sequence[ReceivedPush]) -> tuple[list[tf.Operation], tf.Tensor]:
        rank, numbers, state = self._place.rank, tf.unstack(self._numbers.read_value()), self._round_state()
        now = numbers[_ROUND]
        is_open = (numbers[_STEP] < self._max_steps) & tf.equal(numbers[_IS_PUBLISHED], 1)
        member = tf.equal(state.membership[rank], MEMBER) & is_open
        current = tf.equal(self.version, now)
        in_time = member & current & tf.equal(state.arrived[rank], 0)
        after, over = state.visit(self._me, in_time, is_open, 0)
        first = ~tf.reduce_any(tf.equal(state.arrived, 1))
        added = [sums.add(push, in_time, first) for sums, push in zip(self._sums, here, strict=True)]
        waits = (member & current) | tf.equal(after.membership[rank], JOINING)
        with tf.control_dependencies(added):
            done = [*self._complete(over, numbers), self._assign(after)]
            wait = v1.cond(waits, lambda: self._gate.wait(rank, now + 1), tf.no_op)
        return [*done, wait], waits

    def _complete(self, over: tf.Tensor, numbers: Sequence[tf.Tensor]) -> list[tf.Operation]:
        """Lets the relay go on where the round is complete (bool scalar)."""
        complete = tf.where(over, numbers[_ROUND], numbers[_COMPLETE])
        noted = self._numbers.assign(tf.stack([numbers[_ROUND], complete, *numbers[_STEP:]]), read_value=False)
        with tf.control_dependencies([noted]):
            return [noted, self._relay_gate.release(complete)]

    def publish(self, versions: Sequence[tf.Tensor], step: tf.Tensor) -> None:
        """Adds the relay's first part: it publishes what it has pulled, and waits until the round is complete.

        Args:
          versions: for each ps a tensor that is read there before the values, so that every ps has begun.
          step: int64 scalar, the global step of the values.
        """
        with self._on_rack():
            vectors = [tf.identity(vector) for _, vector in self._published]
            here = [*vectors, *(tf.identity(version) for version in versions), step := tf.identity(step)]
            locked, (waits, published) = with_mutex(_MUTEX, here, lambda: self._publish(vectors, step))
            self._passed = self._relay_gate.wait_for_token(0, waits, locked)
            self._relayed_round, self.relayed_step = published, step

    def _publish(self, vectors: Sequence[tf.Tensor], step: tf.Tensor) -> tuple[list[tf.Operation], Any]:
        now, complete, _, _ = tf.unstack(self._numbers.read_value())
        after, following = self._round_state().next_if(tf.constant(True)), now + 1
        waits = step < self._max_steps
        values = [
            kept.assign(vector, read_value=False) for (kept, _), vector in zip(self._published, vectors, strict=True)
        ]
        one = tf.constant(1, tf.int64)
        with tf.control_dependencies(values):
            noted = self._numbers.assign(tf.stack([following, complete, step, one]), read_value=False)
        with tf.control_dependencies([noted, self._assign(after)]):
            wait = v1.cond(waits, lambda: self._relay_gate.wait(0, following), tf.no_op)
            return [noted, wait, self._gate.release(following)], (waits, following)

    def sums(self) -> list[ReceivedPush]:
        """Returns the rack's push to each ps, after `visit` and `publish`: the sums of a complete round."""
        with self._on_rack():

            def body() -> tuple[list[tf.Operation], list[list[tf.Tensor]]]:
                numbers = self._numbers.read_value()
                # A relay of a lost session may pass when the rack begins again: its sums are of another round.
                is_own = tf.equal(numbers[_ROUND], self._relayed_round) & (
                    tf.equal(numbers[_COMPLETE], self._relayed_round) | (numbers[_STEP] >= self._max_steps)
                )
                checked = tf.debugging.Assert(is_own, ["the rack has begun again", numbers])
                with tf.control_dependencies([checked]):
                    totals = [sums.totals() for sums in self._sums]
                return [total.op for some in totals for total in some], totals

            _, totals = with_mutex(_MUTEX, [self._passed], body)
        vectors = iter(totals)
        return [
            dataclasses.replace(
                push,
                parcels=tuple(dataclasses.replace(parcel, is_early=False) for parcel in push.parcels),
                vectors=tuple(next(vectors)) if push.parcels else (),
                decode=tuple,
            )
            for push in self._pushes
        ]

    def ops(self, relay: list[tf.Operation]) -> RackOps:
        """Returns the operations; `relay` are those of the rack's round on the ps."""
        with self._on_rack():
            leaver = v1.placeholder(tf.int64, [], "rack_leaver")
            leave, _ = with_mutex(_MUTEX, [tf.identity(leaver)], lambda: self._leave(tf.identity(leaver)))
            reset, _ = with_mutex(_MUTEX, [], self._reset)
            missing = tf.stack([tf.logical_not(v1.is_variable_initialized(variable)) for variable in self._variables])
        return RackOps(
            relay, self.relayed_step, leave, leaver, self._is_published, missing,
            [variable.initializer for variable in self._variables], reset,
        )  # fmt: skip

    def _leave(self, leaver: tf.Tensor) -> tuple[list[tf.Operation], None]:
        me = tf.equal(tf.range(self._place.size, dtype=tf.int64), leaver)
        numbers, state = tf.unstack(self._numbers.read_value()), self._round_state()
        after, complete, given_up = state.leave(me, 0)
        # The present values hold: nobody has pushed a gradient of them.  Those that wait to join begin with them.
        freed = me | (given_up & tf.equal(after.membership, JOINING))
        with tf.control_dependencies([*numbers, after.membership]):
            done = self._complete(complete, numbers)
            return [*done, self._assign(after.next_if(given_up)), self._gate.release(numbers[_ROUND], freed)], None

    def _reset(self) -> tuple[list[tf.Operation], None]:
        numbers = self._numbers.read_value()
        begun = tf.stack([numbers[_ROUND] + 1, tf.constant(-1, tf.int64), numbers[_STEP], tf.constant(0, tf.int64)])
        noted = self._numbers.assign(begun, read_value=False)
        state = self._state.assign(self._initial_state, read_value=False)
        with tf.control_dependencies([noted, state]):
            return [noted, state, self._gate.release_all(), self._relay_gate.release_all()], None

    def _round_state(self) -> RoundState:
        return RoundState(*tf.unstack(self._state.read_value()))

    def _assign(self, state: RoundState) -> tf.Operation:
        return self._state.assign(tf.stack([state.membership, state.arrived]), read_value=False)


_OF_RACK = UnsavedKey("rack_variables")
"""Collection of the variables of a rack, which are neither on a ps nor on the worker itself."""
