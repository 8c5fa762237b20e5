"""States of the other training tasks, which decide when the chief ends the job."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from ps_train.coordination.records import TaskState, TaskStatus


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
