"""Liveness: the time for which a heartbeat has not changed.

    tracker = LivenessTracker()
    tracker.silent_secs("worker:1", heartbeat=("4f1c", 17), now=time.monotonic())      # 0.0 whenever it has changed

Pure: the caller passes the heartbeats that it has read, and the time.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Sequence

from ps_train.cluster.membership.records import TaskState, TaskStatus


class StallDetector:
    """Reports a stall after `warn_secs` without a new step, and again whenever that time has doubled."""

    def __init__(self, warn_secs: float) -> None:
        self._warn_secs = warn_secs
        self._step = -1
        self._since, self._next = 0.0, warn_secs

    def update(self, step: int, awaited: Sequence[str], now: float) -> str | None:
        """Returns a line to log, or None.

        Args:
          step: the global step.
          awaited: the tasks that others wait for.
          now: seconds of a monotonic clock.
        """
        if step != self._step or not awaited:
            self._step, self._since, self._next = step, now, self._warn_secs
            return None
        if now - self._since < self._next:
            return None
        self._next *= 2
        return f"no update since step {step}, for {now - self._since:.0f}s: all wait for {', '.join(awaited)}"


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
    """Remembers when the heartbeat of each key was last seen to change."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[object, float]] = {}

    def silent_secs(self, key: str, heartbeat: object, now: float) -> float:
        """Returns the seconds since the heartbeat of `key` changed; 0.0 for one that is new.

        Args:
          key: name of the heartbeat's owner.
          heartbeat: any value that differs from the one before while its owner lives.
          now: seconds of a monotonic clock.
        """
        if self.has_changed(key, heartbeat):
            self._last[key] = (heartbeat, now)
        return now - self._last[key][1]

    def has_changed(self, key: str, heartbeat: object) -> bool:
        """Returns whether a heartbeat differs from the last one of `key`; True for a key that is new."""
        return key not in self._last or self._last[key][0] != heartbeat

    def extend(self, secs: float) -> None:
        """Leaves out `secs` in which no heartbeat could be read."""
        self._last = {key: (heartbeat, since + secs) for key, (heartbeat, since) in self._last.items()}


class TaskLiveness:
    """Tells living tasks from silent ones.

    Args:
      lease_secs: seconds for which a heartbeat may stay the same.
    """

    def __init__(self, lease_secs: float) -> None:
        self._lease_secs, self._tracker = lease_secs, LivenessTracker()

    def is_alive(self, status: TaskStatus) -> bool:
        """Returns whether the process has shown a new heartbeat within its lease; a new process has."""
        silent_secs = self._tracker.silent_secs(status.process_id, status.heartbeat, time.monotonic())
        return silent_secs < self._lease_secs
