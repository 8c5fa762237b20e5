"""Succession of a rack's aggregator: which worker of the rack has the role, and when another one takes it.

    succession = Succession("a", process_id, lease_secs=10)          # of rack a
    succession.update(found, time.monotonic())          # the records of ps 0, whenever they were read
    succession.decide(lost_term="")                     # NextAction.CLAIM, NextAction.USE or NextAction.WAIT

The role is a record in the store of ps 0, which workers replace by compare-and-set, so two workers never take it at the
same time.  Each time has a term of its own.  A worker that loses its session with the aggregator, or sees another term,
opens a new session.

Pure: the caller passes the records that were read, and the time.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping

from ps_train.base.life_sign import LastChange
from ps_train.base.process_ids import process_exited
from ps_train.cluster.membership.records import Record, TaskState, TaskStatus, task_statuses

_GAP_SECS = 2.0
"""Seconds between two readings of the records from which on ps 0 has not answered in between."""


def aggregator_key(rack: str) -> str:
    """Returns the key of the `Aggregator` of a rack."""
    return f"aggregator/{rack}"


@dataclasses.dataclass(frozen=True)
class Aggregator(Record):
    """The worker that adds up the gradients of its rack.

    Attributes:
      task: its name, such as "worker:1".
      process_id: unique to its process.
      address: host:port of the server on which the rack's workers meet.
      term: unique to each time that a process takes the role.
      is_ready: whether the rack's state is there, so that others may open sessions with it.
    """

    task: str
    process_id: str
    address: str
    term: str
    is_ready: bool = False


class NextAction(enum.Enum):
    """The next action of a worker: take the role, open a session with the aggregator, or look again later."""

    CLAIM = "claim"
    USE = "use"
    WAIT = "wait"


def has_ended(status: TaskStatus) -> bool:
    """Returns whether a task has left its job or its process has exited, as far as this host can know."""
    return status.state in (TaskState.LEFT, TaskState.FAILED) or process_exited(status)


class Succession:
    """The role of the aggregator, as one worker of the rack sees it.

    Args:
      rack: name of the rack.
      process_id: of this worker's process.
      lease_secs: seconds that the aggregator may be silent.

    Attributes:
      text: the record of the role as it was read last; "" for none.
    """

    def __init__(self, rack: str, process_id: str, lease_secs: float) -> None:
        self._key, self._process_id, self._lease_secs = aggregator_key(rack), process_id, lease_secs
        self._sign = LastChange()
        self._is_dead, self._updated_at = False, -1.0
        self.text = ""

    @property
    def role(self) -> Aggregator | None:
        """The aggregator; None while no worker has taken the role."""
        return Aggregator.from_json(self.text) if self.text else None

    def update(self, found: Mapping[str, str], now: float) -> float:
        """Takes in the records of ps 0.

        Args:
          found: its keys and values.
          now: seconds of a monotonic clock.

        Returns:
          The seconds in which no heartbeat could be read, nor written perhaps, so that no task's silence counts.
        """
        passed = now - self._updated_at
        unread = passed if self._updated_at >= 0 and passed > _GAP_SECS else 0.0
        self._sign.extend(unread)
        self._updated_at = now
        self.text = found.get(self._key, "")
        role = self.role
        self._is_dead = role is not None and self._has_died(role, task_statuses(found), now)
        return unread

    def set_role(self, text: str) -> None:
        """Takes in the record that this process has just written as the aggregator."""
        self.text, self._is_dead = text, False

    def _has_died(self, role: Aggregator, statuses: list[TaskStatus], now: float) -> bool:
        status = next((one for one in statuses if one.task == role.task), None)
        sign = (role.term, status.sign_of_life if status is not None else None)
        silent = self._sign.secs(sign, now) > self._lease_secs
        if status is None or silent:
            return silent
        has_other_process = status.process_id != role.process_id and status.state != TaskState.PREPARING
        return has_other_process or has_ended(status)

    def is_over(self, term: str) -> bool:
        """Returns whether the term of the aggregator that a session was opened with has ended."""
        role = self.role
        return role is None or role.term != term or self._is_dead

    def decide(self, lost_term: str = "") -> NextAction:
        """Returns the next action of this worker, which has no session.

        Args:
          lost_term: the term in which this process had the role and lost its session; "" if it had none.
        """
        role = self.role
        if role is None or self._is_dead or (role.process_id == self._process_id and role.term == lost_term):
            return NextAction.CLAIM
        return NextAction.USE if role.is_ready else NextAction.WAIT
