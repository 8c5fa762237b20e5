"""The leader of synchronous training: a thread of the chief that makes the updates and lets the workers go on.

Each worker has a monitor besides.  The leader's removes workers that have ended or fallen silent, so no round waits for
them.  Another worker's ends its training when the chief is gone.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import LostTaskError
from ps_train.cluster.membership.presence import ScriptPresence
from ps_train.cluster.membership.records import TaskStatus, task_statuses
from ps_train.compat.train.server import current_task
from ps_train.compat.train.sync_graph import LEAVING, STOP, Messages, RoundTensors
from ps_train.compat.train.sync_rounds import SyncRounds

log = logging.getLogger(__name__)

JOIN_SECS = 120.0
"""Seconds for which a round waits for a worker that has never come."""

_LEADER = "sync/leader"
_LOOK_SECS = 0.5
_LOST = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError)
"""Errors of a lost ps or a closed session; a MonitoredSession connects again and starts a new leader."""


class Monitor:
    """A thread that looks at the records of other workers.

    Args:
      presence: of this task.
      watched: names of the workers to look at.
      on_gone: called once for each worker that is gone, with its name.
    """

    def __init__(self, presence: ScriptPresence, watched: Sequence[str], on_gone: Callable[[str], None]) -> None:
        self._presence, self._watched, self._on_gone = presence, list(watched), on_gone
        self._gone: dict[str, str] = {}  # process id, by worker
        self._start = time.monotonic()
        self._stopped = threading.Event()
        threading.Thread(target=self._look_until_stopped, daemon=True, name="sync monitor").start()

    def stop(self) -> None:
        """Ends the thread soon."""
        self._stopped.set()

    def _look_until_stopped(self) -> None:
        store = None
        while not self._stopped.wait(_LOOK_SECS):
            with contextlib.suppress(LostTaskError, *_LOST):
                store = store or self._presence.connected_store(0)
                self._look(task_statuses(store.items()))

    def _look(self, found: Iterable[TaskStatus]) -> None:
        now, statuses = time.monotonic(), {status.task: status for status in found}
        for worker in self._watched:
            status = statuses.get(worker)
            process = status.process_id if status else ""
            is_gone = now - self._start > JOIN_SECS if status is None else self._presence.is_gone(status)
            if is_gone and self._gone.get(worker) != process:
                self._gone[worker] = process
                self._on_gone(worker)


class SyncLeader(v1.train.QueueRunner):
    """The chief's thread.  It has the interface of the queue runner that TensorFlow's optimizer returns.

    Args:
      workers: names of all workers; the position of a name is its number in messages.
      own: position of this process's worker.
      aggregate: the number of gradients of an update.
      tensors: the operations of a round.
      messages: the queues.
    """

    def __init__(
        self, workers: Sequence[str], own: int, aggregate: int, tensors: RoundTensors, messages: Messages
    ) -> None:
        super().__init__(messages.queue, [messages.send])
        self._workers, self._own, self._aggregate = list(workers), own, aggregate
        self._tensors, self._messages = tensors, messages
        self._rounds = SyncRounds(self._workers, aggregate, step=-1)  # of no session yet
        self._session: Any = None
        self._thread: threading.Thread | None = None
        self._monitor: Monitor | None = None

    def create_threads(self, sess: Any, coord: Any = None, daemon: bool = False, start: bool = False) -> list[Any]:
        """Starts to lead; returns no thread, since `finish` ends it.  A second call for a session does nothing.

        Args:
          sess: a session with a model that is ready.
          coord: is told of errors.
          daemon: not used.
          start: not used.
        """
        if sess is self._session:
            return []
        self._session = sess
        self._prepare(sess)
        self._thread = threading.Thread(target=self._lead, args=[sess, coord], daemon=True, name="sync leader")
        self._thread.start()
        task = current_task()
        if task is not None and self._monitor is None:
            others = [name for name in self._workers if name != self._workers[self._own]]
            self._monitor = Monitor(task.presence, others, self._remove)
        return []

    def finish(self) -> None:
        """Leaves as a worker, leads until the others have left as well, and ends the thread."""
        if self._thread is None:
            return
        with contextlib.suppress(RuntimeError, *_LOST):
            self._send(self._own, LEAVING)
            self._thread.join()
        if self._monitor is not None:
            self._monitor.stop()
        self._thread, self._monitor = None, None

    def _prepare(self, session: Any) -> None:
        """Begins the rounds, or goes on with those of a former session if every ps still has their gradients."""
        step, accumulated = session.run([self._tensors.present_step, self._tensors.accumulated])
        if step == self._rounds.step and set(accumulated) == {self._rounds.arrived}:
            return
        had_leader = self._rounds.step >= 0 or _replaces_leader()
        self._rounds = SyncRounds(self._workers, self._aggregate, int(step))
        if had_leader:
            self._begin_anew(session, accumulated)

    def _begin_anew(self, session: Any, accumulated: Sequence[int]) -> None:
        """Forgets the gradients of a broken round, and lets the workers that wait for its update go on."""
        session.run([discard for discard, count in zip(self._tensors.discard, accumulated, strict=True) if count])
        session.run(self._tensors.begin)
        size = session.run(self._messages.size)
        session.run(self._messages.receive, {self._messages.number: size})
        session.run([give for index, give in enumerate(self._messages.give) if index != self._own])

    def _lead(self, session: Any, coord: Any) -> None:
        try:
            while self._rounds.members:
                if not self._make_progress(session, self._rounds):
                    return
        except _LOST:
            return
        except RuntimeError as error:
            log.debug("the session of the leader was closed: %s", error)
        except tf.errors.OpError as error:
            if coord is None:
                log.exception("synchronous training has failed")
            else:
                coord.request_stop(error)

    def _make_progress(self, session: Any, rounds: SyncRounds) -> bool:
        """Makes the update that is due, or waits for messages; returns False when it is asked to stop."""
        if rounds.complete():
            waiting = rounds.updated(rounds.step + 1)
            tokens = [self._messages.give_after_update[self._workers.index(name)] for name in waiting]
            fetches = [self._tensors.update, self._tensors.updated_step, tokens]
            rounds.step = int(session.run(fetches)[1])
            return True
        received = session.run(self._messages.receive, {self._messages.number: rounds.expected()})
        go_on: list[str] = []
        for number, step in received:
            if number == STOP:
                return False
            worker = self._workers[number]
            if step == LEAVING:
                if worker in rounds.members and len(rounds.members) > 1:
                    log.info("%s has left; updates now wait for %d of the workers", worker, len(rounds.members) - 1)
                go_on += rounds.leave(worker)
            else:
                go_on += rounds.arrive(worker, int(step))
        if go_on:
            session.run([self._messages.give[self._workers.index(name)] for name in go_on])
        return True

    def _remove(self, worker: str) -> None:
        self._send(self._workers.index(worker), LEAVING)

    def _send(self, worker: int, step: int) -> None:
        self._session.run(self._messages.send, {self._messages.worker: worker, self._messages.step: step})


def _replaces_leader() -> bool:
    """Records this process as the leader on ps 0; returns whether another process was it."""
    task = current_task()
    if task is None:
        return False
    try:
        store = task.presence.connected_store(0)
        before = store.get(_LEADER)
        store.set(_LEADER, task.presence.process_id)
    except LostTaskError as error:
        raise tf.errors.UnavailableError(None, None, str(error)) from None
    return bool(before)


class SyncFollower:
    """A worker's part besides its steps: it tells the leader that it leaves, and ends if the chief is gone.

    Args:
      workers: names of all workers.
      own: position of this process's worker.
      messages: the queues.
      release: closes the worker's queue of tokens.
    """

    def __init__(self, workers: Sequence[str], own: int, messages: Messages, release: Any) -> None:
        self._workers, self._own, self._messages, self._release = list(workers), own, messages, release
        self._session: Any = None
        self._monitor: Monitor | None = None

    def watch(self, session: Any) -> None:
        """Starts to watch the chief; a later call changes the session."""
        self._session = session
        task = current_task()
        if self._monitor is None and task is not None:
            self._monitor = Monitor(task.presence, self._workers[:1], self._end)

    def finish(self) -> None:
        """Tells the leader that this worker leaves."""
        if self._monitor is not None:
            self._monitor.stop()
            self._monitor = None
        if self._session is not None:
            with contextlib.suppress(RuntimeError, *_LOST):
                feeds = {self._messages.worker: self._own, self._messages.step: LEAVING}
                self._session.run(self._messages.send, feeds)
            self._session = None

    def _end(self, chief: str) -> None:
        log.error("%s is gone, which makes the updates of synchronous training: this worker ends", chief)
        with contextlib.suppress(RuntimeError):
            self._session.run(self._release)
