"""The workers of a rack and its aggregator, as one of the workers reads them in the records of ps 0.

    peers = RackPeers(job, "a", ("worker:0", "worker:1"), "worker:0", process_id, time.monotonic())
    peers.update(found, time.monotonic())           # whenever the records were read
    peers.decide(lost_term="")                      # NextAction.USE, and the role with its record
    peers.absent                                    # ["worker:1"]: no round may wait for it

Pure: the caller passes the records that were read, and the time.  Any thread may call.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ps_train.cluster.membership.membership import Membership, MembershipChange
from ps_train.cluster.membership.records import TaskState, TaskStatus, task_statuses
from ps_train.cluster.membership.succession import Aggregator, NextAction, Succession, has_ended
from ps_train.config.job import Job

_TAKEOVER_SECS = 2.0
"""Seconds in which another worker takes the role and has a session: within the heartbeat's time for both."""


class Choice(NamedTuple):
    """What a worker without a session does next.

    Attributes:
      action: the action.
      role: the aggregator; None for none.
      record: its record as it was read; "" for none.
    """

    action: NextAction
    role: Aggregator | None
    record: str


class RackPeers:
    """The workers of a rack.

    Args:
      job: its time limits.
      rack: name of the rack.
      workers: its workers, by rank.
      task: the worker that reads.
      process_id: of its process.
      now: seconds of a monotonic clock.
    """

    def __init__(self, job: Job, rack: str, workers: Sequence[str], task: str, process_id: str, now: float) -> None:
        self._workers, self._task, self._limit_secs = workers, task, job.heartbeat_timeout_secs
        lease_secs = self._limit_secs - min(_TAKEOVER_SECS, self._limit_secs / 4)
        self._succession = Succession(rack, process_id, lease_secs)
        self._members = Membership(workers, job.startup_timeout_secs, self._limit_secs, now)
        self._lock = threading.Lock()
        self._statuses: Sequence[TaskStatus] = ()
        self._recovering: dict[str, float] = {}
        self._absent: Sequence[str] = ()

    def update(self, found: Mapping[str, str], now: float) -> Sequence[MembershipChange]:
        """Takes in the records of ps 0; returns who has left the rack, joined it or come back.

        Args:
          found: its keys and values.
          now: seconds of a monotonic clock.
        """
        with self._lock:
            self._members.extend_deadlines(self._succession.update(found, now))
            self._statuses = task_statuses(found)
            changes = self._members.update(self._statuses, now)
            self._absent = [*self._members.absent, *self._stuck(now)]
        return changes

    def _stuck(self, now: float) -> list[str]:
        """Returns the workers that live but have had no session for long: they cannot reach the aggregator."""
        found = [status.task for status in self._statuses if status.state == TaskState.RECOVERING]
        self._recovering = {task: self._recovering.get(task, now) for task in found if task in self._workers}
        return [
            task for task, since in self._recovering.items() if now - since > self._limit_secs and task != self._task
        ]

    @property
    def absent(self) -> Sequence[str]:
        """The workers for which no round may wait."""
        return self._absent

    def gone(self, former: str) -> list[str]:
        """Returns the workers for which no round of a new aggregator waits: those that have ended, and the former one.

        Args:
          former: the aggregator before, which is dead or silent; "" for none.
        """
        with self._lock:
            ended = {status.task for status in self._statuses if has_ended(status)}
        return [task for task in self._workers if task != self._task and (task == former or task in ended)]

    def decide(self, lost_term: str = "") -> Choice:
        """Returns the next action of this worker, which has no session.

        Args:
          lost_term: the term in which this process had the role and lost its session; "" if it had none.
        """
        with self._lock:
            succession = self._succession
            return Choice(succession.decide(lost_term), succession.role, succession.text)

    def set_role(self, text: str) -> None:
        """Takes in the record that this process has just written as the aggregator."""
        with self._lock:
            self._succession.set_role(text)

    def is_over(self, term: str) -> bool:
        """Returns whether the term of the aggregator that a session was opened with has ended."""
        with self._lock:
            return self._succession.is_over(term)
