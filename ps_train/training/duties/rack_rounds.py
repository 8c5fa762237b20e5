"""Whom the steps of a task with racks wait for: the other workers of its rack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tensorflow.compat.v1 as v1

from ps_train.cluster.addresses.cluster import Address
from ps_train.cluster.sessions.rack_server import RACK_JOB
from ps_train.engine.step.parts.rack import Rack
from ps_train.training.duties.duty import End, Setting, Start
from ps_train.training.duties.rack_member import leave_rack, rack_member_of
from ps_train.training.duties.rounds import FlatRounds


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

    def meet(self) -> Mapping[str, Address]:
        """Returns the aggregator of the rack; nothing if this process ends."""
        link = self._member.join()
        return {} if link is None else {RACK_JOB: link.address}

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
