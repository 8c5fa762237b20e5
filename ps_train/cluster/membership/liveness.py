"""Liveness: the time for which a heartbeat has not changed.

    tracker = LivenessTracker()
    tracker.silent_secs("worker:1", heartbeat=("4f1c", 17), now=time.monotonic())      # 0.0 whenever it has changed

Pure: the caller passes the heartbeats that it has read, and the time.
"""

from __future__ import annotations

import dataclasses
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from ps_train.base.life_sign import LastChange
from ps_train.cluster.membership.records import TaskState, TaskStatus


class StallDetector:
    """Reports a stall after `warn_secs` without a new step, and again whenever that time has doubled."""

    def __init__(self, warn_secs: float) -> None:
        self._warn_secs, self._next = warn_secs, warn_secs
        self._step = LastChange()

    def update(self, step: int, awaited: Sequence[str], now: float) -> str | None:
        """Returns a line to log, or None.

        Args:
          step: the global step.
          awaited: the tasks that others wait for.
          now: seconds of a monotonic clock.
        """
        secs = self._step.secs(step if awaited else None, now)
        if not awaited or not secs:
            self._next = self._warn_secs
            return None
        if secs < self._next:
            return None
        self._next *= 2
        return f"no update since step {step}, for {secs:.0f}s: all wait for {', '.join(awaited)}"


@dataclasses.dataclass(frozen=True)
class PeerStates:
    """States of the other training tasks, as read from the store.

    Attributes:
      training: locations of the tasks that still train.
      waiting: locations of the tasks that could continue to train.
    """

    training: tuple[str, ...]
    waiting: tuple[str, ...]

    @classmethod
    def from_records(
        cls, statuses: Iterable[TaskStatus], task: str, is_alive: Callable[[TaskStatus], bool]
    ) -> PeerStates:
        """Returns the states of all living tasks except `task`."""
        unfinished = (TaskState.STARTING, TaskState.TRAINING, TaskState.RECOVERING)
        others = [status for status in statuses if status.task != task and is_alive(status)]
        return cls(
            tuple(s.location() for s in others if s.state in unfinished),
            tuple(s.location() for s in others if s.state == TaskState.WAITING),
        )


class LivenessTracker:
    """The last changes of many heartbeats, each by its key."""

    def __init__(self) -> None:
        self._last: defaultdict[str, LastChange] = defaultdict(LastChange)

    def silent_secs(self, key: str, heartbeat: object, now: float) -> float:
        """Takes in a heartbeat; returns the seconds since that of this key has changed.

        Args:
          key: name of the heartbeat's owner.
          heartbeat: any value that differs from the one before while its owner lives.
          now: seconds of a monotonic clock.
        """
        return self._last[key].secs(heartbeat, now)

    def extend(self, secs: float) -> None:
        """Leaves out `secs` in which no heartbeat could be read."""
        for last in self._last.values():
            last.extend(secs)


class TaskLiveness:
    """Tells living tasks from silent ones.

    Args:
      lease_secs: seconds for which a heartbeat may stay the same.
    """

    def __init__(self, lease_secs: float) -> None:
        self._lease_secs, self._tracker = lease_secs, LivenessTracker()

    def is_alive(self, status: TaskStatus) -> bool:
        """Returns whether the process has shown a new heartbeat within its lease; a new process has."""
        return self._tracker.silent_secs(status.process_id, status.heartbeat, time.monotonic()) < self._lease_secs
