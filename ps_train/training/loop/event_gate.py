"""The worker's part of cuts by event time (--save_event_secs): no row of the next cut's time, or a later one, passes.

gate = next(iter(event_gates(step, job)), OPEN)
PartitionClient(step, replica, job, restart, gate)
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import tensorflow.compat.v1 as v1

from ps_train.base.life_sign import LastChange
from ps_train.config.job import Job
from ps_train.data.shards import event_cut_policy as policy
from ps_train.data.shards.partition_policy import begun_partitions
from ps_train.data.shards.shard_readers import PartitionReader
from ps_train.data.unbounded.event_times import event_time, shown_time
from ps_train.data.unbounded.row_gate import NO_STAMP, RowGate
from ps_train.data.unbounded.source import Row, UnboundedSource
from ps_train.engine.step.parts.event_cut_table import EventCutTable
from ps_train.engine.step.parts.sharding import Sharding
from ps_train.engine.step.train_step import TrainStep
from ps_train.training.loop.partition_client import PartitionClient, Standing

log = logging.getLogger(__name__)

_TELL_SECS = 30.0
"""Seconds between two lines about late rows."""


def event_gates(step: TrainStep, job: Job) -> list[EventGate]:
    """Returns the gate of a replica: none, or one."""
    readers = [cast(PartitionReader, part.assigned.reader) for part in step.parts.of(Sharding)]
    return [EventGate(table, readers[0].source, job) for table in step.parts.of(EventCutTable)]


class EventGate(RowGate):
    """The gate, which stops all partitions at the next cut, and tells which of this replica have reached it.

    Args:
      table: the cut and the marks on ps 0.
      source: gives the event times.

    Attributes:
      table: as in the argument.
    """

    asks_for_ends = True

    def __init__(self, table: EventCutTable, source: UnboundedSource, job: Job) -> None:
        self.table = table
        self._source, self._max_wait_secs = source, job.max_event_wait_secs
        self._last, self._next = -math.inf, math.inf
        self._marks: Any = None
        self._partitions: PartitionClient | None = None
        self._late, self._told_late = 0, -math.inf
        self._reached = LastChange()

    def stamp(self, partition: int, row: Row) -> float | None:
        """Returns the event time of a row, ms since 1970."""
        return event_time(self._source, partition, row)

    def is_shut(self, stamp: float) -> bool:
        """Returns True from the time of the next cut on; while none is chosen, for all rows with an event time."""
        return stamp >= self._next

    def passed(self, partition: int, begin: int, stamps: Sequence[float]) -> None:
        """Says now and then that rows came too late for the cut to which they belong."""
        late = sum(NO_STAMP < stamp < self._last for stamp in stamps)
        self._late += late
        if late and time.monotonic() - self._told_late > _TELL_SECS:
            self._told_late = time.monotonic()
            log.warning(
                "%s: rows before the cut of %s by their event time came after it, and are trained on now (%d of this "
                "kind so far on this worker)",
                self._source.place(partition, begin), shown_time(self._last), self._late,
            )  # fmt: skip

    def measured(self) -> dict[str, Any]:
        """Returns the number of late rows, and the time of the next cut; 0 while none is chosen."""
        return {"late_rows": self._late, "next_cut_ms": 0 if self._partitions is None else self._next}

    def exchanged(self, session: v1.Session, partitions: PartitionClient) -> None:
        """Reads the next cut, and marks the partitions of this replica that have reached it."""
        self._partitions = partitions
        self._read(session)
        changes = {}
        for partition, standing in partitions.standing().items():
            reached = self._time_reached(partitions.progress, standing)
            if reached is not None and self._marked(partitions.progress, partition) is None:
                changes[partition] = (standing.cursor, reached)
        if changes:
            self.table.mark(session, changes)

    def holds(self, partition: int) -> bool:
        """Returns True if a partition counts as having reached the next cut: rows that come now wait for it."""
        reached = None if self._partitions is None else self._marked(self._partitions.progress, partition)
        return reached is not None and reached < 0

    def reached_all(self, session: v1.Session) -> tuple[int, int, list[int]] | None:
        """Returns the last cut, the next one, and the event times of the rows at which the partitions stand.

        None unless all partitions have reached the next cut.
        """
        if self._partitions is None or not (partitions := self._partitions.open_partitions()):
            return None
        last, next_cut = self._read(session)
        times = policy.reached_all(self._marks, self._partitions.progress, partitions, next_cut)
        return None if times is None else (last, next_cut, times)

    def _read(self, session: v1.Session) -> tuple[int, int]:
        found = self.table.read(session)
        last, next_cut = (int(one) for one in found["cut"])
        self._last, self._next, self._marks = last, next_cut, found["marks"]
        return last, next_cut

    def _marked(self, progress: np.ndarray[Any, Any], partition: int) -> int | None:
        return policy.reached(self._marks, progress, partition, int(self._next))

    def _time_reached(self, progress: np.ndarray[Any, Any], standing: Standing) -> int | None:
        """Returns the time of a partition's mark, if it has reached the cut."""
        if standing.stamp is not None:
            return int(standing.stamp) if standing.stamp >= self._next else None
        begun = begun_partitions(progress, progress.shape[1])
        is_reached = policy.has_any_reached(self._marks, progress, begun, int(self._next))
        # For so long this replica has known that some partition has reached the cut by a row.
        secs = self._reached.secs(self._next if is_reached else None, time.monotonic())
        is_idle = is_reached and min(standing.empty_secs, secs) > self._max_wait_secs
        return policy.idle_mark(int(self._next)) if is_idle else None
