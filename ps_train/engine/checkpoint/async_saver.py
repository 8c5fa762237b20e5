"""Saver that takes checkpoints of one global step while workers train.

    saver = AsyncSaver(checkpoints, PushBarrier(ops.push_counters, ops.step_gate), snapshot)
    saver.start(session)                # holds all pushes while it takes the snapshot; a thread then writes it
    step = saver.poll()                 # the step of a checkpoint written since the last call, or None

The thread pauses after each part, unless its end is awaited: a ps needs its cores for training.

Where copies would take too much memory, pushes are held until the variables are written.  Where the old rows of tables
take too much, pushes wait while each of the remaining parts is written.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import PsTrainError, SaveError
from ps_train.cluster.membership.kv_store import cause_of
from ps_train.cluster.sessions.calls import abandonable, beside
from ps_train.engine.checkpoint.files import Checkpoints
from ps_train.engine.checkpoint.push_barrier import PushBarrier
from ps_train.engine.checkpoint.snapshot import Snapshot

log = logging.getLogger(__name__)

_TAKE_SECS, _WRITE_SECS = 20.0, 3600.0
_PAUSE = 2.0
"""Length of the pause before a part of a checkpoint, as a multiple of the time of the part before it."""

_QUICK = v1.RunOptions(timeout_in_ms=int(_TAKE_SECS * 1000))


@dataclasses.dataclass
class _SessionSaves:
    """The checkpoints of one session.

    Attributes:
      lock: lock under which one thread at a time makes a checkpoint.
      writer: the thread that writes, or wrote last.
      due: time.monotonic() by which the writer must end.
      is_awaited: set while something waits for the end of the writer, which then makes no pauses.
      written: step of each written checkpoint of which the listeners do not know yet, or its error.
      told: the same for those of which they know, and which are not reported yet.
      telling: lock under which one thread at a time tells the listeners that a checkpoint is written.
    """

    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    writer: threading.Thread | None = None
    due: float = 0.0
    is_awaited: threading.Event = dataclasses.field(default_factory=threading.Event)
    written: collections.deque[int | PsTrainError] = dataclasses.field(default_factory=collections.deque)
    told: collections.deque[int | PsTrainError] = dataclasses.field(default_factory=collections.deque)
    telling: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    session: v1.Session | None = None


class AsyncSaver:
    """A saver that writes checkpoints in the background.

    Its sessions are of the graph of the snapshot, or sessions beside which one of that graph can be.

    Args:
      checkpoints: the checkpoint files.
      barrier: the barrier that holds the pushes.
      snapshot: the snapshot to write, in the default graph.

    Attributes:
      graph: the graph of the snapshot.
    """

    def __init__(self, checkpoints: Checkpoints, barrier: PushBarrier, snapshot: Snapshot) -> None:
        self._checkpoints, self._barrier, self._snapshot = checkpoints, barrier, snapshot
        self.graph = v1.get_default_graph()
        self._holding = threading.Lock()
        self._saves = _SessionSaves()
        self._hold_secs: list[float] = []
        self._write_secs: list[float] = []

    @property
    def busy(self) -> bool:
        """True while a checkpoint is being written.

        Raises:
          DeadlineExceededError: the write takes too long.
        """
        writer = self._saves.writer
        if writer is None or not writer.is_alive():
            return False
        if time.monotonic() > self._saves.due:
            raise tf.errors.DeadlineExceededError(None, None, "a checkpoint was not written in time")
        return True

    def begin_session(self) -> None:
        """Forgets the previous session.  A thread that still saves with it may hang in a call and is not waited for."""
        self._saves = _SessionSaves()

    def start(self, session: v1.Session) -> None:
        """Starts a checkpoint of the present values, after the previous one is written and the listeners know of it.

        Raises:
          tf.errors.OpError: a ps was lost.  A SaveError is reported by `poll`.
          ModelError: a listener raised an exception after the previous one.
        """
        saves = self._saves
        with saves.lock:
            _wait(saves, session)
            self._tell(saves)
            saves.session = session
            try:
                hold = self._take(session)
            except SaveError as error:
                saves.written.append(error)
                return
            saves.due = time.monotonic() + _WRITE_SECS
            saves.is_awaited.clear()
            saves.writer = threading.Thread(target=self._write, args=[saves, session, hold], daemon=True, name="save")
            saves.writer.start()

    def poll(self) -> int | None:
        """Returns the step of a checkpoint that is written and not reported yet, or None; tells the listeners.

        Raises:
          SaveError: the checkpoint could not be taken or written.
          ModelError: a listener raised an exception before or after it was written.
        """
        _ = self.busy  # raises if the write takes too long
        saves = self._saves
        self._tell(saves)
        if not saves.told:
            return None
        outcome = saves.told.popleft()
        if isinstance(outcome, PsTrainError):
            raise outcome
        return outcome

    def _tell(self, saves: _SessionSaves) -> None:
        """Tells the listeners of written checkpoints; they hear of one before the next one begins."""
        with saves.telling:
            while saves.written:
                outcome = saves.written.popleft()
                saves.told.append(outcome)
                if not isinstance(outcome, PsTrainError) and saves.session is not None:
                    self._checkpoints.listeners.after(saves.session, outcome)

    def hurry(self) -> None:
        """Ends the pauses of the checkpoint that is being written."""
        self._saves.is_awaited.set()

    def wait(self, session: v1.Session) -> None:
        """Waits until nothing is being written.

        The waiting call may be abandoned with its session, because a write does not end while a ps is silent.
        """
        _wait(self._saves, session)

    def wait_briefly(self, secs: float) -> None:
        """Waits until nothing is being written, for at most `secs` seconds."""
        if self._saves.writer is not None:
            self.hurry()
            self._saves.writer.join(secs)

    def save(self, session: v1.Session) -> int:
        """Takes a checkpoint, waits for it and returns its step.

        Raises:
          SaveError: the checkpoint could not be taken or written.
          UnavailableError: a ps was lost.
        """
        self.start(session)
        self.wait(session)
        step, failure = None, None
        self._tell(self._saves)
        while self._saves.told:  # the last one is of this checkpoint
            try:
                step, failure = self.poll(), None
            except SaveError as error:
                failure = error
        if failure is not None:
            raise failure
        if step is None:
            raise tf.errors.UnavailableError(None, None, "a ps was lost while a checkpoint was written")
        return step

    def warm_up(self, session: v1.Session) -> None:
        """Takes a snapshot and drops it; holds the pushes too, but not while the snapshot is taken.

        TensorFlow prepares a graph in its first call, which would take longer than holding the pushes does.
        """
        saves, own = self._saves, beside(session, self.graph)
        with saves.lock, contextlib.suppress(SaveError):
            _wait(saves, session)
            for made in (self._snapshot.prepare, self._snapshot.cut, self._snapshot.drop):
                own.run(made)
            with self._barrier.held(own, _TAKE_SECS):
                pass

    def report(self) -> dict[str, Any] | None:
        """Returns the times of holding pushes and of writing, for result.json; None if nothing was written."""
        if not self._hold_secs or not self._write_secs:
            return None
        return {
            "count": self._checkpoints.written,
            "hold_secs_max": round(max(self._hold_secs), 4),
            "hold_secs_mean": round(sum(self._hold_secs) / len(self._hold_secs), 4),
            "write_secs_mean": round(sum(self._write_secs) / len(self._write_secs), 4),
        }

    def _take(self, session: v1.Session) -> _Hold:
        """Takes the snapshot; returns the hold of the pushes, which has ended if all variables are copied."""
        own = beside(session, self.graph)
        own.run(self._snapshot.prepare)
        hold = _Hold(self._hold_secs)
        try:
            hold.begin(self._barrier.held(own, _TAKE_SECS if self._snapshot.is_copied else _WRITE_SECS))
            own.run(self._snapshot.cut, options=_QUICK)
        except BaseException as error:
            hold.fail(error)
            raise
        if self._snapshot.is_copied:
            hold.close()
        return hold

    def _write(self, saves: _SessionSaves, session: v1.Session, hold: _Hold) -> None:
        began, own = time.monotonic(), beside(session, self.graph)
        try:
            try:
                pace = _Pace(self._snapshot.limit_bytes)
                around_part = functools.partial(self._around_part, saves, own, hold, pace)
                saves.written.append(self._checkpoints.save(session, True, hold.close, around_part))
                self._write_secs.append(time.monotonic() - began)
            except BaseException as error:
                hold.fail(error)
                raise
            finally:
                own.run(self._snapshot.drop)
        except PsTrainError as error:
            saves.written.append(error)
        except Exception as error:  # the session is lost, which the training thread detects itself
            log.debug("a checkpoint is given up: %s", cause_of(error))

    @contextlib.contextmanager
    def _around_part(
        self, saves: _SessionSaves, session: v1.Session, hold: _Hold, pace: _Pace, writer: int
    ) -> Iterator[None]:
        """Makes way for training before a part is written; if old rows take too much memory, holds the pushes."""
        if hold.is_on:
            yield
            return
        if not pace.is_exceeded(session.run(self._snapshot.kept_bytes)):
            if saves.due - time.monotonic() > _WRITE_SECS / 2:
                saves.is_awaited.wait(pace.pause_secs(writer))
            with pace.measured(writer):
                yield
            return
        with self._holding, contextlib.ExitStack() as stack:
            began = time.monotonic()
            # An update that a stalled worker has half made is held as well as any other.
            with contextlib.suppress(SaveError):
                stack.enter_context(self._barrier.held(session, _WRITE_SECS))
            yield
            stack.close()
            self._hold_secs[-1] += time.monotonic() - began


class _Hold:
    """A hold of the pushes that another thread may end.

    Args:
      secs: gets the seconds of the hold.
    """

    def __init__(self, secs: list[float]) -> None:
        self._secs, self._stack = secs, contextlib.ExitStack()
        self._began: float | None = None

    @property
    def is_on(self) -> bool:
        """True while the pushes are held."""
        return self._began is not None

    def begin(self, held: contextlib.AbstractContextManager[None]) -> None:
        """Begins the hold."""
        self._began = time.monotonic()
        self._stack.enter_context(held)

    def close(self) -> None:
        """Ends the hold, if it has not ended."""
        if self._began is None:
            return
        began, self._began = self._began, None
        self._stack.close()
        self._secs.append(time.monotonic() - began)
        log.debug("saving paused updates for %.1f ms", self._secs[-1] * 1000)

    def fail(self, error: BaseException) -> None:
        """Ends the hold after an error, if it has not ended."""
        self._stack.__exit__(type(error), error, error.__traceback__)


class _Pace:
    """The pace of writing one checkpoint, which makes way for training as long as old rows take little memory.

    Args:
      limit_bytes: the bytes that they may take on a ps.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit, self._is_logged = limit_bytes, False
        self._part_secs: dict[int, float] = {}

    @contextlib.contextmanager
    def measured(self, writer: int) -> Iterator[None]:
        """Measures the writing of a part."""
        began = time.monotonic()
        yield
        self._part_secs[writer] = time.monotonic() - began

    def pause_secs(self, writer: int) -> float:
        """Returns the length of the pause before the next part of a writer."""
        return _PAUSE * self._part_secs.get(writer, 0.0)

    def is_exceeded(self, kept_bytes: np.ndarray[Any, Any]) -> bool:
        """Returns True if more bytes (int64 [num_ps]) than the limit are kept on a ps; logs it once."""
        ps = int(np.argmax(kept_bytes))
        if kept_bytes[ps] <= self._limit:
            return False
        if not self._is_logged:
            self._is_logged = True
            log.warning(
                "ps:%d keeps %.0f MiB of old rows for a checkpoint, more than max_snapshot_mib=%d: updates wait while "
                "each of its remaining parts is written",
                ps,
                kept_bytes[ps] / (1 << 20),
                self._limit >> 20,
            )
        return True


def _wait(saves: _SessionSaves, session: v1.Session) -> None:
    if saves.writer is not None:
        saves.is_awaited.set()
        with abandonable(session, max(0.0, saves.due - time.monotonic())):
            saves.writer.join()
