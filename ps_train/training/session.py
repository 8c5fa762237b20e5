"""The session of a training task, for as long as it lasts: when a ps is lost, a new one takes its place.

    creator = Sessions(...)
    with MonitoredSession(creator, hooks): ...

TensorFlow's own creators make every other task sleep 30 s between looks, and restore without a word; here readiness
stands on the boards, and MonitoredSession never hears of a lost ps.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.cluster.calls import Session, SessionGroup
from ps_train.cluster.spec import Cluster
from ps_train.coordination import records
from ps_train.coordination.connect import NotReadyError, retry_until
from ps_train.coordination.job_diff import diff_configs
from ps_train.coordination.kv_store import KeyValueStore, cause_of
from ps_train.coordination.records import ModelReady
from ps_train.errors import RefusedError

log = logging.getLogger(__name__)

PS_LOST_ERRORS = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.DeadlineExceededError)
"""What TensorFlow raises when a ps is gone."""

_never_closed: list[v1.Session] = []
"""Never closed nor collected: their graphs have an input of their own, which must not outlive its session."""


class LostConnectionError(Exception):
    """Training cannot go on in this session because a ps is gone, or lost its state; the text is the cause."""


class LostInputError(LostConnectionError):
    """The input ends although not all of it was read: a call that waited for it was cancelled with a lost session."""

    def __init__(self) -> None:
        super().__init__("its input was cancelled")


class TrainingSessionCreator(v1.train.SessionCreator):
    """Makes one session.

    Args:
      target, graph, config: of the session.
      prepare: run once in the new session; returns the global step at which training begins.

    Attributes:
      group: what it is given up with.
    """

    def __init__(
        self, target: str, graph: tf.Graph, config: v1.ConfigProto, prepare: Callable[[v1.Session], int]
    ) -> None:
        self._target, self._graph, self._config, self._prepare = target, graph, config, prepare
        self.group = SessionGroup()
        self.session: v1.Session | None = None
        self.first_step = 0

    def create_session(self) -> v1.Session:
        """Called by MonitoredSession; called again by it when a ps was lost, which is then reported."""
        if self.session is not None:
            raise LostConnectionError("its connection broke")
        session = Session(self._target, graph=self._graph, config=self._config, group=self.group)
        self.group.add(session)
        try:
            self.first_step = self._prepare(session)
        except PS_LOST_ERRORS as error:  # MonitoredSession would try again for ever
            raise LostConnectionError(cause_of(error)) from None
        self.session = session
        return session

    def open_session(self, graph: tf.Graph) -> v1.Session:
        """A session of another graph on the same cluster, and on the same variables where they have the same names."""
        session = Session(self._target, graph=graph, config=self._config, group=self.group)
        _never_closed.append(session)
        return session


def ready_records(boards: list[KeyValueStore]) -> list[ModelReady | None]:
    """Of each ps: that its part of the model is ready, or None."""
    texts = [board.get(records.READY) for board in boards]
    return [ModelReady.from_json(text) if text else None for text in texts]


def await_ready(boards: list[KeyValueStore], chief: str, timeout_secs: float) -> ModelReady:
    """The chief's notice that the model is ready on all ps; looks twenty times a second."""

    def look() -> ModelReady:
        found = ready_records(boards)
        ready = found[0]
        if ready is None or any(other is None or other.generation != ready.generation for other in found):
            raise NotReadyError(f"{chief} has not initialised or restored the model yet")
        return ready

    ready: ModelReady = retry_until(look, timeout_secs, f"the chief, {chief}")
    return ready


def agree_with_chief(
    board: KeyValueStore, mine: Mapping[str, Any], cluster: Cluster, task: str, timeout_secs: float
) -> None:
    """Waits for the chief's description of the job; raises RefusedError that shows how this task's differs."""
    address = cluster.tasks().get(str(cluster.chief))
    chief = f"{cluster.chief} ({address or 'address unknown here'})"

    def look() -> str:
        text = board.get(records.DESCRIPTION)
        if not text:
            raise NotReadyError(f"{chief} has not described the job yet")
        return text

    theirs = json.loads(retry_until(look, timeout_secs, f"the chief, {chief}"))
    found = diff_configs(theirs, mine, "the chief", task)
    if found:
        raise RefusedError(f"{task} differs from the job of {chief}: {'; '.join(found)}.")
