"""The session of a training task; after the loss of a ps, a new session replaces it.

    sessions = ClusterSessions(server.target, config)
    session = monitored_training_session(sessions, is_chief, hooks, chief_only_hooks, prepare)

With TensorFlow's own creators every task but the chief sleeps 30 s between checks, and restores silently.  Here the
stores show readiness, and MonitoredSession never sees the loss of a ps.  docs/decisions/0025-the-classic-api.md
compares the two.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import LostTaskError, RefusedError
from ps_train.base.untrusted import read_object
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.membership import records
from ps_train.cluster.membership.connect import NotReadyError, patient, retry_until
from ps_train.cluster.membership.job_diff import diff_configs
from ps_train.cluster.membership.kv_store import KeyValueStore, cause_of
from ps_train.cluster.membership.records import ModelReady
from ps_train.cluster.sessions.calls import PS_LOST_ERRORS, LostConnectionError, RepeatingSession, SessionGroup

log = logging.getLogger(__name__)

_never_closed: list[v1.Session] = []
"""Sessions that are never closed nor collected: the input in their graphs must not outlive its session."""


@dataclasses.dataclass(frozen=True)
class ClusterSessions:
    """The sessions of one task on its cluster, until a ps is lost.

    Attributes:
      master: the target of the task's own server.
      config: the task's view of the cluster.
      group: the group with which all of these sessions can be abandoned.
    """

    master: str
    config: v1.ConfigProto
    group: SessionGroup = dataclasses.field(default_factory=SessionGroup)

    def open(self, graph: tf.Graph) -> v1.Session:
        """Opens a session of another graph, which shares variables with equal names; it is never closed."""
        session = RepeatingSession(self.master, graph=graph, config=self.config, group=self.group)
        _never_closed.append(session)
        return session


def monitored_training_session(
    sessions: ClusterSessions,
    is_chief: bool,
    hooks: Sequence[v1.train.SessionRunHook],
    chief_only_hooks: Sequence[v1.train.SessionRunHook],
    prepare: Callable[[v1.Session], None],
) -> v1.train.MonitoredSession:
    """Returns the session of a training loop on the default graph.

    The hooks and `is_chief` mean the same as in `tf.compat.v1.train.MonitoredTrainingSession`.

    Args:
      sessions: the task's server, view of the cluster and group of sessions.
      is_chief: True for the task that also runs `chief_only_hooks`.
      hooks: hooks of every task.
      chief_only_hooks: hooks of the chief, called before the others.
      prepare: called once in the new session, in place of a scaffold and a checkpoint directory.

    Raises:
      LostConnectionError: a ps is lost; later calls of the session raise it too.
    """
    all_hooks = [*(chief_only_hooks if is_chief else ()), *hooks]
    return v1.train.MonitoredSession(_TrainingSessionCreator(sessions, prepare), all_hooks)


class _TrainingSessionCreator(v1.train.SessionCreator):
    """Creator of one session, for `MonitoredSession`, which would create another one after a loss."""

    def __init__(self, sessions: ClusterSessions, prepare: Callable[[v1.Session], None]) -> None:
        self._sessions, self._prepare = sessions, prepare
        self._was_called = False

    def create_session(self) -> v1.Session:
        if self._was_called:
            raise LostConnectionError("its connection broke")
        master, config, group = self._sessions.master, self._sessions.config, self._sessions.group
        session = RepeatingSession(master, graph=v1.get_default_graph(), config=config, group=group)
        group.add(session)
        try:
            self._prepare(session)
        except PS_LOST_ERRORS as error:  # MonitoredSession would retry without end
            raise LostConnectionError(cause_of(error)) from None
        self._was_called = True
        return session


def ready_records(stores: list[KeyValueStore]) -> list[ModelReady | None]:
    """Returns the `ModelReady` record of each ps; None for a ps without the model."""
    texts = [store.get(records.READY) for store in stores]
    return [ModelReady.from_json(text) if text else None for text in texts]


def await_ready(stores: list[KeyValueStore], chief: str, timeout_secs: float) -> ModelReady:
    """Waits until the model is ready on all ps; checks twenty times a second.

    Args:
      stores: the store of each ps.
      chief: task name of the chief, for errors.
      timeout_secs: seconds to wait without a sign of life of the chief.

    Returns:
      The chief's record.
    """

    def read() -> ModelReady:
        found = ready_records(stores)
        ready = found[0]
        if ready is None or any(other is None or other.generation != ready.generation for other in found):
            raise NotReadyError(f"{chief} has not initialized or restored the model yet")
        return ready

    ready: ModelReady = retry_until(read, timeout_secs, f"the chief, {chief}", lambda: _sign_of_life(stores[0], chief))
    return ready


def _sign_of_life(store: KeyValueStore, task: str) -> tuple[str, int] | None:
    """Returns what changes while a task lives, also before it joins; None if there is no sign of it."""
    try:
        statuses = records.task_statuses(store.items())
    except LostTaskError:
        return None
    return next((one.sign_of_life for one in statuses if one.task == task), None)


def agree_with_chief(
    store: KeyValueStore, own: Mapping[str, Any], cluster: Cluster, task: str, timeout_secs: float
) -> None:
    """Waits for the chief's description of the job and compares it with this task's.

    Raises:
      RefusedError: the descriptions differ; the text shows the differences.
    """
    expected = told_by_chief(store, records.DESCRIPTION, "described the job", cluster, timeout_secs)
    found = diff_configs(read_object(expected), own, "the chief", task)
    if found:
        raise RefusedError(f"{task} differs from the job of {_chief_in_words(cluster)}: {'; '.join(found)}.")


def told_by_chief(store: KeyValueStore, key: str, what: str, cluster: Cluster, timeout_secs: float) -> str:
    """Waits until the chief has written a record; returns it.

    Args:
      store: of the ps that has it.
      key: one of `records.py`.
      what: what the chief does with it, in words, for errors.
      cluster: the host lists.
      timeout_secs: seconds to wait without a sign of life of the chief.

    Raises:
      UnreachableError: the time is over.
    """
    chief = _chief_in_words(cluster)

    def read() -> str:
        text = patient(lambda: store.get(key))
        if not text:
            raise NotReadyError(f"{chief} has not {what} yet")
        return str(text)

    found: str = retry_until(
        read, timeout_secs, f"the chief, {chief}", lambda: _sign_of_life(store, str(cluster.chief))
    )
    return found


def _chief_in_words(cluster: Cluster) -> str:
    return f"{cluster.chief} ({cluster.tasks().get(str(cluster.chief)) or 'address unknown here'})"
