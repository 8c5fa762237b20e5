"""The end of a worker's training in a script, before its session closes.

    hooks = [FinishHook(is_chief, hooks), v1.train.CheckpointSaverHook(...), *hooks]

A worker whose data have ended tells every ps so.  The chief waits for the workers that still train, and then its last
checkpoint has their updates too.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import LostTaskError
from ps_train.cluster.membership.kv_store import KeyValueStore
from ps_train.cluster.membership.records import TaskState, task_statuses
from ps_train.compat.train.global_step import get_global_step
from ps_train.compat.train.server import ScriptTask, current_task
from ps_train.compat.train.stop_at_step import StopAtStepHook, is_synchronous
from ps_train.compat.train.sync_replicas import optimizer_of

log = logging.getLogger(__name__)

_LOOK_SECS = 0.2
_ENDED = (TaskState.INPUT_ENDED, TaskState.LEFT, TaskState.SERVING)


class FinishHook(v1.train.SessionRunHook):
    """The first hook of a session: what it does at the end comes before the last checkpoint.

    Args:
      is_chief: True for the chief, which waits for the other workers.
      hooks: the other hooks of the session.
    """

    def __init__(self, is_chief: bool, hooks: Sequence[Any]) -> None:
        self._is_chief = is_chief
        self._stops = [hook for hook in hooks if isinstance(hook, StopAtStepHook)]

    def begin(self) -> None:
        """Finds the global step, by which the chief sees that others still train."""
        step = get_global_step()
        with tf.name_scope("finish"):
            self._read = None if step is None else tf.identity(step)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Tells that this task trains; it may have ended an earlier session."""
        task = current_task()
        if task is not None and task.presence.state != TaskState.TRAINING:
            task.presence.announce(TaskState.TRAINING)

    def end(self, session: Any) -> None:
        """Tells that this task's training has ended; the chief waits for that of the others."""
        task = current_task()
        if task is None:
            return
        are_over = [stop.finish(session) for stop in self._stops]
        synchronous = optimizer_of(session.graph)
        if synchronous is not None:
            synchronous.finish()  # the chief leads until the others have left
        if not self._is_chief:
            task.presence.announce(TaskState.INPUT_ENDED)
        elif not any(are_over) and not is_synchronous(session.graph):
            with contextlib.suppress(LostTaskError):
                self._wait_for_others(session, task)

    def _wait_for_others(self, session: Any, task: ScriptTask) -> None:
        others = _Others(task)
        step, deadline = None, time.monotonic() + task.limits.finish_secs
        while (waited := others.that_train()) and time.monotonic() < deadline:
            now = None if self._read is None else session.run(self._read)
            if now != step:
                step, deadline = now, time.monotonic() + task.limits.finish_secs
            time.sleep(_LOOK_SECS)
        if waited:
            log.warning(
                "no longer waiting for %s: no step in %gs (finish_timeout_secs)",
                ", ".join(waited),
                task.limits.finish_secs,
            )


class _Others:
    """The other workers that have not ended their training."""

    def __init__(self, task: ScriptTask) -> None:
        self._task, self._began = task, time.monotonic()
        self._left = [worker for worker in task.cluster.workers() if worker != task.cluster.task]
        self._store: KeyValueStore = task.presence.connected_store(0)
        self._was_told = False

    def that_train(self) -> list[str]:
        """Returns the names of the workers that train, or may yet come; a worker that has ended is out for good."""
        statuses = {status.task: status for status in task_statuses(self._store.items())}
        is_late = time.monotonic() - self._began > self._task.limits.absent_secs

        def trains(worker: str) -> bool:
            status = statuses.get(worker)
            if status is None:
                return not is_late
            return status.state not in _ENDED and not self._task.presence.is_gone(status)

        self._left = [worker for worker in self._left if trains(worker)]
        if self._left and not self._was_told:
            log.info("waiting for %s before the last checkpoint", ", ".join(self._left))
            self._was_told = True
        return self._left
