"""Sessions whose calls survive TensorFlow's refusals, and can be given up while they hang.

    session = Session("grpc://127.0.0.1:2222", graph=graph, config=config)
    session.run(train)          # made again where it was refused

    group = SessionGroup()                          # the sessions of one thread
    session = Session(target, graph=graph, config=config, group=group)
    group.add(session)
    group.give_up(after_secs=1)                     # from another thread: True where a call was given up
    group.close()                                   # cancels what is under way

TensorFlow gives every call of `run` a random id for each task that takes part, and a task refuses an id that is among
its last 100,000; about one call in 40,000 meets such an id (docs/decisions/0019-refused-calls.md).  A task refuses
before it does anything, so a call may be repeated where it changes nothing unless all its tasks have begun.  The graph
is built so; see `placement/call_started.py`.

A call with a task that has fallen silent does not end (docs/decisions/0020-calls-that-hang.md).
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

log = logging.getLogger(__name__)

_REFUSALS = ("RunGraph (Worker) request was received twice", "RunStep (Master) request was received twice")
_TRIES = 200
"""A bound for a task that refuses everything, which none is known to do."""

_BRIEF_CALL, CHUNK_CALL = v1.RunOptions(timeout_in_ms=15_000), v1.RunOptions(timeout_in_ms=60_000)
"""Of a call that comes without options, and of one that reads or writes a bounded part of the model.  Where this worker
refuses its own part, TensorFlow may forget the others."""

LONG_CALL = v1.RunOptions(timeout_in_ms=1_200_000)
"""Of a call that reads or writes a large part of the model, or data."""

UNBOUNDED_CALL = v1.RunOptions()
"""Of a call that asks this task alone, or waits for other workers as long as they like."""


class AbandonedCallError(BaseException):
    """Ends a thread whose sessions were given up while it was inside a call; no `except Exception` catches it."""


_open_sessions: set[Session] = set()
"""Never collected, since that closes them, and waits for tasks that are gone."""


class SessionGroup:
    """Sessions that one thread, the owner, works with, and that are given up together.

    While the owner works they are given up only inside a call.  However that call ends, it raises AbandonedCallError in
    the owner, which so never acts on anything that it learned too late.  Calls of other threads raise AbortedError from
    then on, as they do when a ps is lost.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = threading.get_ident()
        self._sessions: list[Session] = []
        self._began: float | None = None  # the owner's call
        self._due: dict[int, float] = {}  # thread to when its call is overdue
        self._given_up = False

    def set_owner(self) -> None:
        """Makes the present thread the owner."""
        self._owner = threading.get_ident()

    def add(self, session: Session) -> None:
        """Closes that session with the others."""
        _open_sessions.add(session)
        self._sessions.append(session)

    def begin_call(self, within_secs: float = math.inf) -> None:
        """Begins a call, or anything else that may hang; it is overdue after so long."""
        with self._lock:
            if self._given_up:
                raise self._end()
            if threading.get_ident() == self._owner:
                self._began = time.monotonic()
            self._due[threading.get_ident()] = time.monotonic() + within_secs

    def end_call(self) -> None:
        """Ends what `enter` began."""
        with self._lock:
            if threading.get_ident() == self._owner:
                self._began = None
            self._due.pop(threading.get_ident(), None)
            if not self._given_up:
                return
        self.close()  # a session that was still being connected to could not be closed before
        raise self._end()

    def abandon(self, after_secs: float) -> bool:
        """Gives the sessions up where the owner has been inside one call for so long; returns whether they are."""
        with self._lock:
            if self._began is not None and time.monotonic() - self._began >= after_secs:
                self._given_up = True
            return self._given_up

    def is_overdue(self) -> bool:
        """Returns whether any call has taken too long: TensorFlow's own deadlines do not end a call whose worker has
        refused its own part."""
        with self._lock:
            return time.monotonic() > min(self._due.values(), default=math.inf)

    def is_idle(self) -> bool:
        """Returns whether the owner is inside no call."""
        return self._began is None

    def close(self) -> None:
        """Gives the sessions up in any case, and closes them, which cancels their calls.  Does not wait: to close a
        session asks all its tasks, and one of them may be silent."""
        with self._lock:
            self._given_up = True
            connected = [session for session in self._sessions if session.is_connected]
            self._sessions = [session for session in self._sessions if not session.is_connected]
        for session in connected:
            threading.Thread(target=_close, args=[session], daemon=True, name="close").start()

    def _end(self) -> BaseException:
        if threading.get_ident() == self._owner:
            return AbandonedCallError()
        return tf.errors.AbortedError(None, None, "the session was given up")


class Session(v1.Session):
    """A `tf.compat.v1.Session` that repeats calls which a task has refused.

    Args beside those of the base class:
      group: the sessions that it is given up with.

    Attributes:
      refused: how many calls were.
      is_connected: whether a call has ended, before which TensorFlow cannot close it.
    """

    refused = 0
    is_connected = False

    def __init__(self, target: str, graph: tf.Graph, config: v1.ConfigProto, group: SessionGroup | None = None) -> None:
        super().__init__(target, graph=graph, config=config)
        self.group = group

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """Runs as the base class does; in a group, a call without options may take 15 s."""
        if self.group is None:
            return self._run_until_taken(fetches, feed_dict, options, run_metadata)
        options = _BRIEF_CALL if options is None else options
        self.group.begin_call(options.timeout_in_ms / 1000 or math.inf)
        try:
            return self._run_until_taken(fetches, feed_dict, options, run_metadata)
        finally:
            self.is_connected = True
            self.group.end_call()

    def _run_until_taken(self, *arguments: Any) -> Any:
        for _ in range(_TRIES):
            try:
                return super().run(*arguments)
            except (tf.errors.AbortedError, tf.errors.CancelledError) as error:
                if not is_refusal(error):
                    raise
                self.refused += 1
                log.debug("a call was refused because of its id, and is made again")
        return super().run(*arguments)


def _close(session: Session) -> None:
    with contextlib.suppress(tf.errors.OpError):
        session.close()
    _open_sessions.discard(session)


@contextlib.contextmanager
def abandonable(session: v1.Session, within_secs: float = math.inf) -> Iterator[None]:
    """Marks the body as something that may hang with the session, and may then be given up with it."""
    group = getattr(session, "group", None)
    if group is None:
        yield
        return
    group.enter(within_secs)
    try:
        yield
    finally:
        group.leave()


def is_refusal(error: tf.errors.OpError) -> bool:
    """Whether a task has refused the call because of its id; other tasks' cancellation may hide that error's type."""
    return any(refusal in str(error) for refusal in _REFUSALS)
