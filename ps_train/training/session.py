"""The session of a training task; after the loss of a ps, a new session replaces it.

    creator = TrainingSessionCreator(...)
    session = MonitoredSession(creator, hooks)

With TensorFlow's own creators every task but the chief sleeps 30 s between checks, and restores silently.  Here the
stores show readiness, and MonitoredSession never sees the loss of a ps.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.cluster.calls import PS_LOST_ERRORS, LostConnectionError, Session, SessionGroup
from ps_train.cluster.spec import Cluster
from ps_train.coordination import records
from ps_train.coordination.connect import NotReadyError, retry_until
from ps_train.coordination.job_diff import diff_configs
from ps_train.coordination.kv_store import KeyValueStore, cause_of
from ps_train.coordination.records import ModelReady
from ps_train.errors import RefusedError

log = logging.getLogger(__name__)

_never_closed: list[v1.Session] = []
"""Sessions that are never closed nor collected: the input in their graphs must not outlive its session."""


class TrainingSessionCreator(v1.train.SessionCreator):
    """Creator of one training session.

    Args:
      target, graph, config: of the session.
      prepare: run once in the new session; returns the global step at which training begins.

    Attributes:
      group: the group with which the session can be abandoned.
      session: the session; None before it is made.
      first_step: the global step at which training begins.
    """

    def __init__(
        self, target: str, graph: tf.Graph, config: v1.ConfigProto, prepare: Callable[[v1.Session], int]
    ) -> None:
        self._target, self._graph, self._config, self._prepare = target, graph, config, prepare
        self.group = SessionGroup()
        self.session: v1.Session | None = None
        self.first_step = 0

    def create_session(self) -> v1.Session:
        """Makes the session; called by MonitoredSession.

        Raises:
          LostConnectionError: a ps is lost; also raised by a second call, which MonitoredSession makes after a loss.
        """
        if self.session is not None:
            raise LostConnectionError("its connection broke")
        session = Session(self._target, graph=self._graph, config=self._config, group=self.group)
        self.group.add(session)
        try:
            self.first_step = self._prepare(session)
        except PS_LOST_ERRORS as error:  # MonitoredSession would retry without end
            raise LostConnectionError(cause_of(error)) from None
        self.session = session
        return session

    def open_session(self, graph: tf.Graph) -> v1.Session:
        """Opens a session of another graph on the same cluster; it shares variables with equal names."""
        session = Session(self._target, graph=graph, config=self._config, group=self.group)
        _never_closed.append(session)
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
      timeout_secs: seconds to wait.

    Returns:
      The chief's record.
    """

    def read() -> ModelReady:
        found = ready_records(stores)
        ready = found[0]
        if ready is None or any(other is None or other.generation != ready.generation for other in found):
            raise NotReadyError(f"{chief} has not initialized or restored the model yet")
        return ready

    ready: ModelReady = retry_until(read, timeout_secs, f"the chief, {chief}")
    return ready


def agree_with_chief(
    store: KeyValueStore, own: Mapping[str, Any], cluster: Cluster, task: str, timeout_secs: float
) -> None:
    """Waits for the chief's description of the job and compares it with this task's.

    Raises:
      RefusedError: the descriptions differ; the text shows the differences.
    """
    address = cluster.tasks().get(str(cluster.chief))
    chief = f"{cluster.chief} ({address or 'address unknown here'})"

    def read() -> str:
        text = store.get(records.DESCRIPTION)
        if not text:
            raise NotReadyError(f"{chief} has not described the job yet")
        return text

    expected = json.loads(retry_until(read, timeout_secs, f"the chief, {chief}"))
    found = diff_configs(expected, own, "the chief", task)
    if found:
        raise RefusedError(f"{task} differs from the job of {chief}: {'; '.join(found)}.")
