"""Whom the steps of a task wait for: the other workers."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as v1

from ps_train.base.polling import poll_until
from ps_train.cluster.membership.kv_store import cause_of
from ps_train.cluster.sessions.calls import PS_LOST_ERRORS, SHORT_CALL
from ps_train.engine.updates.modes.base import Removal
from ps_train.training.duties.duty import POLL_SECS, Rounds, Setting, Start

log = logging.getLogger(__name__)


class FlatRounds(Rounds):
    """The rounds of a job whose ps see the workers themselves."""

    def __init__(self, setting: Setting) -> None:
        self._ops, self._now = setting.step.ops, setting.now
        self._global_step = setting.step.ps.global_step
        self._index, self._is_chief = setting.prepared.replica.index, setting.prepared.is_chief
        self._was_opened = False

    def opened(self, session: v1.Session, start: Start) -> None:
        """Removes the chief from the round in which the process before it may have left a step unfinished."""
        if self._is_chief and start.state.was_there and not self._was_opened:
            self._remove(self._index, session)
        self._was_opened = True

    def paused(self, session: v1.Session) -> None:
        """Leaves the rounds (the chief removes dead workers); tries again if a ps is busy."""
        poll_until(lambda: self.leave() or self._now.session_is_over(), math.inf, POLL_SECS)

    def leave(self) -> bool:
        """Removes this replica from the rounds on the ps."""
        return self._remove(self._index, self._now.session)

    def left(self) -> None:
        """Leaves the rounds."""
        self.leave()

    def remove_absent(self, index: int, present: Sequence[str]) -> bool:
        """Removes a replica from the rounds on the ps."""
        return self._remove(index, self._now.session)

    def awaited(self) -> tuple[int, list[int]] | None:
        """Asks ps 0."""
        session = self._now.session
        if session is None or not self._ops.awaited:
            return None
        try:
            step, found = session.run([self._global_step, *self._ops.awaited], options=SHORT_CALL)
        except PS_LOST_ERRORS as error:
            log.debug("the awaited replicas are unknown: %s", cause_of(error))
            return None
        return int(step), [index for index, is_awaited in enumerate(found) if is_awaited]

    def pause(self, session: v1.Session) -> None:
        """Removes this replica for as long as it waits; it keeps its data."""
        poll_until(
            lambda: self._remove_by(self._ops.pauses, self._index, session) or self._now.should_stop(),
            math.inf,
            POLL_SECS,
        )

    def _remove(self, index: int, session: v1.Session | None) -> bool:
        return session is None or self._remove_by(self._ops.removals, index, session)

    def _remove_by(self, removals: Sequence[Removal], index: int, session: v1.Session) -> bool:
        return all(was_removed(session, one.op, {one.replica: index}, f"replica {index}") for one in removals)


def was_removed(session: v1.Session, remove: Any, feeds: Mapping[Any, int], name: str) -> bool:
    """Runs a removal from a round; returns False if a task that it needs is lost.

    Args:
      session: of the graph that has `remove`.
      remove: the operation.
      feeds: the index of what is removed, by its placeholder.
      name: of what is removed, for the log.
    """
    try:
        session.run(remove, feeds, options=SHORT_CALL)
    except PS_LOST_ERRORS as error:
        log.debug("%s could not be removed: %s", name, cause_of(error))
        return False
    return True
