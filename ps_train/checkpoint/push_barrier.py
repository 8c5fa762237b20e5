"""Holds the pushes of all replicas, on all ps, at a moment when no update is made in part.

    hold = Hold(step.ops.marks, step.ops.gate)
    with hold.of(session):
        ...                             # nothing changes on any ps; all variables are of one global step

A push reaches several ps at several moments.  So first nobody who has made his update on ps 0 may begin another step
(the gate), until the marks of all ps say that what has begun is complete; then the locks of all ps are taken, in their
order, and the marks are looked at once more.  All that one run does, which waits on ps 0 for two tokens: the first
says that the marks agree, the second lets go.  When the run fails, or its process dies, TensorFlow lets go for it.
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

from ps_train.cluster.calls import abandonable
from ps_train.errors import SaveError
from ps_train.placement.call_started import after_all_started
from ps_train.placement.mutex import acquire, mutex_of, release
from ps_train.placement.variables import ps_device, ps_index

log = logging.getLogger(__name__)

SETTLE_SECS = 3.0
"""How long the others' steps may take from their first ps to their last.  Longer: that replica died on the way."""

_BRIEF = v1.RunOptions(timeout_in_ms=5000)


class PushBarrier:
    """Args:
    marks: of each ps a variable there, int64 of one shape: all have the same value when no update is made in part.
    gate: the lock on ps 0 that every step passes at its end; None where steps are held up otherwise.
    may_last: whether an update that was made in part may stay so: its worker died.  Else it will be completed, or its
      worker's absence noticed, and until then there is no such moment.
    """

    def __init__(self, marks: Sequence[Any], gate: str | None, may_last: bool = True) -> None:
        self._allow_torn = may_last
        self._known: np.ndarray[Any, Any] | None = None
        self._counters = [mark.read_value() for mark in marks]
        shape = [len(marks), *marks[0].shape.as_list()]
        with tf.device(ps_device(0)):
            self._tokens = tf.queue.FIFOQueue(-1, tf.bool, [()], shared_name="ps_train/hold/tokens")
            self._answers = tf.queue.FIFOQueue(-1, tf.int64, [shape], shared_name="ps_train/hold/answers")
            self._clear = tf.group(*[queue.dequeue_many(queue.size()) for queue in (self._tokens, self._answers)])
            self._grant, self._withdraw = self._tokens.enqueue(True), self._tokens.enqueue_many([[True, True]])
            self._answer = self._answers.dequeue()
        self._run = self._holding(marks, gate)

    def _holding(self, marks: Sequence[Any], gate: str | None) -> tf.Operation:
        others = [ps_index(mark) for mark in marks if ps_index(mark)]
        with tf.device(ps_device(0)):
            begun = [after_all_started(tf.constant(0), others)]
            gates = [acquire(gate, begun)] if gate else []
            with tf.control_dependencies(gates or begun):
                before = self._tokens.dequeue()
        locks, found = [], []
        for mark in marks:
            with tf.device(ps_device(ps_index(mark))):
                before = acquire(mutex_of(ps_index(mark)), [before])
                locks.append(before)
                with tf.control_dependencies([before]):
                    found.append(mark.read_value())
        with tf.device(ps_device(0)):
            with tf.control_dependencies([before]):
                told = self._answers.enqueue(tf.stack(found))
            with tf.control_dependencies([told]):
                # The gate is not needed any more, and whoever is dismissed meanwhile passes it.
                ended = [self._tokens.dequeue(), *(release(lock) for lock in gates)]
        for mark, lock in zip(marks, locks, strict=True):
            with tf.device(ps_device(ps_index(mark))), tf.control_dependencies(ended[:1]):
                ended.append(release(lock))
        return tf.group(*ended)

    @contextlib.contextmanager
    def held(self, session: v1.Session, most_secs: float = 20.0) -> Iterator[None]:
        """Holds the pushes in the body.

        Raises what TensorFlow raises when a ps is lost, also after a body through which the hold did not last, and
        DeadlineExceededError after `most_secs`; SaveError where there is no such moment."""
        held = self._acquire(session, most_secs, time.monotonic() + SETTLE_SECS)
        try:
            yield
        except BaseException:
            with contextlib.suppress(tf.errors.OpError):
                self._end(session, held)
            raise
        self._end(session, held)

    def _acquire(self, session: v1.Session, most_secs: float, deadline: float) -> _Pending:
        while True:
            session.run(self._clear, options=_BRIEF)
            held = _Pending(session, self._run, most_secs)
            try:
                while not self._is_consistent(session.run(self._counters, options=_BRIEF), deadline):
                    held.check()
                session.run(self._grant, options=_BRIEF)
                if self._is_consistent(session.run(self._answer, options=_BRIEF), deadline):
                    return held
            except (tf.errors.OpError, SaveError):
                with contextlib.suppress(tf.errors.OpError):
                    session.run(self._withdraw, options=_BRIEF)
                held.check()  # its error is the cause
                raise
            self._end(session, held)

    def _end(self, session: v1.Session, held: _Pending) -> None:
        session.run(self._grant, options=_BRIEF)
        with abandonable(session):
            held.join()

    def _is_consistent(self, marks: Sequence[Any], deadline: float) -> bool:
        """Whether no update is made in part, or none that will ever be completed."""
        values = np.stack(marks)
        if not torn_counters(values, self._known).any():
            return True
        if time.monotonic() < deadline:
            return False
        if not self._allow_torn:
            raise SaveError(
                f"no checkpoint could be taken: an update is made on some ps and for {SETTLE_SECS:g}s not on the "
                "others, because a worker sleeps"
            )
        log.warning(
            "an update has reached some ps and not the others for %gs: its worker died or sleeps; "
            "checkpoints hold that part of it",
            SETTLE_SECS,
        )
        self._known = values - values[0]
        return True


def torn_counters(marks: np.ndarray[Any, Any], known: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
    """Where the marks of a ps differ from those of ps 0, but for the differences that are known (and may be made good).

    Args:
      marks, known: int64 [ps, ...]; None: none are known.
    """
    differences = marks - marks[0]
    found: np.ndarray[Any, Any] = differences != 0
    return found if known is None else found & (differences != known)


class _Pending:
    """A run that goes on in a thread of its own."""

    def __init__(self, session: v1.Session, op: tf.Operation, most_secs: float) -> None:
        self._error: BaseException | None = None
        self._most_secs = most_secs
        options = v1.RunOptions(timeout_in_ms=int(most_secs * 1000))
        self._thread = threading.Thread(target=self._work, args=[session, op, options], daemon=True, name="hold")
        self._thread.start()

    def _work(self, session: v1.Session, op: tf.Operation, options: Any) -> None:
        try:
            session.run(op, options=options)
        except BaseException as error:
            self._error = error

    def check(self) -> None:
        """Raises what the run has raised."""
        if self._error is not None:
            raise self._error

    def join(self) -> None:
        self._thread.join(self._most_secs)
        self.check()
        if self._thread.is_alive():
            raise tf.errors.DeadlineExceededError(None, None, "the ps did not let go of the pushes")
