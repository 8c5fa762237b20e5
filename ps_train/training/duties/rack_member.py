"""A worker among those of its rack: it finds the aggregator, or is it.

    member = RackMember(..., store=store, is_stopping=stop.is_set)
    link = member.join()                    # before each session: the server to meet on
    member.begin(session, ops)              # in the new session
    member.await_values(session, ops)       # when the model is ready

The aggregator runs the rack's relay in a thread, beside its own steps, and removes the workers of its rack that have
fallen silent.  The chief removes a rack when it has no worker left.

A lost aggregator ends the sessions of its rack, as a lost ps does.  The workers then agree on another one
(`cluster/membership/rack_peers.py`), which begins with the values of the present round.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import LostTaskError, UnreachableError
from ps_train.cluster.addresses.cluster import Address
from ps_train.cluster.membership.connect import NotReadyError, check_reachable
from ps_train.cluster.membership.kv_store import KeyValueStore, cause_of
from ps_train.cluster.membership.rack_peers import RackPeers
from ps_train.cluster.membership.succession import Aggregator, NextAction, aggregator_key
from ps_train.cluster.sessions.abandonable import BackgroundTask
from ps_train.cluster.sessions.calls import UNBOUNDED_CALL
from ps_train.cluster.sessions.rack_server import RACK_JOB, start_rack_server
from ps_train.cluster.topology import rack_port_of
from ps_train.config.job import Job
from ps_train.engine.racks.rack_ops import RackOps
from ps_train.training.duties.duty import Setting
from ps_train.training.duties.rounds import was_removed

log = logging.getLogger(__name__)

_POLL_SECS, _WARN_SECS = 0.05, 10.0


@dataclasses.dataclass(frozen=True)
class RackLink:
    """The aggregator that a session is opened with.

    Attributes:
      role: its record.
      is_own: True if this process is the aggregator.
    """

    role: Aggregator
    is_own: bool

    @property
    def address(self) -> Address:
        """The address of its server."""
        return Address.parse(self.role.address, "the record of the aggregator")


class RackMember:
    """One worker of a rack.

    Args:
      rack: name of the rack.
      workers: its workers, by rank.
      task: this worker.
      host: the host by which others reach this process.
      port: on which it serves as the aggregator; 0 for a free one.
      store: of ps 0.
      is_stopping: returns True when this process ends.
    """

    def __init__(
        self,
        job: Job,
        rack: str,
        workers: tuple[str, ...],
        task: str,
        host: str,
        port: int,
        process_id: str,
        store: KeyValueStore,
        is_stopping: Callable[[], bool],
    ) -> None:
        self._job, self._rack, self._workers, self._task, self._host = job, rack, workers, task, host
        self._port, self._process_id, self._store, self._is_stopping = port, process_id, store, is_stopping
        self._peers = RackPeers(job, rack, workers, task, process_id, time.monotonic())
        self._wait, self._run = _ReachWait(task, rack, job.recovery_timeout_secs), BackgroundTask()
        # A port that is taken shall be known now, not when the aggregator is lost.
        self._server = start_rack_server(host, port, job) if port else None
        self._link: RackLink | None = None
        self._relay: _Relay | None = None
        self._remove: Callable[[int], bool] | None = None
        self._lost = ""

    @property
    def rank(self) -> int:
        """The worker's index in its rack."""
        return self._workers.index(self._task)

    def read(self, index: int, found: Mapping[str, str]) -> None:
        """Takes in the records of a ps, of which those of ps 0 count."""
        if index == 0:
            self.update(found)

    def update(self, found: Mapping[str, str]) -> None:
        """Takes in the records of ps 0; removes the silent workers of the rack if this is the aggregator."""
        for change in self._peers.update(found, time.monotonic()):
            if self._link is not None and self._link.is_own:
                log.info("rack %s: %s %s", self._rack, change.location, change.reason)
        absent = self._peers.absent
        if absent and self._remove is not None:
            self._run(lambda: self._remove_all(absent))

    def _remove_all(self, absent: Sequence[str]) -> None:
        for task in absent:
            if self._remove is None or not self._remove(self._workers.index(task)):
                return

    def join(self) -> RackLink | None:
        """Waits for an aggregator, or becomes it; returns the link for a session, None if this process ends.

        Raises:
          UnreachableError: this worker cannot reach an aggregator that lives.
        """
        lost_term = self._link.role.term if self._link is not None and self._link.is_own else ""
        self._end_session()
        while not self._is_stopping():
            try:
                link = self._look(lost_term)
            except LostTaskError as error:  # the heartbeat limits the time
                log.debug("the aggregator of rack %s is not known: %s", self._rack, error)
                link = None
            if link is not None:
                self._link = link
                return link
            time.sleep(_POLL_SECS)
        return None

    def _look(self, lost_term: str) -> RackLink | None:
        self.update(self._store.items())
        action, role, record = self._peers.decide(lost_term)
        if action == NextAction.CLAIM:
            return self._claim(record)
        if action == NextAction.WAIT or role is None:
            return None
        link = RackLink(role, role.process_id == self._process_id)
        try:
            check_reachable(link.address)
        except NotReadyError as error:
            self._wait.failed(role, str(error), time.monotonic())
            return None
        self._wait.ended()
        return link

    def _claim(self, before: str) -> RackLink | None:
        if self._server is None:
            self._server = start_rack_server(self._host, self._port, self._job)
        role = Aggregator(self._task, self._process_id, str(self._server[1]), uuid.uuid4().hex)
        if self._store.compare_and_set(aggregator_key(self._rack), before, role.to_json()) != before:
            return None
        former = Aggregator.from_json(before).task if before else ""
        self._lost = former if former != self._task else ""
        place = f", instead of {former}" if self._lost else ""
        # The first one of a rack is no news for people; another one means that a worker was lost.
        level = logging.WARNING if self._lost else logging.INFO
        log.log(level, "%s adds up the gradients of rack %s now%s", self._task, self._rack, place)
        self._peers.set_role(role.to_json())
        return RackLink(role, True)

    def begin(self, session: v1.Session, ops: RackOps) -> None:
        """Makes the state of the rack in a new session if this is the aggregator, and lets the others in."""
        link = self._link
        assert link is not None, "the session was opened with it"
        if not link.is_own:
            return
        ops.prepare(session)
        for task in self._peers.gone(self._lost):  # no round waits for them until they make a step again
            leave_rack(session, ops, self._workers.index(task))
        ready = dataclasses.replace(link.role, is_ready=True)
        key = aggregator_key(self._rack)
        if self._store.compare_and_set(key, link.role.to_json(), ready.to_json()) != link.role.to_json():
            raise tf.errors.AbortedError(None, None, f"another worker has taken the role of rack {self._rack}")
        self._peers.set_role(ready.to_json())
        self._remove = lambda rank: leave_rack(session, ops, rank)

    def await_values(self, session: v1.Session, ops: RackOps) -> None:
        """Waits for the first values of the rack; the aggregator begins to relay them."""
        assert self._link is not None, "the session was opened with it"
        if self._link.is_own:
            self._relay = _Relay(session, ops, self._job.max_steps)
        while not session.run(ops.is_published):
            if self.session_is_over() or self._is_stopping():
                raise tf.errors.AbortedError(None, None, f"the aggregator of rack {self._rack} is lost")
            time.sleep(_POLL_SECS)

    def session_is_over(self) -> bool:
        """Returns True if the session's aggregator is lost, or its relay has failed."""
        if self._link is None or (self._relay is not None and self._relay.failed):
            return self._link is not None
        return self._peers.is_over(self._link.role.term)

    def targets(self) -> dict[str, str]:
        """Returns the TensorFlow target of the session's aggregator by the name of its place in a trace."""
        return {} if self._link is None else {RACK_JOB: self._link.address.target}

    def _end_session(self) -> None:
        self._link = self._relay = self._remove = None

    @property
    def is_relaying(self) -> bool:
        """True while the relay of this process is inside a call."""
        return self._relay is not None and self._relay.thread.is_alive()


class _ReachWait:
    """The wait for an aggregator that this worker alone cannot reach; if it is dead, its heartbeat decides."""

    def __init__(self, task: str, rack: str, limit_secs: float) -> None:
        self._task, self._rack, self._limit_secs = task, rack, limit_secs
        self.ended()

    def ended(self) -> None:
        """The aggregator was reached."""
        self._term, self._since, self._warn_at = "", 0.0, 0.0

    def failed(self, role: Aggregator, why: str, now: float) -> None:
        """It was not reached.

        Args:
          role: its record.
          why: the end of a sentence.
          now: seconds of a monotonic clock.

        Raises:
          UnreachableError: it could not be reached for `recovery_timeout_secs`.
        """
        if self._term != role.term:
            self._term, self._since, self._warn_at = role.term, now, now + _WARN_SECS
        where = f"{role.task} at {role.address}, which adds up the gradients of rack {self._rack}: {why}"
        if now - self._since > self._limit_secs:
            raise UnreachableError(
                f"gave up after {self._limit_secs:g}s (recovery_timeout_secs): {self._task} cannot reach {where}; "
                "open this port between the hosts of the rack (--rack_port gives it a number)."
            )
        if now >= self._warn_at:
            log.warning("%s cannot reach %s (for %.0fs)", self._task, where, now - self._since)
            self._warn_at = now + _WARN_SECS


class _Relay:
    """The relay of a rack: a thread that makes one round of the rack after the other, until the last one.

    Attributes:
      failed: True once a call has failed; the session is lost then.
    """

    def __init__(self, session: v1.Session, ops: RackOps, max_steps: int) -> None:
        self._session, self._ops, self._max_steps = session, ops, max_steps
        self.failed = False
        self.thread = threading.Thread(target=self._work, daemon=True, name="relay")
        self.thread.start()

    def _work(self) -> None:
        fetches = {"train": self._ops.relay, "step": self._ops.relayed_step}
        try:
            while self._session.run(fetches, options=UNBOUNDED_CALL)["step"] < self._max_steps:
                pass
        except (tf.errors.OpError, RuntimeError) as error:
            log.info("the relay of the rack has ended: %s", cause_of(error))
            self.failed = True


def rack_member_of(setting: Setting) -> RackMember:
    """Returns the worker among those of its rack; its heartbeat then tells it what happens to the others."""
    topology, job, task = setting.agreed.topology, setting.prepared.job, setting.prepared.task
    cluster, heartbeat = setting.prepared.cluster, setting.joined.heartbeat
    place = topology.place(task)
    member = RackMember(
        job,
        place.name,
        topology.workers[place.index],
        str(task),
        cluster.address(task).host,
        rack_port_of(job, cluster, task),
        heartbeat.process_id,
        setting.joined.stores[0],
        setting.joined.events.stop.is_set,
    )
    heartbeat.subscribe(member.read)
    return member


def leave_rack(session: v1.Session, ops: RackOps, rank: int) -> bool:
    """Removes a worker from the rounds of its rack until it makes a step again; returns whether it was possible."""
    return was_removed(session, ops.leave, {ops.leaver: rank}, f"the worker of rank {rank}")
