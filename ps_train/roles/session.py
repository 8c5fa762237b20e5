"""The session of a training task: the chief initialises or restores the model, the others wait until it has.

    creator = Sessions(...)
    with MonitoredSession(creator, hooks): ...

TensorFlow's own creators make every other task sleep 30 s between looks; here readiness stands on the board.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.cluster import notices
from ps_train.cluster.agreement import differences
from ps_train.cluster.board import Board, cause_of
from ps_train.cluster.notices import Identity, Ready
from ps_train.cluster.probe import NotYetError, wait_for
from ps_train.cluster.spec import Cluster
from ps_train.errors import LostTaskError, RefusedError

log = logging.getLogger(__name__)

LOST = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.DeadlineExceededError)
"""What TensorFlow raises when a ps is gone."""


class Sessions(v1.train.SessionCreator):
    """Makes the one session of this process.

    Args:
      target, graph, config: of the session.
      prepare: run once in a new session; returns the global step at which training begins.
      boards: by which a lost ps is named.
    """

    def __init__(
        self,
        target: str,
        graph: tf.Graph,
        config: v1.ConfigProto,
        prepare: Callable[[v1.Session], int],
        boards: list[Board],
    ) -> None:
        self._target, self._graph, self._config = target, graph, config
        self._prepare, self._boards = prepare, boards
        self.session: v1.Session | None = None
        self.first_step = 0

    def create_session(self) -> v1.Session:
        """Called by MonitoredSession; called again by it when a ps was lost, which is then reported."""
        if self.session is not None:
            raise lost_ps(self._boards, "its connection broke")
        session = v1.Session(self._target, graph=self._graph, config=self._config)
        try:
            self.first_step = self._prepare(session)
        except LOST as error:  # MonitoredSession would try again for ever
            raise lost_ps(self._boards, cause_of(error)) from None
        self.session = session
        return session

    def another(self, graph: tf.Graph) -> v1.Session:
        """A session of another graph on the same cluster, and on the same variables where they have the same names."""
        return v1.Session(self._target, graph=graph, config=self._config)


def lost_ps(boards: list[Board], cause: str) -> LostTaskError:
    """Names the ps that does not answer any more."""
    for board in boards:
        try:
            if Identity.from_json(board.get(notices.IDENTITY)).incarnation != board.incarnation:
                return LostTaskError(f"lost {board.name}: it was restarted and has lost its state")
        except (LostTaskError, ValueError):
            return LostTaskError(f"lost {board.name}: {cause}")
    return LostTaskError(f"lost a ps: {cause}, but all of them answer now ({', '.join(b.name for b in boards)})")


def await_ready(board: Board, chief: str, timeout_secs: float) -> Ready:
    """The chief's notice that the model is ready; looks ten times a second."""

    def look() -> Ready:
        text = board.get(notices.READY)
        if not text:
            raise NotYetError(f"{chief} has not initialised the model yet")
        return Ready.from_json(text)

    ready: Ready = wait_for(look, timeout_secs, f"the chief, {chief}")
    return ready


def agree_with_chief(board: Board, mine: Mapping[str, Any], cluster: Cluster, task: str, timeout_secs: float) -> None:
    """Waits for the chief's description of the job; raises RefusedError that shows how this task's differs."""
    address = cluster.tasks().get(str(cluster.chief))
    chief = f"{cluster.chief} ({address or 'address unknown here'})"

    def look() -> str:
        text = board.get(notices.DESCRIPTION)
        if not text:
            raise NotYetError(f"{chief} has not described the job yet")
        return text

    theirs = json.loads(wait_for(look, timeout_secs, f"the chief, {chief}"))
    found = differences(theirs, mine, "the chief", task)
    if found:
        raise RefusedError(f"{task} differs from the job of {chief}: {'; '.join(found)}.")
