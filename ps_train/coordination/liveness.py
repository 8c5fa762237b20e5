"""Liveness: the time for which a heartbeat has not changed.

    tracker = LivenessTracker()
    tracker.silent_secs("worker:1", heartbeat=("4f1c", 17), now=time.monotonic())      # 0.0 whenever it has changed

Pure: the caller passes the heartbeats that it has read, and the time.
"""

from __future__ import annotations

import time

from ps_train.coordination.records import TaskStatus


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
