"""Asynchronous updates: every gradient is applied when it arrives, whatever the others do.

Dean et al. 2012, "Large Scale Distributed Deep Networks" (Downpour SGD).  On each ps one update is made at a time, and
its staleness is known when it is made.  Three ways to live with stale gradients: drop those that are too old; divide
the learning rate by the staleness (Zhang et al. 2016, "Staleness-aware Async-SGD for Distributed Deep Learning"); add
what the gradient would have changed by since the pull (DC-ASGD: Zheng et al. 2017, "Asynchronous Stochastic Gradient
Descent with Delay Compensation"), for which each ps keeps what each worker pulled last.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.gradients.precision import widen
from ps_train.placement.mutex import mutex_of, with_mutex
from ps_train.placement.variables import ps_device
from ps_train.transport.dense import ReceivedPush
from ps_train.transport.sparse_mask import is_mask
from ps_train.updates.base import ParameterShard, Replica, StepOps, UpdateMode
from ps_train.updates.staleness import BINS
from ps_train.updates.token_gate import NEVER

GATE = "ps_train_lock/gate"
"""Where steps are held up between two of them; see `hold.py`."""


class Asynchronous(UpdateMode):
    """Args beside those of all modes:
    max_steps: no update is counted when the global step is there: a worker that slept may still have steps to make
      that were handed out again.
    max_staleness: gradients that are older are dropped and counted; None: none is.
    staleness_lr: divide the learning rate by the staleness, where that is above 1.
    delay_compensation: the strength lambda of the correction g + lambda g g (w - w_pulled); 0: none.
    """

    def __init__(
        self,
        may_be_empty: bool = False,
        max_steps: int = NEVER,
        max_staleness: int | None = None,
        staleness_lr: bool = False,
        delay_compensation: float = 0.0,
    ) -> None:
        super().__init__(may_be_empty)
        self._max_steps = max_steps
        self._max_staleness = max_staleness
        self._staleness_lr = staleness_lr
        self._delay_compensation = delay_compensation

    def build(self, shards: list[ParameterShard], arrived: list[ReceivedPush], replica: Replica) -> StepOps:
        return self._build(shards, arrived, replica, gated=True)

    def _build(
        self, shards: list[ParameterShard], arrived: list[ReceivedPush], replica: Replica, gated: bool
    ) -> StepOps:
        sides = [(shard, arriving) for shard, arriving in zip(shards, arrived, strict=True) if arriving.vectors]
        several = len(sides) > 1
        marks = [_pushes(shard.ps, replica.count) if several else shard.update_count for shard, _ in sides]
        train = [
            self._locked(shard, arriving, replica, mark if several else None)
            for (shard, arriving), mark in zip(sides, marks, strict=True)
        ]
        gate = GATE if gated and several else None
        with tf.device(ps_device(0)):
            if gate:
                train[0] = with_mutex(gate, train[:1], lambda: ([], None))[0]
            with tf.control_dependencies(train[:1]):
                step_after = shards[0].update_count.read_value()
        reset = tf.group(*[_begin(mark) for mark in marks]) if several else None
        return StepOps(train, step_after, reset=reset, push_counters=marks, step_gate=gate)

    def _locked(self, shard: ParameterShard, arriving: ReceivedPush, replica: Replica, pushes: Any) -> tf.Operation:
        def body() -> tuple[list[tf.Operation], None]:
            done = self._update(shard, here, replica)
            if pushes is not None:
                done.append(pushes.scatter_nd_add([[replica.index]], tf.constant([1], tf.int64)).op)
            return done, None

        with tf.device(ps_device(shard.ps)):
            here = arriving.on_ps()
            return with_mutex(mutex_of(shard.ps), here.tensors(), body)[0]

    def _update(self, shard: ParameterShard, arriving: ReceivedPush, replica: Replica) -> list[tf.Operation]:
        gradients, header = arriving.gradients()
        if self._delay_compensation:
            pulled = arriving.rows.pulled if arriving.rows else {}
            gradients = {name: self._compensated(shard, name, gradient, pulled) for name, gradient in gradients.items()}
        clock = shard.update_count.read_value()
        staleness = tf.maximum(clock - shard.version, 0)  # below 0 where a ps was restored since the pull
        fresh = staleness <= self._max_staleness if self._max_staleness is not None else None
        wanted = header.examples > 0 if self.may_be_empty else None
        # The other ps do not know the global step: an update that they still make is of a job that is at its end.
        is_open = clock < self._max_steps if shard.ps == 0 else None
        is_next = shard.ledger.is_next(arriving.progress) if shard.ledger is not None else None
        conditions = [condition for condition in (fresh, wanted, is_open, is_next) if condition is not None]
        only_if = tf.reduce_all(tf.stack(conditions)) if conditions else None
        slowdown = tf.cast(tf.maximum(staleness, 1), tf.float32) if self._staleness_lr else None
        with tf.control_dependencies([staleness]):
            made = shard.update(gradients, header, only_if, slowdown, arriving.state.by_slice())
            done = [made, *self._used(shard, arriving, is_next, is_open)]
        if shard.counts is not None:
            made = tf.cast(True if only_if is None else only_if, tf.int64)
            where = [[tf.constant(replica.index, tf.int64), tf.minimum(staleness, BINS - 1)]]
            done.append(shard.counts.staleness.scatter_nd_add(where, [made]).op)
            done.append(shard.counts.skipped.assign_add(tf.cast(header.skipped, tf.int64), read_value=False))
            in_turn = None if is_next is None else is_next | arriving.is_nothing()
            kept = [condition for condition in (fresh, in_turn) if condition is not None]
            late = tf.cast(~tf.reduce_all(tf.stack(kept)), tf.int64) if kept else 0
            dropped = tf.cast(header.lost, tf.int64) + late
            done.append(shard.counts.dropped.assign_add(dropped, read_value=False))
        return done

    @staticmethod
    def _used(
        shard: ParameterShard, arriving: ReceivedPush, is_next: tf.Tensor | None, is_open: Any
    ) -> list[tf.Operation]:
        """Examples count as used also where the user asked to leave their gradient out: it would be so every time."""
        if shard.ledger is None:
            return []
        return [shard.ledger.advance(arriving.progress, is_next if is_open is None else is_next & is_open)]

    def _compensated(self, shard: ParameterShard, name: str, gradient: Any, pulled: Mapping[str, tf.Tensor]) -> Any:
        if is_mask(name):
            return gradient
        if isinstance(gradient, tf.IndexedSlices):  # of a table: what was pulled is still there, in the same step
            g, moved = gradient.values, shard.values[name].sparse_read(gradient.indices) - pulled[name]
            corrected = g + self._delay_compensation * tf.square(g) * moved
            return tf.IndexedSlices(corrected, gradient.indices, gradient.dense_shape)
        moved = widen(shard.values[name].read_value()) - widen(shard.backups[name].read_value())
        g = widen(gradient)
        return tf.cast(g + self._delay_compensation * tf.square(g) * moved, gradient.dtype)


def _pushes(ps: int, replicas: int) -> Any:
    """How many pushes of each replica have been here.  (On this ps; int64 [replicas].)"""
    zeros = v1.zeros_initializer()
    with tf.device(ps_device(ps)):
        return v1.get_variable(f"ps_train/pushes_{ps}", [replicas], tf.int64, zeros, trainable=False, use_resource=True)


def _begin(pushes: Any) -> tf.Operation:
    """None has been here."""
    with tf.device(pushes.device):
        return pushes.assign(tf.zeros_like(pushes), read_value=False)
