"""Thread of the chief that begins checkpoints between the chief's own steps.

    watcher = SaveWatcher(hook, step.ps.global_step, session, events.stop.is_set)
    watcher.start()
    watcher.stop(), watcher.join()

Other workers may reach the step of a checkpoint while the chief is inside a call, or waits for its data.  The thread
reads the global step more often, the nearer the next checkpoint is.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.cluster.membership.kv_store import cause_of
from ps_train.cluster.sessions.calls import SHORT_CALL
from ps_train.engine.checkpoint.save_hook import SaveHook

log = logging.getLogger(__name__)

_RETRY_SECS = 1.0


class SaveWatcher:
    """The thread for one session.

    Args:
      hook: the hook that knows which checkpoints are due.
      step: int64 scalar, the global step.
      should_stop: returns True when the process ends, and makes its last checkpoint itself.
    """

    def __init__(self, hook: SaveHook, step: tf.Tensor, session: v1.Session, should_stop: Callable[[], bool]) -> None:
        self._hook, self._step, self._session, self._should_stop = hook, step, session, should_stop
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="save watcher")

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Begins no further checkpoint; a call that hangs is not waited for."""
        self._ended.set()

    def join(self) -> None:
        """Waits for the end of the thread."""
        self._thread.join()

    def _watch(self) -> None:
        secs = self._hook.secs_to_next_look()
        while not self._ended.wait(secs):
            try:
                step = int(self._session.run(self._step, options=SHORT_CALL))
            except (tf.errors.OpError, RuntimeError) as error:  # a busy ps, or a lost session that ends soon
                log.debug("the global step could not be read: %s", cause_of(error))
                secs = _RETRY_SECS
                continue
            if self._ended.is_set() or self._should_stop() or not self._hook.look(step, self._session):
                return
            secs = self._hook.secs_to_next_look()
