"""Checkpoints of one global step, taken while others train.

    snapshots = Snapshots(checkpoints, Hold(ops.marks, ops.gate), shadows)
    snapshots.begin(session)            # holds all pushes while it copies; a thread then writes the copies
    step = snapshots.collect()          # of the checkpoint that has been written since; or SaveError; or None

Without shadows, where a copy would take too much memory, pushes are held until the file is written.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import threading
import time
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.checkpoint.files import Checkpoints
from ps_train.checkpoint.push_barrier import PushBarrier
from ps_train.checkpoint.shadow_copies import ShadowCopies
from ps_train.cluster.calls import abandonable
from ps_train.coordination.kv_store import cause_of
from ps_train.errors import SaveError

log = logging.getLogger(__name__)

_TAKE_SECS, _WRITE_SECS = 20.0, 3600.0
_QUICK = v1.RunOptions(timeout_in_ms=int(_TAKE_SECS * 1000))


@dataclasses.dataclass
class _SessionSaves:
    """The checkpoints of one session: each is made alone, whichever thread asks for it."""

    one: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    writer: threading.Thread | None = None
    due: float = 0.0
    outcome: int | SaveError | None = None


class AsyncSaver:
    """Args: `shadows`: None, to write under the hold."""

    def __init__(self, checkpoints: Checkpoints, hold: PushBarrier, shadows: ShadowCopies | None) -> None:
        self._checkpoints, self._barrier, self._shadows = checkpoints, hold, shadows
        self._saves = _SessionSaves()
        self._held: list[float] = []
        self._written: list[float] = []

    @property
    def busy(self) -> bool:
        """Whether a checkpoint is being written.  Raises DeadlineExceededError where that takes too long."""
        writer = self._saves.writer
        if writer is None or not writer.is_alive():
            return False
        if time.monotonic() > self._saves.due:
            raise tf.errors.DeadlineExceededError(None, None, "a checkpoint is not written")
        return True

    def begin_session(self) -> None:
        """Forgets the session before: a thread that still saves with it may hang in a call, and nobody waits for it."""
        self._saves = _SessionSaves()

    def start(self, session: v1.Session) -> None:
        """Begins a checkpoint of this moment; ends the one before first.  Raises only what a lost ps does."""
        saves = self._saves
        with saves.one:
            _wait(saves, session)
            try:
                if self._shadows is None:
                    self._write_held(saves, session)
                else:
                    self._take(session, self._shadows)
                    self._write_soon(saves, session, self._shadows)
            except SaveError as error:
                saves.outcome = error

    def poll(self) -> int | None:
        """The step of the checkpoint that was written since the last call, or None.  Raises SaveError where the disk
        did not take it."""
        if self.busy:
            return None
        outcome, self._saves.outcome = self._saves.outcome, None
        if isinstance(outcome, SaveError):
            raise outcome
        return outcome

    def wait(self, session: v1.Session) -> None:
        """Until nothing is being written any more.  Who waits may be given up with his session: a write does not end
        while a ps is silent."""
        _wait(self._saves, session)

    def wait_briefly(self, secs: float) -> None:
        """The same, but no longer than that."""
        if self._saves.writer is not None:
            self._saves.writer.join(secs)

    def save(self, session: v1.Session) -> int:
        """Begins one and waits for it; its step.  Raises SaveError."""
        self.start(session)
        self.wait(session)
        step = self.poll()
        if step is None:
            raise tf.errors.UnavailableError(None, None, "a ps was lost while a checkpoint was written")
        return step

    def warm_up(self, session: v1.Session) -> None:
        """Takes a snapshot for nothing: TensorFlow prepares what it runs for the first time, which would take longer
        than the hold itself."""
        saves = self._saves
        if self._shadows is not None:
            with saves.one, contextlib.suppress(SaveError):
                _wait(saves, session)
                self._take(session, self._shadows)
                session.run(self._shadows.drop)
                self._held.pop()

    def report(self) -> dict[str, Any] | None:
        """How long pushes were held and files written, for result.json; None where nothing was."""
        if not self._held or not self._written:
            return None
        return {
            "count": len(self._written),
            "hold_secs_max": round(max(self._held), 4),
            "hold_secs_mean": round(sum(self._held) / len(self._held), 4),
            "write_secs_mean": round(sum(self._written) / len(self._written), 4),
        }

    def _take(self, session: v1.Session, shadows: ShadowCopies) -> None:
        began = time.monotonic()
        with self._barrier.held(session, _TAKE_SECS):
            session.run(shadows.copy, options=_QUICK)
        self._held.append(time.monotonic() - began)
        log.debug("pushes were held for %.1f ms", self._held[-1] * 1000)

    def _write_held(self, saves: _SessionSaves, session: v1.Session) -> None:
        began = time.monotonic()
        with self._barrier.held(session, _WRITE_SECS):
            saves.outcome = self._checkpoints.save(session)
        self._held.append(time.monotonic() - began)
        self._written.append(self._held[-1])

    def _write_soon(self, saves: _SessionSaves, session: v1.Session, shadows: ShadowCopies) -> None:
        saves.due = time.monotonic() + _WRITE_SECS
        saves.writer = threading.Thread(target=self._write, args=[saves, session, shadows], daemon=True, name="save")
        saves.writer.start()

    def _write(self, saves: _SessionSaves, session: v1.Session, shadows: ShadowCopies) -> None:
        began = time.monotonic()
        try:
            try:
                saves.outcome = self._checkpoints.save(session, copies=True)
                self._written.append(time.monotonic() - began)
            finally:
                session.run(shadows.drop)
        except SaveError as error:
            saves.outcome = error
        except Exception as error:  # the session is lost; who trains in it finds out by himself
            log.debug("a checkpoint is given up: %s", cause_of(error))


def _wait(saves: _SessionSaves, session: v1.Session) -> None:
    if saves.writer is not None:
        with abandonable(session, max(0.0, saves.due - time.monotonic())):
            saves.writer.join()
