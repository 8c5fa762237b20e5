"""Barrier that holds the pushes of all replicas, on all ps, at a moment when no update is half applied.

    barrier = PushBarrier(step.ops.push_counters, step.ops.step_gate)
    with barrier.held(session):
        ...                             # no ps changes; all variables belong to one global step

A push reaches different ps at different moments.  The barrier is therefore acquired in these steps:

1. The step gate stops every replica that has made its update on ps 0 from beginning another step.
2. The barrier waits until the push counters of all ps agree, so all begun updates are complete.
3. The mutexes of all ps are acquired, in their order, and the counters are compared once more.

One call of the session does all this.  It waits on ps 0 for two tokens: the first confirms that the counters agree, the
second releases the barrier.  When the call fails, or its process dies, TensorFlow releases the mutexes.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import SaveError
from ps_train.cluster.sessions.calls import abandonable, beside
from ps_train.engine.variables.call_started import after_all_started
from ps_train.engine.variables.mutex import acquire, mutex_of, release
from ps_train.engine.variables.variables import ps_device, ps_index

log = logging.getLogger(__name__)

SETTLE_SECS = 3.0
"""Time in which a step's push reaches its last ps after its first; a replica that takes longer counts as dead."""

_BRIEF = v1.RunOptions(timeout_in_ms=5000)


class PushBarrier:
    """A barrier for pushes, in the default graph.

    Args:
      push_counters: for each ps an int64 variable on that ps, all of one shape; all are equal when no update is half
        applied.
      step_gate: name of the mutex on ps 0 that every step passes at its end; None if steps need not be held there.
      allow_torn: if True, a half-applied update of a dead worker is accepted; if False, the barrier cannot be acquired
        until the update completes or the worker is removed.
    """

    def __init__(self, push_counters: Sequence[Any], step_gate: str | None, allow_torn: bool = True) -> None:
        self._allow_torn, self._graph = allow_torn, v1.get_default_graph()
        self._known: np.ndarray[Any, Any] | None = None
        self._counters = [counter.read_value() for counter in push_counters]
        shape = [len(push_counters), *push_counters[0].shape.as_list()]
        with tf.device(ps_device(0)):
            self._tokens = tf.queue.FIFOQueue(-1, tf.bool, [()], shared_name="ps_train/hold/tokens")
            self._answers = tf.queue.FIFOQueue(-1, tf.int64, [shape], shared_name="ps_train/hold/answers")
            self._clear = tf.group(*[queue.dequeue_many(queue.size()) for queue in (self._tokens, self._answers)])
            self._grant, self._withdraw = self._tokens.enqueue(True), self._tokens.enqueue_many([[True, True]])
            self._answer = self._answers.dequeue()
        self._hold = self._holding(push_counters, step_gate)

    def _holding(self, push_counters: Sequence[Any], step_gate: str | None) -> tf.Operation:
        others = [ps_index(counter) for counter in push_counters if ps_index(counter)]
        with tf.device(ps_device(0)):
            started = [after_all_started(tf.constant(0), others)]
            gates = [acquire(step_gate, started)] if step_gate else []
            with tf.control_dependencies(gates or started):
                before = self._tokens.dequeue()
        locks, values = [], []
        for counter in push_counters:
            with tf.device(ps_device(ps_index(counter))):
                before = acquire(mutex_of(ps_index(counter)), [before])
                locks.append(before)
                with tf.control_dependencies([before]):
                    values.append(counter.read_value())
        with tf.device(ps_device(0)):
            with tf.control_dependencies([before]):
                answered = self._answers.enqueue(tf.stack(values))
            with tf.control_dependencies([answered]):
                # The gate is no longer needed, and the removal of a replica must be able to pass it.
                ended = [self._tokens.dequeue(), *(release(lock) for lock in gates)]
        for counter, lock in zip(push_counters, locks, strict=True):
            with tf.device(ps_device(ps_index(counter))), tf.control_dependencies(ended[:1]):
                ended.append(release(lock))
        return tf.group(*ended)

    @contextlib.contextmanager
    def held(self, session: v1.Session, timeout_secs: float = 20.0) -> Iterator[None]:
        """Holds the pushes in the body.

        Args:
          session: a session of the graph, or one beside which a session of the graph can be.
          timeout_secs: maximum time to acquire and hold the barrier.

        Raises:
          tf.errors.OpError: a ps was lost, or the barrier did not hold until the end of the body.
          DeadlineExceededError: `timeout_secs` have passed.
          SaveError: an update stays half applied, and `allow_torn` is False.
        """
        session = beside(session, self._graph)
        pending = self._acquire(session, timeout_secs, time.monotonic() + SETTLE_SECS)
        try:
            yield
        except BaseException:
            with contextlib.suppress(tf.errors.OpError):
                self._end(session, pending)
            raise
        self._end(session, pending)

    def _acquire(self, session: v1.Session, timeout_secs: float, deadline: float) -> _Pending:
        while True:
            session.run(self._clear, options=_BRIEF)
            pending = _Pending(session, self._hold, timeout_secs)
            try:
                while not self._is_consistent(session.run(self._counters, options=_BRIEF), deadline):
                    pending.check()
                session.run(self._grant, options=_BRIEF)
                if self._is_consistent(session.run(self._answer, options=_BRIEF), deadline):
                    return pending
            except (tf.errors.OpError, SaveError):
                with contextlib.suppress(tf.errors.OpError):
                    session.run(self._withdraw, options=_BRIEF)
                pending.check()  # the pending call's error is the cause
                raise
            self._end(session, pending)

    def _end(self, session: v1.Session, pending: _Pending) -> None:
        session.run(self._grant, options=_BRIEF)
        with abandonable(session):
            pending.join()

    def _is_consistent(self, counters: Sequence[Any], deadline: float) -> bool:
        """Returns whether no update is half applied, except for updates that will never be completed."""
        values = np.stack(counters)
        if not torn_counters(values, self._known).any():
            return True
        if time.monotonic() < deadline:
            return False
        if not self._allow_torn:
            raise SaveError(
                f"no checkpoint could be taken: an update has been applied on only some ps for {SETTLE_SECS:g}s, "
                "because a worker is stalled"
            )
        log.warning(
            "an update has reached some ps and not the others for %gs: its worker died or is stalled; "
            "checkpoints contain the applied part of it",
            SETTLE_SECS,
        )
        self._known = values - values[0]
        return True


def torn_counters(counters: np.ndarray[Any, Any], known: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
    """Returns where a ps's counters differ from those of ps 0, except for known differences.

    Args:
      counters: int64 [ps, ...].
      known: int64 [ps, ...], the known differences, which may have disappeared since; None: none are known.

    Returns:
      Bool [ps, ...].
    """
    differences = counters - counters[0]
    found: np.ndarray[Any, Any] = differences != 0
    return found if known is None else found & (differences != known)


class _Pending:
    """A call of the session in its own thread."""

    def __init__(self, session: v1.Session, op: tf.Operation, timeout_secs: float) -> None:
        self._error: BaseException | None = None
        self._timeout_secs = timeout_secs
        options = v1.RunOptions(timeout_in_ms=int(timeout_secs * 1000))
        self._thread = threading.Thread(target=self._work, args=[session, op, options], daemon=True, name="hold")
        self._thread.start()

    def _work(self, session: v1.Session, op: tf.Operation, options: Any) -> None:
        try:
            session.run(op, options=options)
        except BaseException as error:
            self._error = error

    def check(self) -> None:
        """Raises the call's error, if it has failed."""
        if self._error is not None:
            raise self._error

    def join(self) -> None:
        """Waits for the end of the call, and raises its error."""
        self._thread.join(self._timeout_secs)
        self.check()
        if self._thread.is_alive():
            raise tf.errors.DeadlineExceededError(None, None, "the ps did not release the pushes in time")
