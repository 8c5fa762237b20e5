"""The next cut of a stream by event time, and which partitions have reached it: variables on ps 0.

    (table,) = step.parts.of(EventCutTable)
    table.read(session)                                 # {"cut": [last, next], "marks": [[cursor, time]]}
    table.mark(session, {3: (4001, 1_800_000_000_123)})
    table.move(session, last=1_800_000_000_000, next=0)

A mark is a fact: the row of a partition at a cursor has an event time.  It is valid as long as the partition stands at
this cursor on every ps, so a mark of a worker that slept, or from before a restored checkpoint, is never wrong, and the
marks need not be read at the same moment as the cursors.  Checkpoints have the cut, and not the marks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.run_directory.checkpoint_contents import EVENT_CUT_KEY
from ps_train.engine.step.parts.sharding import Sharding
from ps_train.engine.step.parts.step_part import MakeUpdate, StepPart, ToUpdate, Updated
from ps_train.engine.variables.variables import CheckpointEntry, ps_device, zeros_variable


class EventCutTable(StepPart):
    """The cut and the marks, which are there after `update`.

    Args:
      sharding: the partitions.
    """

    def __init__(self, sharding: Sharding) -> None:
        self._sharding = sharding

    def update(self, update: MakeUpdate) -> MakeUpdate:
        """Makes the variables beside the update."""

        def updated(given: ToUpdate) -> Updated:
            self._make(self._sharding.assigned.count)
            return update(given)

        return updated

    def _make(self, partitions: int) -> None:
        self._partitions = v1.placeholder(tf.int64, [None], "marked_partitions")
        self._marks = v1.placeholder(tf.int64, [None, 2], "new_marks")
        self._next = v1.placeholder(tf.int64, [2], "new_cut")
        with tf.device(ps_device(0)):
            self._cut = zeros_variable("ps_train/event_cut", tf.int64, [2])
            marks = zeros_variable("ps_train/event_marks", tf.int64, [partitions, 2])
            self._mark = marks.scatter_nd_update(self._partitions[:, tf.newaxis], self._marks).op
            self._move = self._cut.assign(self._next, read_value=False)
            self._present = {"cut": self._cut.read_value(), "marks": marks.read_value()}

    def entries(self) -> list[CheckpointEntry]:
        """Returns the entry of the cut."""
        return [CheckpointEntry(EVENT_CUT_KEY, "", self._cut, optional=True)]

    def read(self, session: v1.Session) -> dict[str, np.ndarray[Any, Any]]:
        """Returns `cut` int64 [2] and `marks` int64 [partitions, 2].

        A cut has the event time of the last one, 0 before the first, and of the next one, 0 while no partition may go
        on.  A mark has a cursor, and the event time of the row there; a time of -1 - t stands for a partition that
        counts as having reached t without a row.
        """
        found: dict[str, np.ndarray[Any, Any]] = session.run(self._present)
        return found

    def mark(self, session: v1.Session, marks: Mapping[int, tuple[int, int]]) -> None:
        """Sets some marks: partition to (cursor, time)."""
        session.run(self._mark, {self._partitions: [*marks], self._marks: [*marks.values()]})

    def move(self, session: v1.Session, last: int, next: int) -> None:
        """Sets the event times of the last and the next cut."""
        session.run(self._move, {self._next: [last, next]})
