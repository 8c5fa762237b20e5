"""Client of dynamic data sharding (--sharding=dynamic): a worker acquires shards whenever it needs more batches.

    shards = ShardClient(step, replica, job, num_replicas=3, restart=input.begin)
    shards.begin(session, source)                # whenever the loop begins
    shards.take(20, global_step=100)             # a StepSource: at most as many steps as it holds batches
    shards.step_done([3, before, after])         # the progress of the last step of a burst

A replica that leaves the rounds releases its shards (`StepOps.removals`).  The progress of a shard may differ from the
progress after the worker's last step: another worker used its examples, a ps was restored, or a round continued without
this worker.  The worker then releases all of its shards and acquires new ones.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as v1

from ps_train.config.job import Job
from ps_train.data.shards import shard_policy as policy
from ps_train.data.shards.shard_layout import Assignment
from ps_train.engine.step.parts.sharding import Sharding
from ps_train.engine.step.train_step import TrainStep
from ps_train.engine.updates.modes.base import Replica
from ps_train.training.loop.step_sources import StepSource


@dataclasses.dataclass(frozen=True)
class OwnershipSnapshot:
    """Ownership and progress of all shards at one moment; see `engine/updates/shards/shard_ownership.py`.

    Attributes:
      owners: int64 [shards], the owner of each shard.
      progress: int64 [ps, shards], the cursor of each shard on each ps.
      step: the global step.
    """

    owners: np.ndarray[Any, Any]
    progress: np.ndarray[Any, Any]
    step: int

    def reached(self, shard: int) -> int:
        """Returns the cursor up to which every ps has used the shard."""
        return int(self.progress[:, shard].min())


class OwnershipClient(abc.ABC):
    """A `StepSource` of one replica that owns parts of the data, and is limited by their batches.

    Args:
      step: the training graph, built with dynamic sharding.
      replica: the replica of this worker.
      restart: restarts the input.
    """

    def __init__(self, step: TrainStep, replica: Replica, job: Job, restart: Callable[[], object]) -> None:
        (sharding,) = step.parts.of(Sharding)
        self._batches, self._ownership = sharding.assigned, sharding.ownership
        self._owner, self._job = policy.owner_of(replica.index), job
        self._restart = restart
        self._session: v1.Session
        self._source: StepSource
        self._progress: Sequence[int] | None = None
        self._snapshot: OwnershipSnapshot

    @abc.abstractmethod
    def begin(self, session: v1.Session, source: StepSource) -> None:
        """Restarts the input, without any batch.

        The `source` limits the steps beside the batches.
        """

    @abc.abstractmethod
    def fetch_batches(self, wanted: int) -> int:
        """Acquires more batches if too few are held; returns the number of held batches."""

    @abc.abstractmethod
    def is_over(self) -> bool:
        """Returns True if all data are used."""

    @abc.abstractmethod
    def has_work(self) -> bool:
        """Returns True if there are data to acquire, and steps are left."""

    @abc.abstractmethod
    def release_all(self) -> None:
        """Frees what dead replicas own; called when no replica trains."""

    def drop(self) -> None:
        """Forgets the held batches, and discards those that were read ahead."""
        self._progress = None
        self._batches.reset()
        self._restart()

    def step_done(self, progress: Sequence[int]) -> None:
        """Records that a step, and all steps before it, have been made.

        Args:
          progress: the step's shard, and its cursor before and after.
        """
        self._progress = progress

    def take(self, wanted: int, global_step: int) -> int:
        """Takes up to `wanted` steps for which batches are held; returns their number."""
        ready = min(wanted, self.fetch_batches(wanted))
        return self._source.take(ready, global_step) if ready else 0

    def give_back(self, count: int) -> None:
        """Returns steps that were taken but not made."""
        self._source.give_back(count)

    def settle(self) -> None:
        """Tells that the steps that were taken are made."""
        self._source.settle()

    def close(self) -> None:  # noqa: B027 (shards need nothing beside the input)
        """Ends what runs beside the input."""

    def _read_ownership(self) -> OwnershipSnapshot:
        return self._take_snapshot(self._ownership.read, {})

    def _change(self, snapshot: OwnershipSnapshot, owners: dict[int, int]) -> None:
        """Changes the owners of shards whose owner is still the one of the snapshot; reads a new snapshot.

        Args:
          snapshot: the snapshot from which the changes were chosen.
          owners: new owner of each shard to change.
        """
        if not owners:
            self._read_ownership()
            return
        changes = {shard: (int(snapshot.owners[shard]), after) for shard, after in owners.items()}
        self._take_snapshot(self._ownership.compare_and_set, self._ownership.feeds(changes))

    def _take_snapshot(self, fetches: Any, feeds: dict[Any, Any]) -> OwnershipSnapshot:
        self._snapshot = OwnershipSnapshot(**self._session.run(fetches, feeds))
        return self._snapshot


class ShardClient(OwnershipClient):
    """The shards that one replica holds.

    Args:
      step: the training graph, built with dynamic sharding.
      replica: the replica of this worker.
      num_replicas: number of replicas that share the data.
      restart: restarts the input.
    """

    def __init__(
        self, step: TrainStep, replica: Replica, job: Job, num_replicas: int, restart: Callable[[], object]
    ) -> None:
        super().__init__(step, replica, job, restart)
        self._num_replicas = num_replicas
        self._held: list[Assignment] = []

    def begin(self, session: v1.Session, source: StepSource) -> None:
        """Restarts the input, without any shard.

        The `source` limits the steps beside the shards.
        """
        self._session, self._source = session, source
        self._release_own(self._read_ownership())

    def drop(self) -> None:
        """Forgets the held shards, and discards batches that were read ahead."""
        self._held = []
        super().drop()

    def is_over(self) -> bool:
        """Returns True if all epochs are finished."""
        return policy.is_finished(self._read_ownership().progress, self._job.epochs)

    def has_work(self) -> bool:
        """Returns True if a shard is free and steps are left."""
        snapshot = self._read_ownership()
        free = policy.free_shards(snapshot.owners, snapshot.progress, self._job.epochs)
        return bool(free) and snapshot.step < self._job.max_steps

    def release_all(self) -> None:
        """Frees all shards; called when no replica trains."""
        snapshot = self._read_ownership()
        self._change(snapshot, {int(shard): policy.FREE for shard in np.flatnonzero(snapshot.owners)})

    def fetch_batches(self, wanted: int) -> int:
        """Acquires more shards if too few batches are held; returns the number of held batches."""
        progress, self._progress = self._progress, None
        if progress is not None:
            self._drop_until(progress)
        self._acquire(wanted - self._num_batches())
        if not self._is_unchanged(progress):
            self._release_own(self._snapshot)
        if not self._held:  # other replicas were faster, or the snapshot was too old
            self._acquire(wanted)
        return self._num_batches()

    def _num_batches(self) -> int:
        return sum(self._batches.batches_in(assignment) for assignment in self._held)

    def _drop_until(self, progress: Sequence[int]) -> None:
        """Drops the batches that were used up to this progress."""
        shard, after = int(progress[0]), int(progress[2])
        while self._held and self._held[0].shard != shard:
            del self._held[0]
        if self._held:
            rest = dataclasses.replace(self._held[0], begin=after)
            self._held[:1] = [rest] if rest.begin < rest.end else []

    def _is_unchanged(self, progress: Sequence[int] | None) -> bool:
        """Returns True if the last step has been counted and no held shard has another owner."""
        if progress is not None and (progress[0] < 0 or self._snapshot.reached(int(progress[0])) < progress[2]):
            return False
        return all(
            self._snapshot.owners[assignment.shard] == self._owner
            and self._snapshot.reached(assignment.shard) == assignment.begin
            for assignment in self._held
        )

    def _acquire(self, wanted: int) -> None:
        """Acquires shards of `wanted` batches in total, at most a fair share, and releases the finished ones.

        The choice is made from the last snapshot.  It reads a new snapshot even if nothing changes.
        """
        snapshot, epochs = self._snapshot, self._job.epochs
        limit = policy.fair_share(
            len(policy.free_shards(snapshot.owners, snapshot.progress, epochs)), self._num_replicas
        )
        chosen: list[int] = []
        for assignment in policy.choose_shards(snapshot.owners, snapshot.progress, epochs, min(limit, max(wanted, 0))):
            if wanted > 0:
                chosen.append(assignment.shard)
                wanted -= self._batches.batches_in(assignment)
        held = {assignment.shard for assignment in self._held}
        done = [int(shard) for shard in np.flatnonzero(snapshot.owners == self._owner) if shard not in held]
        self._change(snapshot, dict.fromkeys(done, policy.FREE) | dict.fromkeys(chosen, self._owner))
        for shard in chosen:
            assignment = policy.assignment_of(shard, self._snapshot.progress)
            if self._snapshot.owners[shard] == self._owner and not policy.is_done(assignment, epochs):
                self._batches.assign(assignment)
                self._held.append(assignment)

    def _release_own(self, snapshot: OwnershipSnapshot) -> None:
        """Releases all shards of this replica, and restarts the input."""
        self.drop()
        own = np.flatnonzero(snapshot.owners == self._owner)
        self._change(snapshot, {int(shard): policy.FREE for shard in own})
