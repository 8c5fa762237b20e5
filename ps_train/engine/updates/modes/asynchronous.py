"""Asynchronous updates: every gradient is applied when it arrives, independently of other replicas.

Dean et al. 2012, "Large Scale Distributed Deep Networks" (Downpour SGD).  Each ps makes one update at a time, and the
update's staleness is known at that moment.  `stale_gradients.py` has the rules that may apply to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ps_train.engine.transport.received_push import ReceivedPush
from ps_train.engine.updates.counters.run_counters import RunCounters
from ps_train.engine.updates.modes.base import ParameterShard, Replica, StepOps, UpdateMode, WaitLimit
from ps_train.engine.updates.modes.shard_part import Counts, Update
from ps_train.engine.updates.modes.stale_gradients import StaleGradientRule
from ps_train.engine.updates.modes.token_gate import NEVER
from ps_train.engine.variables.mutex import mutex_of, with_mutex
from ps_train.engine.variables.variables import ps_device, zeros_variable

GATE = "ps_train_lock/gate"
"""Name of the mutex that holds back a replica's next step; see `engine/checkpoint/push_barrier.py`."""


class Asynchronous(UpdateMode):
    """Asynchronous updates.

    Args:
      may_be_empty: see `UpdateMode`.
      max_steps: no update is made once the global step has reached it.  A worker that slept may still have steps
        that were reallocated to another worker.
      rules: the rules for stale gradients; a gradient that a rule does not accept is counted as dropped.
    """

    def __init__(
        self, may_be_empty: bool = False, max_steps: int = NEVER, rules: Sequence[StaleGradientRule] = ()
    ) -> None:
        super().__init__(may_be_empty)
        self._max_steps, self._rules = max_steps, rules

    def build(
        self,
        shards: list[ParameterShard],
        received: list[ReceivedPush],
        replica: Replica,
        counters: RunCounters,
        limit: WaitLimit,
    ) -> StepOps:
        """Adds updates that each ps applies as soon as a push arrives."""
        return self._build(shards, received, replica, gated=True)

    def _build(
        self, shards: list[ParameterShard], received: list[ReceivedPush], replica: Replica, gated: bool
    ) -> StepOps:
        pairs = [(shard, push) for shard, push in zip(shards, received, strict=True) if push.vectors]
        several = len(pairs) > 1
        counters = [_push_counter(shard.ps, replica.count) if several else shard.update_count for shard, _ in pairs]
        train = [
            self._locked(shard, push, replica, counter if several else None)
            for (shard, push), counter in zip(pairs, counters, strict=True)
        ]
        step_gate = GATE if gated and several else ""
        with tf.device(ps_device(0)):
            if step_gate:
                train[0] = with_mutex(step_gate, train[:1], lambda: ([], None))[0]
            with tf.control_dependencies(train[:1]):
                step_after = shards[0].update_count.read_value()
        reset = [_reset(counter) for counter in counters] if several else []
        return StepOps(train, step_after, reset=reset, push_counters=counters, step_gate=step_gate)

    def _locked(self, shard: ParameterShard, push: ReceivedPush, replica: Replica, counter: Any) -> tf.Operation:
        def body() -> tuple[list[tf.Operation], None]:
            done = self._update(shard, here, replica)
            if counter is not None:
                done.append(counter.scatter_nd_add([[replica.index]], tf.constant([1], tf.int64)).op)
            return done, None

        with tf.device(ps_device(shard.ps)):
            here = push.on_ps()
            return with_mutex(mutex_of(shard.ps), [*here.tensors(), shard.version], body)[0]

    def _update(self, shard: ParameterShard, push: ReceivedPush, replica: Replica) -> list[tf.Operation]:
        gradients, header = push.gradients()
        update_count = shard.update_count.read_value()
        steps = push.steps()
        staleness = tf.maximum(update_count - shard.version, 0)  # negative if the ps was restored since the pull
        if push.round:  # it counts rounds as long as this one, which may be of no step
            length = tf.maximum(steps, 1)
            staleness = (staleness + length - 1) // length
        accepted = [condition for rule in self._rules for condition in rule.used_if(staleness)]
        wanted = [header.examples > 0] if self.may_be_empty else []
        # The other ps do not know the global step: an update that they still make belongs to a job at its end.
        is_open = [update_count + steps <= self._max_steps] if shard.ps == 0 else []
        verdicts = [part.judge(push) for part in shard.parts]
        conditions = [*accepted, *wanted, *is_open]
        conditions += [condition for verdict in verdicts for condition in verdict.used_if]
        only_if = [tf.reduce_all(tf.stack(conditions))] if conditions else []
        divisors = [divisor for rule in self._rules for divisor in rule.rate_divisors(staleness)]
        with tf.control_dependencies([staleness]):
            updated = shard.update(gradients, Update(header, push.state.by_slice(), steps=steps), only_if, divisors)
            done = [updated, *(op for verdict in verdicts for op in verdict.ended(is_open))]
        kept = [*accepted, *(condition for verdict in verdicts for condition in verdict.kept_if)]
        counts = Counts(
            replica.index,
            [push.skipped()],
            [tf.cast(~tf.reduce_all(tf.stack(kept)), tf.int64)] if kept else [],
            [(staleness, tf.cast(next(iter(only_if), True), tf.int64))],
        )
        return [*done, *(op for part in shard.parts for op in part.counted(counts))]


def _push_counter(ps: int, replicas: int) -> Any:
    """Makes the counter of each replica's pushes to a ps: int64 [replicas], on that ps."""
    with tf.device(ps_device(ps)):
        return zeros_variable(f"ps_train/pushes_{ps}", tf.int64, [replicas])


def _reset(counter: Any) -> tf.Operation:
    with tf.device(counter.device):
        return counter.assign(tf.zeros_like(counter), read_value=False)
