"""A worker's part of the data where shards are handed out (--sharding=dynamic): takes some whenever it needs more.

    shares = Shares(step, replica, job, sharers=3)
    shares.begin(session, pace)                  # whenever the loop begins
    shares.take(20, global_step=100)             # a Pace: no more steps than there are batches to make them of
    shares.followed([3, before, after])          # the ticket of the last step of a burst

What was taken is given back by whoever leaves (`StepOps.leave`).  If the shard does not stand where the last step has
left it, somebody else has used its examples, or a ps was restored, or a round has gone on without this worker: it then
forgets what it was given, and takes anew what is to be done now.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as v1

from ps_train.config.job import Job
from ps_train.graph.train_step import TrainStep
from ps_train.sharding import policy
from ps_train.sharding.layout import Assignment
from ps_train.training.loop import StepSource
from ps_train.updates.base import Replica


@dataclasses.dataclass(frozen=True)
class OwnershipSnapshot:
    """What stands on the ps; see `sharding/ownership.py`."""

    holders: np.ndarray[Any, Any]
    progress: np.ndarray[Any, Any]
    step: int

    def reached(self, shard: int) -> int:
        """The cursor up to which the shard has been used on every ps."""
        return int(self.progress[:, shard].min())


class ShardClient:
    """Args:
    sharers: how many replicas take from the same data.
    restart: begins to read anew.
    """

    def __init__(
        self, step: TrainStep, replica: Replica, job: Job, sharers: int, restart: Callable[[], object]
    ) -> None:
        assert step.assigned is not None and step.ownership is not None, "shards are handed out"
        self._leased, self._handout = step.assigned, step.ownership
        self._me, self._job, self._sharers = policy.owner_of(replica.index), job, sharers
        self._restart = restart
        self._session: v1.Session | None = None
        self._pace: StepSource | None = None
        self._given: list[Assignment] = []
        self._ticket: Sequence[int] | None = None

    def begin(self, session: v1.Session, pace: StepSource) -> None:
        """Begins to read anew, with nothing in hand.  `pace`: says how many steps may be made at all."""
        self._session, self._pace = session, pace
        self._forget(self._read_ownership())

    def drop(self) -> None:
        """Has nothing in hand any more, and reads nothing ahead."""
        self._given, self._ticket = [], None
        self._leased.reset()
        self._restart()

    def step_done(self, ticket: Sequence[int]) -> None:
        """That step has been made, and all before it."""
        self._ticket = ticket

    def take(self, wanted: int, global_step: int) -> int:
        assert self._pace is not None, "it has begun"
        ready = min(wanted, self._fetch(wanted))
        return self._pace.take(ready, global_step) if ready else 0

    def give_back(self, count: int) -> None:
        assert self._pace is not None, "it has begun"
        self._pace.give_back(count)

    def is_over(self) -> bool:
        """Whether all epochs are."""
        return policy.is_finished(self._read_ownership().progress, self._job.epochs)

    def has_work(self) -> bool:
        """Whether there is something to take, for steps that may still be made."""
        seen = self._read_ownership()
        free = policy.free_shards(seen.holders, seen.progress, self._job.epochs)
        return bool(free) and seen.step < self._job.max_steps

    def release_all(self) -> None:
        """Takes from everybody what he has: nobody trains."""
        seen = self._read_ownership()
        self._change(seen, {int(shard): policy.FREE for shard in np.flatnonzero(seen.holders)})

    def _fetch(self, wanted: int) -> int:
        """How many batches there are in hand, after taking some more if they are too few."""
        ticket, self._ticket = self._ticket, None
        if ticket is not None:
            self._drop_until(ticket)
        self._take_more(wanted - self._is_held())
        if not self._is_unchanged(ticket):
            self._forget(self._seen)
        if not self._given:  # others were faster, or what was known was too old
            self._take_more(wanted)
        return self._is_held()

    def _is_held(self) -> int:
        return sum(self._leased.batches_in(assignment) for assignment in self._given)

    def _drop_until(self, ticket: Sequence[int]) -> None:
        """What the steps until then have used is in hand no more."""
        shard, after = int(ticket[0]), int(ticket[2])
        while self._given and self._given[0].shard != shard:
            del self._given[0]
        if self._given:
            rest = dataclasses.replace(self._given[0], begin=after)
            self._given[:1] = [rest] if rest.begin < rest.end else []

    def _is_unchanged(self, ticket: Sequence[int] | None) -> bool:
        """Whether the last step has been counted, and what is in hand is nobody else's."""
        if ticket is not None and (ticket[0] < 0 or self._seen.reached(int(ticket[0])) < ticket[2]):
            return False
        return all(
            self._seen.holders[some.shard] == self._me and self._seen.reached(some.shard) == some.begin
            for some in self._given
        )

    def _take_more(self, wanted: int) -> None:
        """Takes shards of so many batches together, if there are, but leaves the others their part; gives back those
        that are done; and looks at the ps all the same.  What it takes is chosen from what it saw last."""
        seen, epochs = self._seen, self._job.epochs
        most = policy.fair_share(len(policy.free_shards(seen.holders, seen.progress, epochs)), self._sharers)
        chosen: list[int] = []
        for assignment in policy.choose_shards(seen.holders, seen.progress, epochs, min(most, max(wanted, 0))):
            if wanted > 0:
                chosen.append(assignment.shard)
                wanted -= self._leased.batches_in(assignment)
        held = {assignment.shard for assignment in self._given}
        done = [int(shard) for shard in np.flatnonzero(seen.holders == self._me) if shard not in held]
        self._change(seen, dict.fromkeys(done, policy.FREE) | dict.fromkeys(chosen, self._me))
        for shard in chosen:
            assignment = policy.assignment_of(shard, self._seen.progress)
            if self._seen.holders[shard] == self._me and not policy.is_done(assignment, epochs):
                self._leased.assign(assignment)
                self._given.append(assignment)

    def _forget(self, seen: OwnershipSnapshot) -> None:
        """Gives everything back, and reads from the beginning."""
        assert self._session is not None, "it has begun"
        self.drop()
        mine = np.flatnonzero(seen.holders == self._me)
        self._change(seen, {int(shard): policy.FREE for shard in mine})

    def _read_ownership(self) -> OwnershipSnapshot:
        assert self._session is not None, "it has begun"
        self._seen = OwnershipSnapshot(**self._session.run(self._handout.read))
        return self._seen

    def _change(self, seen: OwnershipSnapshot, holders: dict[int, int]) -> None:
        """Makes those the holders, where the present ones are still those that were seen; and sees what is now."""
        if not holders:
            self._read_ownership()
            return
        assert self._session is not None, "it has begun"
        changes = {shard: (int(seen.holders[shard]), after) for shard, after in holders.items()}
        self._seen = OwnershipSnapshot(**self._session.run(self._handout.compare_and_set, self._handout.feeds(changes)))
