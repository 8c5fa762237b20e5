"""The chief's look at the other tasks: who takes part, and whom no round shall wait for."""

from __future__ import annotations

import time
from collections.abc import Mapping

import tensorflow.compat.v1 as v1

from ps_train.base.process_ids import process_exited
from ps_train.cluster.membership.liveness import PeerStates
from ps_train.cluster.membership.records import TaskStatus, task_statuses
from ps_train.cluster.sessions.abandonable import BackgroundTask
from ps_train.training.duties.duty import Duty, Rounds, Setting
from ps_train.training.joining.join import JoinedAsChief


class Members(Duty):
    """The members of the job.

    Attributes:
      others: what the other tasks do, as read at the last look while this task has no steps.
    """

    others: PeerStates

    def __init__(self, setting: Setting, joined: JoinedAsChief, rounds: Rounds) -> None:
        self._task, self._store = str(setting.prepared.task), joined.stores[0]
        self._monitor, self._rounds, self._now = joined.membership, rounds, setting.now
        self._background = BackgroundTask()  # the heartbeat must not wait for a silent ps
        joined.heartbeat.subscribe(self._read)

    def _read(self, index: int, found: Mapping[str, str]) -> None:
        if index == 0 and self._now.session is not None:
            now = time.monotonic()
            self._background(lambda: self._monitor.care(self._remove, self._rounds.awaited, now))

    def _remove(self, index: int) -> bool:
        return self._rounds.remove_absent(index, self._monitor.present())

    def waiting(self, session: v1.Session) -> None:
        """Reads what the others do; before the step is read, or the last step of one that ends now would be missed."""
        self.others = PeerStates.from_records(task_statuses(self._store.items()), self._task, self._is_alive)

    def _is_alive(self, status: TaskStatus) -> bool:
        return not (process_exited(status) or self._monitor.is_silent(status))
