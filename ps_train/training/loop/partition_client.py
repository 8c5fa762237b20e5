"""Client of an unbounded source: a worker owns partitions, and makes a step for each batch that has been read.

    client = PartitionClient(step, replica, job, restart=input.begin)
    client.begin(session, source)                # whenever the loop begins
    client.take(20, global_step=100)             # a StepSource: at most as many steps as batches are there
    client.step_done([3, before, after])         # the progress of the last step of a burst

A shard is read to its end and given back.  A partition has no end, so a replica
keeps it until others want their share.  Rows are read ahead by a thread, so a step never waits for a row: a replica
without rows leaves the rounds and comes back when there are some.
"""

from __future__ import annotations

import heapq
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import tensorflow.compat.v1 as v1

from ps_train.base.polling import poll_until
from ps_train.config.job import Job
from ps_train.data.shards import partition_policy as policy
from ps_train.data.shards.shard_layout import Assignment
from ps_train.data.shards.shard_policy import FREE
from ps_train.data.shards.shard_readers import PartitionReader
from ps_train.data.unbounded.read_ahead import ReadAhead
from ps_train.data.unbounded.row_gate import OPEN, RowGate
from ps_train.engine.step.train_step import TrainStep
from ps_train.engine.updates.modes.base import Replica
from ps_train.training.loop.shard_client import OwnershipClient
from ps_train.training.loop.step_sources import StepSource

log = logging.getLogger(__name__)

_WAIT_SECS, _POLL_SECS = 0.1, 0.01
"""Seconds for rows to arrive before a replica leaves the rounds; others may wait for it."""

_MOST_LAGS = 64
"""Partitions in a record of telemetry, those with the largest lag: a record stays small."""


class Standing(NamedTuple):
    """A partition of a replica without a batch under way.

    Attributes:
      cursor: where it stands on every ps.
      stamp: by what the gate knows the row there; None if it is not there, or has none.
      empty_secs: seconds since it was read to its end; 0 if there are rows.
    """

    cursor: int
    stamp: float | None
    empty_secs: float


class PartitionClient(OwnershipClient):
    """The partitions that one replica owns, and the batches that have been read of them.

    Args:
      step: the training graph, whose data are an unbounded source.
      replica: the replica of this worker.
      restart: restarts the input.
      gate: says which rows may be trained on now.
    """

    def __init__(
        self, step: TrainStep, replica: Replica, job: Job, restart: Callable[[], object], gate: RowGate = OPEN
    ) -> None:
        super().__init__(step, replica, job, restart)
        self._reader = cast(PartitionReader, self._batches.reader)
        self._partitions = self._reader.count
        self._seat = self._partitions + replica.index
        source, self._gate = self._reader.source, gate
        self._ahead = ReadAhead(
            source, job.max_batch_size, job.max_batch_wait_secs, job.recovery_timeout_secs, gate=gate
        )
        self._lag_unit, self.source_name = source.lag_unit, source.name
        self._held: deque[Assignment] = deque()
        self._kept: list[int] = []

    def begin(self, session: v1.Session, source: StepSource) -> None:
        """Restarts the input, without any batch; the `source` limits the steps beside the rows."""
        self._session, self._source = session, source
        self._read_ownership()
        self.drop()

    def drop(self) -> None:
        """Forgets the batches that are not used yet."""
        self._held.clear()
        self._reader.forget()
        super().drop()

    def close(self) -> None:
        """Ends reading."""
        self._ahead.close()

    def is_over(self) -> bool:
        """Returns True if all partitions have an end, and all their rows are used."""
        self._ahead.check()
        count, ends = self._ahead.count, self._ahead.ends
        if not count or len(ends) < count:
            return False
        progress = self._read_ownership().progress
        return len(policy.begun_partitions(progress, count)) == count and not policy.open_partitions(
            progress, count, ends
        )

    def measured(self) -> dict[str, Any]:
        """Returns how much is left to read of the partitions of this worker, and what its gate has measured.

        `lag` has what is left to read and what was read of each.
        """
        largest = heapq.nlargest(_MOST_LAGS, self._ahead.lags.items(), key=lambda one: one[1][0])
        lags = {str(partition): list(values) for partition, values in largest}
        return {"lag": lags, "lag_unit": self._lag_unit, **self._gate.measured()}

    def has_work(self) -> bool:
        """Returns True if a partition of this replica has rows, and steps are left; takes its share of them."""
        self._held.clear()  # another loop begins with others
        self._progress = None
        self._read_ownership()
        self._exchange()
        may_go_on = (self._ahead.has_rows(one) and not self._gate.holds(one) for one in self._kept)
        return self._snapshot.step < self._job.max_steps and any(may_go_on)

    def release_all(self) -> None:
        """Does nothing: the partitions of a dead replica are freed when it is removed, and others wait for rows."""

    def fetch_batches(self, wanted: int) -> int:
        """Gets more batches if too few are there; returns their number."""
        progress, self._progress = self._progress, None
        is_known = progress is None or self._forget_used(progress)
        self._exchange()
        if not is_known or not self._is_unchanged():
            self.drop()
            self._follow()
        self._cut(wanted)
        if not self._held:
            poll_until(lambda: self._cut(1) > 0, time.monotonic() + _WAIT_SECS, _POLL_SECS)
        return len(self._held)

    def _forget_used(self, progress: Sequence[int]) -> bool:
        """Forgets the batches up to the one with this progress; returns False if it is not there."""
        while self._held:
            batch = self._held.popleft()
            if (batch.shard, batch.end) == (progress[0], progress[2]):
                return True
        return False

    def _is_unchanged(self) -> bool:
        """Returns True if no step was left out, and the partitions of all batches are owned by this replica."""
        begins = {batch.shard: batch.begin for batch in reversed(self._held)}
        return all(
            self._snapshot.owners[partition] == self._owner and self._snapshot.reached(partition) == begin
            for partition, begin in begins.items()
        )

    def _cut(self, wanted: int) -> int:
        """Assigns batches of all partitions in turn, until so many are there; returns their number."""
        partitions = deque(one for one in self._kept if not self._gate.holds(one))
        while partitions and len(self._held) < wanted:
            partition = partitions.popleft()
            head = self._ahead.head(partition)
            if head is None:
                continue
            # A batch must be new to a ps as a whole, or not at all.
            ahead = [cursor - 1 for cursor in self._snapshot.progress[:, partition] if cursor - 1 > head]
            cut = self._ahead.cut(partition, min(ahead, default=math.inf))
            if cut is None:
                continue
            self._gate.passed(partition, cut.begin, cut.stamps)
            batch = Assignment(partition, cut.begin + 1, cut.end + 1)
            self._reader.hold(batch, cut.rows)
            self._batches.assign(batch)
            self._held.append(batch)
            partitions.append(partition)
        return len(self._held)

    def _exchange(self) -> None:
        """Begins new partitions, gives back those beyond this replica's share, and takes free ones."""
        self._ahead.check()
        count = self._ahead.count
        if count:
            self._begin_partitions(count)
        snapshot = self._snapshot
        owners, held = snapshot.owners[: self._partitions], {batch.shard for batch in self._held}
        usable = policy.open_partitions(snapshot.progress, count, self._ahead.ends)
        keep, take = policy.shares(owners, usable, self._owner, snapshot.owners[self._partitions :])
        own = [int(one) for one in np.flatnonzero(owners == self._owner)]
        changes = dict.fromkeys([one for one in own if one not in keep and one not in held], FREE)
        changes |= dict.fromkeys(take, self._owner)
        if snapshot.owners[self._seat] != self._owner:
            changes[self._seat] = self._owner
        self._change(snapshot, changes)
        self._kept = [one for one in (*keep, *take) if self._snapshot.owners[one] == self._owner]
        self._follow()
        self._gate.exchanged(self._session, self)

    def _follow(self) -> None:
        """Reads the partitions of this replica ahead, from the rows on that it has no batches of yet."""
        ends = {batch.shard: batch.end for batch in self._held}
        followed = {*self._kept, *ends}
        self._ahead.cursors = {one: self._snapshot.reached(one) - 1 for one in self._kept}
        self._ahead.follow({one: ends.get(one, self._snapshot.reached(one)) - 1 for one in followed})

    def open_partitions(self) -> list[int] | None:
        """Returns the partitions of the last snapshot that may have rows to come; None if some are not begun yet."""
        progress, count = self._snapshot.progress, self._ahead.count
        if not count or len(policy.begun_partitions(progress, count)) < count:
            return None
        return policy.open_partitions(progress, self._partitions, self._ahead.ends)

    @property
    def progress(self) -> np.ndarray[Any, Any]:
        """The cursors of the last snapshot."""
        return self._snapshot.progress

    def standing(self) -> dict[int, Standing]:
        """Returns the partitions of this replica without a batch under way."""
        held, found = {batch.shard for batch in self._held}, {}
        for partition in self._kept:
            cursor = (self._ahead.head(partition) or 0) + 1
            if partition not in held and bool((self.progress[:, partition] == cursor).all()):
                found[partition] = Standing(cursor, *self._ahead.waiting(partition))
        return found

    def _begin_partitions(self, count: int) -> None:
        """Sets the first offsets of partitions that no replica has begun."""
        progress = self._snapshot.progress
        missing = [int(one) for one in np.flatnonzero(progress[:, :count].min(axis=0) == 0)]
        if not missing:
            return
        is_new = bool(progress.any())
        cursors = {}
        for partition in missing:
            cursors[partition] = int(progress[:, partition].max())
            if not cursors[partition]:
                first = self._ahead.first_offset(partition, is_new)
                if first is None:  # all of them are begun at once
                    return
                cursors[partition] = first + 1
        self._take_snapshot(self._ownership.begin, self._ownership.begin_feeds(cursors))
