"""Saver that takes checkpoints of one global step while workers train.

    saver = AsyncSaver(checkpoints, PushBarrier(ops.push_counters, ops.step_gate), shadows)
    saver.start(session)                # holds all pushes while it copies; a thread then writes the copies
    step = saver.poll()                 # the step of a checkpoint written since the last call, or None

Without shadow copies, where these would take too much memory, pushes are held until the file is written.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import logging
import threading
import time
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import PsTrainError, SaveError
from ps_train.cluster.membership.kv_store import cause_of
from ps_train.cluster.sessions.calls import abandonable
from ps_train.engine.checkpoint.files import Checkpoints
from ps_train.engine.checkpoint.push_barrier import PushBarrier
from ps_train.engine.checkpoint.shadow_copies import ShadowCopies

log = logging.getLogger(__name__)

_TAKE_SECS, _WRITE_SECS = 20.0, 3600.0
_QUICK = v1.RunOptions(timeout_in_ms=int(_TAKE_SECS * 1000))


@dataclasses.dataclass
class _SessionSaves:
    """The checkpoints of one session.

    Attributes:
      lock: lock under which one thread at a time makes a checkpoint.
      writer: the thread that writes, or wrote last.
      due: time.monotonic() by which the writer must end.
      written: step of each written checkpoint of which the listeners do not know yet, or its error.
      told: the same for those of which they know, and which are not reported yet.
      telling: lock under which one thread at a time tells the listeners that a checkpoint is written.
      session: the session.
    """

    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    writer: threading.Thread | None = None
    due: float = 0.0
    written: collections.deque[int | PsTrainError] = dataclasses.field(default_factory=collections.deque)
    told: collections.deque[int | PsTrainError] = dataclasses.field(default_factory=collections.deque)
    telling: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    session: v1.Session | None = None


class AsyncSaver:
    """A saver that writes checkpoints in the background.

    Args:
      checkpoints: the checkpoint files.
      barrier: the barrier that holds the pushes.
      shadows: the copies to write; None: the variables are written while pushes are held.
    """

    def __init__(self, checkpoints: Checkpoints, barrier: PushBarrier, shadows: ShadowCopies | None) -> None:
        self._checkpoints, self._barrier, self._shadows = checkpoints, barrier, shadows
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
                if self._shadows is None:
                    self._write_held(saves, session)
                else:
                    self._take(session, self._shadows)
                    self._write_soon(saves, session, self._shadows)
            except SaveError as error:
                saves.written.append(error)

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

    def wait(self, session: v1.Session) -> None:
        """Waits until nothing is being written.

        The waiting call may be abandoned with its session, because a write does not end while a ps is silent.
        """
        _wait(self._saves, session)

    def wait_briefly(self, secs: float) -> None:
        """Waits until nothing is being written, for at most `secs` seconds."""
        if self._saves.writer is not None:
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
        """Takes a snapshot and drops it.

        TensorFlow prepares a graph in its first call, which would take longer than holding the pushes does.
        """
        saves = self._saves
        if self._shadows is not None:
            with saves.lock, contextlib.suppress(SaveError):
                _wait(saves, session)
                self._take(session, self._shadows)
                session.run(self._shadows.drop)
                self._hold_secs.pop()

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

    def _take(self, session: v1.Session, shadows: ShadowCopies) -> None:
        began = time.monotonic()
        with self._barrier.held(session, _TAKE_SECS):
            session.run(shadows.copy, options=_QUICK)
        self._hold_secs.append(time.monotonic() - began)
        log.debug("pushes were held for %.1f ms", self._hold_secs[-1] * 1000)

    def _write_held(self, saves: _SessionSaves, session: v1.Session) -> None:
        began = time.monotonic()
        with self._barrier.held(session, _WRITE_SECS):
            saves.written.append(self._checkpoints.save(session))
        self._hold_secs.append(time.monotonic() - began)
        self._write_secs.append(self._hold_secs[-1])

    def _write_soon(self, saves: _SessionSaves, session: v1.Session, shadows: ShadowCopies) -> None:
        saves.due = time.monotonic() + _WRITE_SECS
        saves.writer = threading.Thread(target=self._write, args=[saves, session, shadows], daemon=True, name="save")
        saves.writer.start()

    def _write(self, saves: _SessionSaves, session: v1.Session, shadows: ShadowCopies) -> None:
        began = time.monotonic()
        try:
            try:
                saves.written.append(self._checkpoints.save(session, copies=True))
                self._write_secs.append(time.monotonic() - began)
            finally:
                session.run(shadows.drop)
        except PsTrainError as error:
            saves.written.append(error)
        except Exception as error:  # the session is lost, which the training thread detects itself
            log.debug("a checkpoint is given up: %s", cause_of(error))


def _wait(saves: _SessionSaves, session: v1.Session) -> None:
    if saves.writer is not None:
        with abandonable(session, max(0.0, saves.due - time.monotonic())):
            saves.writer.join()
