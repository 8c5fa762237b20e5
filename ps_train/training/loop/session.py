"""The session of a training task; after the loss of a ps, a new session replaces it.

    sessions = ClusterSessions(server.target, config)
    session = monitored_training_session(sessions, hooks, prepare)

With TensorFlow's own creators every task but the chief sleeps 30 s between checks, and restores silently.  Here the
stores show readiness, and MonitoredSession never sees the loss of a ps.  docs/decisions/0025-the-classic-api.md
compares the two.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.cluster.membership.kv_store import cause_of
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
    hooks: Sequence[v1.train.SessionRunHook],
    prepare: Callable[[v1.Session], None],
) -> v1.train.MonitoredSession:
    """Returns the session of a training loop on the default graph.

    The hooks mean the same as in `tf.compat.v1.train.MonitoredTrainingSession`, where the chief's come first.

    Args:
      sessions: the task's server, view of the cluster and group of sessions.
      hooks: all hooks of the task.
      prepare: called once in the new session, in place of a scaffold and a checkpoint directory.

    Raises:
      LostConnectionError: a ps is lost; later calls of the session raise it too.
    """
    return v1.train.MonitoredSession(_TrainingSessionCreator(sessions, prepare), list(hooks))


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
