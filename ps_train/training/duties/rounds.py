"""Whom the steps of a task wait for: the other workers, or those of its rack."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence

import tensorflow.compat.v1 as v1

from ps_train.base.polling import poll_until
from ps_train.cluster.addresses.cluster import Address
from ps_train.cluster.membership.kv_store import cause_of
from ps_train.cluster.sessions.calls import PS_LOST_ERRORS, SHORT_CALL
from ps_train.engine.step.parts.rack import Rack
from ps_train.engine.updates.modes.base import Removal
from ps_train.training.duties.duty import POLL_SECS, End, Rounds, Setting, Start
from ps_train.training.duties.rack_member import leave_rack, rack_member_of, was_removed

log = logging.getLogger(__name__)


class FlatRounds(Rounds):
    """The rounds of a job whose ps see the workers themselves."""

    def __init__(self, setting: Setting) -> None:
        self._ops, self._now = setting.step.ops, setting.now
        self._global_step = setting.step.ps.global_step
        self._index, self._is_chief = setting.prepared.replica.index, setting.prepared.is_chief
        self._was_opened = False

    def opened(self, session: v1.Session, start: Start) -> None:
        """Removes the chief from the round in which the process before it may have left a step unfinished."""
        if self._is_chief and start.state.was_there and not self._was_opened:
            self._remove(self._index, session)
        self._was_opened = True

    def paused(self, session: v1.Session) -> None:
        """Leaves the rounds (the chief removes dead workers); tries again if a ps is busy."""
        poll_until(lambda: self.leave() or self._now.session_is_over(), math.inf, POLL_SECS)

    def leave(self) -> bool:
        """Removes this replica from the rounds on the ps."""
        return self._remove(self._index, self._now.session)

    def left(self) -> None:
        """Leaves the rounds."""
        self.leave()

    def remove_absent(self, index: int, present: Sequence[str]) -> bool:
        """Removes a replica from the rounds on the ps."""
        return self._remove(index, self._now.session)

    def awaited(self) -> tuple[int, list[int]] | None:
        """Asks ps 0."""
        session = self._now.session
        if session is None or not self._ops.awaited:
            return None
        try:
            step, found = session.run([self._global_step, *self._ops.awaited], options=SHORT_CALL)
        except PS_LOST_ERRORS as error:
            log.debug("the awaited replicas are unknown: %s", cause_of(error))
            return None
        return int(step), [index for index, is_awaited in enumerate(found) if is_awaited]

    def pause(self, session: v1.Session) -> None:
        """Removes this replica for as long as it waits; it keeps its data."""
        poll_until(
            lambda: self._remove_by(self._ops.pauses, self._index, session) or self._now.should_stop(),
            math.inf,
            POLL_SECS,
        )

    def _remove(self, index: int, session: v1.Session | None) -> bool:
        return session is None or self._remove_by(self._ops.removals, index, session)

    def _remove_by(self, removals: Sequence[Removal], index: int, session: v1.Session) -> bool:
        return all(was_removed(session, one.op, {one.replica: index}, f"replica {index}") for one in removals)


class RackRounds(FlatRounds):
    """The rounds of a job with racks: this worker's are those of its rack, and the ps see the racks."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        prepared, self._topology = setting.prepared, setting.agreed.topology
        self._index = self._topology.place(prepared.task).index
        self._workers = [str(task) for task in prepared.cluster.replicas()]
        (rack,) = setting.step.parts.of(Rack)
        self._rack_ops = rack.ops
        self._member = rack_member_of(setting)
        self._is_chief = False  # its rack is in the rounds, not the chief
        self._start: Start | None = None

    def meet(self) -> Sequence[Address]:
        """Returns the aggregator of the rack; nothing if this process ends."""
        link = self._member.join()
        return () if link is None else (link.address,)

    def connected(self, session: v1.Session) -> None:
        """Makes the state of the rack, if this is the aggregator."""
        self._member.begin(session, self._rack_ops)

    def opened(self, session: v1.Session, start: Start) -> None:
        """Waits for the first values of the rack."""
        self._start = start
        self._member.await_values(session, self._rack_ops)

    def is_over(self) -> bool:
        """Returns True if the aggregator is lost."""
        return self._member.session_is_over()

    def leave(self) -> bool:
        """Removes this worker from the rounds of its rack."""
        session = self._now.session
        return session is None or leave_rack(session, self._rack_ops, self._member.rank)

    def remove_absent(self, index: int, present: Sequence[str]) -> bool:
        """Removes the rack of a worker, once all its workers are absent; its aggregator removes a single one."""
        rack = self._topology.names.index(self._topology.racks[self._workers[index]])
        if any(task in present for task in self._topology.workers[rack]):
            return True
        return self._remove(rack, self._now.session)

    def awaited(self) -> tuple[int, list[int]] | None:
        """Asks ps 0 for the racks, and returns all their workers."""
        found = super().awaited()
        if found is None:
            return None
        return found[0], [self._workers.index(task) for rack in found[1] for task in self._topology.workers[rack]]

    def targets(self) -> Mapping[str, str]:
        """Returns the target of the aggregator."""
        return self._member.targets()

    def ended(self, end: End) -> None:
        """Ends the relay's call, or the end of the process would wait for it."""
        if self._member.is_relaying and self._start is not None:
            self._start.sessions.group.close()
