"""The clocks of the ps, compared with this process's clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.cluster.sessions.calls import RepeatingSession

_FEWEST, _MOST, _ENOUGH_NS = 8, 100, 100_000
"""Calls to a ps: at least so many, and at most, until one of them tells its clock to 0.1 ms."""
_TIMEOUT_MS = 2000


class Offset(NamedTuple):
    """The nanoseconds that this process's clock is ahead of a ps's, and how many they may be wrong by."""

    ahead: int
    uncertainty: int


class PsClocks:
    """Compares clocks as NTP does: of several short calls the fastest counts.

    Args:
      targets: returns the present TensorFlow target of each ps, `grpc://host:port`.
      others: returns the targets of other servers by name, such as that of the worker's rack.
    """

    def __init__(self, targets: Callable[[], Sequence[str]], others: Callable[[], Mapping[str, str]] = dict) -> None:
        self._targets, self._others, self._sessions = targets, others, dict[str, v1.Session]()
        self._lost: list[v1.Session] = []  # never closed: closing one calls a process that may be gone
        self._graph = tf.Graph()
        with self._graph.as_default():
            self._now = tf.timestamp()

    def compare(self) -> dict[str, Offset]:
        """Returns the offset of each server's clock by name; raises tf.errors.OpError if one does not answer in 2 s."""
        targets = {**{f"ps:{index}": target for index, target in enumerate(self._targets())}, **self._others()}
        return {name: self._compare(target) for name, target in targets.items()}

    def _compare(self, target: str) -> Offset:
        if target not in self._sessions:
            config = v1.ConfigProto(operation_timeout_in_ms=_TIMEOUT_MS)
            self._sessions[target] = RepeatingSession(target, graph=self._graph, config=config)
        try:
            best = Offset(0, _TIMEOUT_MS * 1_000_000)
            for number in range(_MOST):
                best = min(best, self._ping(self._sessions[target]), key=lambda ping: ping.uncertainty)
                if number >= _FEWEST and best.uncertainty < _ENOUGH_NS:
                    break
            return best
        except tf.errors.OpError:
            self._lost.append(self._sessions.pop(target))
            raise

    def _ping(self, session: v1.Session) -> Offset:
        before = time.time_ns()
        there = round(session.run(self._now) * 1e9)
        after = time.time_ns()
        return Offset((before + after) // 2 - there, (after - before) // 2)
