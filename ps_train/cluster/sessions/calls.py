"""Sessions whose calls survive TensorFlow's refusals, and can be abandoned while they hang.

    session = RepeatingSession("grpc://127.0.0.1:2222", graph=graph, config=config)
    session.run(train)          # repeated where a task refused it

    group = SessionGroup()                          # the sessions of one thread
    session = RepeatingSession(target, graph=graph, config=config, group=group)
    group.add(session)
    group.abandon(after_secs=1)                     # from another thread: True where a call was abandoned
    group.close()                                   # cancels the calls under way
    session.beside(other_graph).run(...)            # in a session of another graph, with the same tasks
    session.run(fetches)                            # Fetches({...}): looked through once, however often it is run

TensorFlow gives every call of `run` a random id for each task that takes part.  A task refuses an id that is among its
last 100,000.  About one call in 40,000 is refused for that (docs/decisions/0019-refused-calls.md).

A task refuses before it does anything.  So a call may be repeated if it changes nothing until all its tasks have begun.
The graph is built in that way; see `engine/variables/call_started.py`.

A call with a task that has fallen silent does not end (docs/decisions/0020-calls-that-hang.md).
"""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.private_tf import with_operation
from ps_train.base.tcp_connections import shut_down_incoming
from ps_train.cluster.sessions.exit_guard import running_call

log = logging.getLogger(__name__)

PS_LOST_ERRORS = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.DeadlineExceededError)
"""Errors that TensorFlow raises when a ps is gone."""

_REFUSALS = ("RunGraph (Worker) request was received twice", "RunStep (Master) request was received twice")
_LOST_WHILE_RECEIVING = "RecvFromRemoteAsync is cancelled"
"""TensorFlow's text where a task was lost of which the call awaited a tensor; the other errors of the call hide it."""
_TRIES = 200
"""Bounds the tries if a task refuses every call; no task is known to do that."""

_BRIEF_CALL, CHUNK_CALL = v1.RunOptions(timeout_in_ms=15_000), v1.RunOptions(timeout_in_ms=60_000)
"""Options of a call without options of its own, and of a call that reads or writes a bounded part of the model.

The deadlines end a call of which this worker refused its own part: TensorFlow may then not end the others.
"""

SHORT_CALL = v1.RunOptions(timeout_in_ms=3000)
"""Options of a call that is made again if a ps is busy."""

PREPARATION_SECS = 30.0
"""Seconds that a busy machine may take to prepare a call of a small graph, which TensorFlow's deadlines do not cover.

See `preparation_secs_of`.
"""

_PREPARATION_TO_BUILD = 10.0
"""Ratio of the longest time of preparing a call to that of building its graph, on the same machine."""


def preparation_secs_of(build_secs: float) -> float:
    """Returns the seconds that a call's graph may take to be prepared, if it took so many seconds to build.

    Both grow with the graph and with the load of the machine.
    """
    return max(PREPARATION_SECS, _PREPARATION_TO_BUILD * build_secs)


LONG_CALL = v1.RunOptions(timeout_in_ms=1_200_000)
"""Options of a call that reads or writes a large part of the model, or data."""

UNBOUNDED_CALL = v1.RunOptions()
"""Options of a call to this task alone, or of one that waits for other workers without a limit."""


class LostConnectionError(Exception):
    """Error that ends a session because a ps is gone or lost its state; the text is the cause."""


class LostInputError(LostConnectionError):
    """Error of an input that ended early: a lost session cancelled a call that waited for it."""

    def __init__(self) -> None:
        super().__init__("its input was cancelled")


class AbandonedCallError(BaseException):
    """Ends a thread whose sessions were abandoned while it was inside a call; no `except Exception` catches it."""


_MOST_OPTIMIZED = 2_000
"""Maximum number of operations of a graph that TensorFlow optimizes before a call.

For each new call, also of a single value, it converts and optimizes the whole graph.  For large graphs this is most of
the time until the first step, and makes steps no faster (docs/decisions/0042-how-often-a-model-is-built.md).
"""


def call_options(nodes: int) -> v1.ConfigProto:
    """Returns the options of calls of a graph, or of a function, with so many nodes."""
    options = v1.ConfigProto()
    options.graph_options.rewrite_options.disable_meta_optimizer = nodes > _MOST_OPTIMIZED
    return options


_open_sessions: set[RepeatingSession] = set()
"""Keeps sessions from garbage collection, which would close them and wait for tasks that are gone."""


class SessionGroup:
    """Sessions that one thread, the owner, works with, and that are abandoned together.

    While the owner works, they are abandoned only inside a call.  However that call ends, it raises AbandonedCallError
    in the owner, so the owner never acts on a late result.  Calls of other threads raise AbortedError from then on, as
    they do when a ps is lost.

    Args:
      preparation_secs: seconds that TensorFlow may take to prepare a call, beyond the call's own deadline.
    """

    def __init__(self, preparation_secs: float = PREPARATION_SECS) -> None:
        self.preparation_secs = preparation_secs
        self._lock = threading.Lock()
        self._owner = threading.get_ident()
        self._sessions: list[RepeatingSession] = []
        self._began: float | None = None  # when the owner's present call began
        self._overdue_at: dict[int, float] = {}  # by thread: when its call becomes overdue
        self._abandoned = False
        self._ports: set[int] = set()  # of the servers through which the sessions call

    def set_owner(self) -> None:
        """Makes the calling thread the owner."""
        self._owner = threading.get_ident()

    def add(self, session: RepeatingSession) -> None:
        """Adds a session, which is then closed with the others."""
        _open_sessions.add(session)
        self._ports.add(urlsplit(session.sess_str).port or 0)
        self._sessions.append(session)

    def begin_call(self, within_secs: float = math.inf) -> None:
        """Begins a call, or another action that may hang.

        Args:
          within_secs: seconds after which the call is overdue.

        Raises:
          AbandonedCallError: the sessions were abandoned, in the owner.
          tf.errors.AbortedError: the same, in other threads.
        """
        with self._lock:
            if self._abandoned:
                raise self._abandoned_error()
            if threading.get_ident() == self._owner:
                self._began = time.monotonic()
            self._overdue_at[threading.get_ident()] = time.monotonic() + within_secs

    def end_call(self) -> None:
        """Ends the call that `begin_call` began; raises as it does."""
        with self._lock:
            if threading.get_ident() == self._owner:
                self._began = None
            self._overdue_at.pop(threading.get_ident(), None)
            if not self._abandoned:
                return
        self.close()  # a session that was still connecting could not be closed before
        raise self._abandoned_error()

    def abandon(self, after_secs: float) -> bool:
        """Abandons the sessions if the owner has been inside one call for `after_secs`.

        Returns:
          Whether they are abandoned, now or before.
        """
        with self._lock:
            if self._began is not None and time.monotonic() - self._began >= after_secs:
                self._abandoned = True
            return self._abandoned

    def is_overdue(self) -> bool:
        """Returns whether any call has taken too long.

        TensorFlow's own deadlines do not end a call whose worker has refused its own part.
        """
        with self._lock:
            return time.monotonic() > min(self._overdue_at.values(), default=math.inf)

    def is_idle(self) -> bool:
        """Returns whether the owner is not inside a call."""
        return self._began is None

    def close(self) -> None:
        """Abandons the sessions in any case and closes them, which cancels their calls.

        It does not wait: closing a session calls all its tasks, and one of them may be silent.
        """
        with self._lock:
            self._abandoned = True
            connected = [session for session in self._sessions if session.is_connected]
            self._sessions = [session for session in self._sessions if not session.is_connected]
        for session in connected:
            threading.Thread(target=_close, args=[session], daemon=True, name="close").start()

    def hang_up(self) -> None:
        """Shuts down the connections of ps to this process, which ends the parts of calls that wait for it there.

        TensorFlow has forgotten to cancel them where the worker has refused its own part.
        """
        for port in self._ports:
            shut_down_incoming(port)

    def _abandoned_error(self) -> BaseException:
        if threading.get_ident() == self._owner:
            return AbandonedCallError()
        return tf.errors.AbortedError(None, None, "the session was abandoned")


class Fetches(dict[str, Any]):
    """What many calls of a session fetch.  A `RepeatingSession` looks through it in the first one; it must not change.

    TensorFlow looks through the fetches of every call, which takes half a millisecond for the steps of a call.

    Args:
      fetches: what is fetched.
      steps: number of steps that a call makes.
      rounds: number of rounds of local steps that it makes from their beginning to their end.
      feeds: what every call is given.
    """

    def __init__(
        self, fetches: Mapping[str, Any], steps: int = 0, rounds: int = 0, feeds: Mapping[Any, Any] | None = None
    ) -> None:
        super().__init__(fetches)
        self.steps, self.rounds, self.feeds = steps, rounds, dict(feeds or {})

    __hash__ = object.__hash__  # type: ignore[assignment]


class RepeatingSession(v1.Session):
    """A `tf.compat.v1.Session` that repeats calls which a task has refused.

    Args:
      target, graph, config: as in the base class; a large graph is not optimized.
      group: the sessions with which it is abandoned; None for a session of its own.

    Attributes:
      refused: the number of refused calls.
      is_connected: whether a call has ended.  TensorFlow cannot close the session before.
    """

    refused = 0
    is_connected = False

    def __init__(self, target: str, graph: tf.Graph, config: v1.ConfigProto, group: SessionGroup | None = None) -> None:
        self._open_another = functools.partial(RepeatingSession, target, config=config, group=group)
        options = v1.ConfigProto.FromString(config.SerializeToString())
        options.MergeFrom(call_options(len(graph.get_operations())))
        super().__init__(target, graph=graph, config=options)
        self.group = group
        self._prepared: set[Any] = set()
        self._calls: dict[Fetches, Callable[..., Any]] = {}
        self._is_closed = False
        self._preparing, self._counting = 0, threading.Lock()
        self._beside: dict[tf.Graph, RepeatingSession] = {graph: self}

    def beside(self, graph: tf.Graph) -> RepeatingSession:
        """Returns the session of another graph with the same tasks, which is abandoned with this one; opens it once.

        A call that is prepared there does not delay the calls of this session.
        """
        with self._counting:
            if graph not in self._beside:
                self._beside[graph] = self._open_another(graph=graph)
                if self.group is not None:
                    self.group.add(self._beside[graph])
            return self._beside[graph]

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """Runs as the base class does; in a group, a call without options may take 15 s.

        TensorFlow ends a call at its deadline, without harm to the session.  Only where it does not, because the worker
        has refused its own part, the call becomes overdue, and the session is abandoned.
        """
        with self._noting_preparation(fetches, feed_dict):
            if self.group is None:
                return self._run_until_accepted(fetches, feed_dict, options, run_metadata)
            options = _BRIEF_CALL if options is None else options
            timeout_secs = options.timeout_in_ms / 1000
            self.group.begin_call(timeout_secs + self.group.preparation_secs if timeout_secs else math.inf)
            try:
                return self._run_until_accepted(fetches, feed_dict, options, run_metadata)
            finally:
                self.is_connected = True
                self.group.end_call()

    @property
    def is_preparing(self) -> bool:
        """True during a call with new fetches or feeds: TensorFlow prepares a graph for it, and other calls may wait.

        That takes seconds for a small graph, and minutes for a large one on a busy machine.  A session beside this one
        counts too: its call may hold the pushes.
        """
        return any(session._preparing > 0 for session in [*self._beside.values()])

    @contextlib.contextmanager
    def _noting_preparation(self, fetches: Any, feeds: Any) -> Iterator[None]:
        is_kept = isinstance(fetches, Fetches) and not feeds
        key = fetches if is_kept else (*_names_in(fetches), "", *_names_in(list(feeds or ())))
        if key in self._prepared:
            yield
            return
        with self._counting:
            self._preparing += 1
        try:
            yield
            self._prepared.add(key)
        finally:
            with self._counting:
                self._preparing -= 1

    def _run_until_accepted(self, *arguments: Any) -> Any:
        return until_accepted(self._run_once, *arguments, refused=self._count_refusal)

    def _count_refusal(self) -> None:
        self.refused += 1

    def close(self) -> None:
        """Closes the session as the base class does."""
        self._is_closed = True
        super().close()

    def _run_once(self, fetches: Any, feeds: Any, options: Any, metadata: Any) -> Any:
        try:
            with running_call():
                if isinstance(fetches, Fetches) and (fetches.feeds or self._is_closed):
                    return super().run(dict(fetches), {**fetches.feeds, **(feeds or {})}, options, metadata)
                if feeds or not isinstance(fetches, Fetches):
                    return super().run(fetches, feeds, options, metadata)
                if fetches not in self._calls:
                    self._calls[fetches] = self.make_callable(dict(fetches), accept_options=True)
                call = functools.partial(self._calls[fetches], options=options, run_metadata=metadata)
                return with_operation(self, call)
        except tf.errors.OpError as error:
            if isinstance(error, tf.errors.CancelledError) and _LOST_WHILE_RECEIVING in str(error):
                error = tf.errors.AbortedError(error.node_def, error.op, error.message)
            error.graph = self.graph  # `user_code.py` finds there which line of the model made the operation
            raise error


def beside(session: v1.Session, graph: tf.Graph) -> v1.Session:
    """Returns the session of a graph: this one, or that beside it (`RepeatingSession.beside`)."""
    return session if session.graph is graph else session.beside(graph)


def _names_in(fetches: Any) -> Iterator[Any]:
    """Yields the names of all that a structure of fetches or feeds holds; the keys of its dicts may be any objects."""
    if isinstance(fetches, Mapping):
        fetches = list(fetches.values())
    if isinstance(fetches, list | tuple):
        for one in fetches:
            yield from _names_in(one)
    else:
        yield getattr(fetches, "name", fetches)


def _close(session: RepeatingSession) -> None:
    with contextlib.suppress(tf.errors.OpError):
        session.close()
    _open_sessions.discard(session)


@contextlib.contextmanager
def abandonable(session: v1.Session, within_secs: float = math.inf) -> Iterator[None]:
    """Marks a body that may hang with the session, and may then be abandoned with it.

    Args:
      session: one of a group; with any other session the body just runs.
      within_secs: seconds after which the body is overdue.
    """
    group = getattr(session, "group", None)
    if group is None:
        yield
        return
    group.begin_call(within_secs)
    try:
        yield
    finally:
        group.end_call()


def until_accepted(call: Callable[..., Any], *arguments: Any, refused: Callable[[], None] = lambda: None) -> Any:
    """Makes a call until no task refuses it because of its id; returns what it returns.

    Args:
      call: one call of a session.
      *arguments: of the call.
      refused: is called after each refusal.
    """
    for _ in range(_TRIES):
        try:
            return call(*arguments)
        except (tf.errors.AbortedError, tf.errors.CancelledError) as error:
            if not is_refusal(error):
                raise
            refused()
            log.debug("a call was refused because of its id, and is made again")
    return call(*arguments)


def is_refusal(error: tf.errors.OpError) -> bool:
    """Returns whether a task has refused the call because of its id.

    The text decides: the cancellation of other tasks may hide the error's type.
    """
    return any(refusal in str(error) for refusal in _REFUSALS)
