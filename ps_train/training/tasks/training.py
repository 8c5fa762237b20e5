"""The training thread of a task: it agrees with the others, builds the graph, and trains in one session after another.

    training = Training(prepared, joined, console, server, role)
    training.run()                         # the training thread
    training.stop(within_secs=6)           # the main thread: a last checkpoint
    training.ended(End("done"))

When a ps is lost, the session is abandoned.  Training continues in a new session as soon as all ps answer and the chief
has restored the model.  The heartbeat limits the time that this may take.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence

import tensorflow.compat.v1 as v1

from ps_train.base.console import Console
from ps_train.base.errors import LostTaskError, UnreachableError
from ps_train.cluster.membership.kv_store import cause_of
from ps_train.cluster.membership.records import TaskState
from ps_train.cluster.sessions.abandonable import StuckCallDetector, run_abandonable
from ps_train.cluster.sessions.calls import (
    PS_LOST_ERRORS,
    LostConnectionError,
    LostInputError,
    SessionGroup,
    preparation_secs_of,
)
from ps_train.cluster.sessions.server import own_config, session_config, start_server
from ps_train.engine.step.train_step import TrainStep
from ps_train.training.duties.duty import POLL_SECS, Duty, End, Setting
from ps_train.training.duties.lists import Parts, Role
from ps_train.training.joining.agreement import agree
from ps_train.training.joining.join import Joined
from ps_train.training.joining.prepare import Prepared
from ps_train.training.loop.input import Input
from ps_train.training.loop.session import ClusterSessions
from ps_train.training.tasks.attempt import Attempt, park, told

log = logging.getLogger(__name__)

_MAX_SESSIONS_WITHOUT_STEP = 5
"""The maximum number of consecutive sessions that are lost before a step was made."""


class Training:
    """One replica in training.

    Args:
      prepared: the task.
      joined: its connections to the job.
      console: where the chief writes.
      server: the server of this process if it is also a ps; None: one is started.
      role: makes the duties.
    """

    def __init__(
        self, prepared: Prepared, joined: Joined, console: Console, server: v1.train.Server | None, role: Role
    ) -> None:
        self.prepared, self.joined = prepared, joined
        self._console, self._server, self._role = console, server, role
        self._duties: Sequence[Duty] = ()
        self._attempt: Attempt | None = None
        self._run_id, self._sessions_without_step = "", 0
        self._parked = threading.Event()

    def run(self) -> None:
        """Trains until the job has no more steps for this worker; raises the error that ends the training."""
        step, parts = self._build()
        while True:
            try:
                return self._train_in_session(step, parts)
            except LostInputError as error:
                parts.feed.interrupted()
                cause = cause_of(error)
            except (*PS_LOST_ERRORS, LostConnectionError, LostTaskError) as error:
                cause = cause_of(error)
            self._lose_session(cause)
            self._wait_for_ps()

    def _build(self) -> tuple[TrainStep, Parts]:
        """Agrees with the other tasks, and builds the graph of the step with all duties."""
        prepared, joined = self.prepared, self.joined
        job, task, cluster = prepared.job, prepared.task, prepared.cluster
        agreed = agree(prepared, joined, self._role.planned)
        server = self._server or start_server(cluster.address(task), job, prepared.towers.cpus)
        self._role.agreed(agreed)
        step, secs = self._role.build(agreed)
        source = Input(server.target, own_config(cluster, task, job), step.worker.batches, step.worker.calls_begun)
        self._master, self._preparation_secs = server.target, preparation_secs_of(secs)
        self._calls = StuckCallDetector(source.begun_calls, job.recovery_timeout_secs, self._preparation_secs)
        with step.graph.as_default():
            parts = self._role.parts(Setting(prepared, agreed, joined, self._console, step, source, self))
            step.graph.finalize()
        self._duties = parts.duties
        return step, parts

    def _train_in_session(self, step: TrainStep, parts: Parts) -> None:
        """Trains in one session, in a separate thread: a call to a ps that fell silent does not end."""
        joined, liveness = self.joined, self.joined.heartbeat.ps_liveness
        # Read before the addresses: otherwise a ps that moves now would go unnoticed.
        known, further = liveness.incarnations(), parts.rounds.meet()
        if joined.events.stop.is_set():
            self._park()
        config = session_config(joined.resolver.current(), self.prepared.task, self.prepared.job, further)
        sessions = ClusterSessions(self._master, config, SessionGroup(self._preparation_secs))
        attempt = self._attempt = Attempt(
            self.prepared, joined, step, parts, sessions, self._calls, self._run_id, self._parked
        )

        def train() -> None:
            with step.graph.as_default():
                attempt.run()

        def has_ended() -> bool:
            is_replaced = attempt.is_over() or parts.rounds.is_over() or liveness.incarnations() != known
            return is_replaced or self._calls.is_stuck(time.monotonic())

        run_abandonable(train, sessions.group, has_ended)

    def _lose_session(self, cause: str) -> None:
        """Ends a lost session: none of its calls may reach a ps later."""
        log.info("%s drops its session and opens another one: %s", self.prepared.task, cause)
        attempt, self._attempt = self._attempt, None
        has_made_any = attempt is not None and attempt.made_any
        self._sessions_without_step = 0 if has_made_any else self._sessions_without_step + 1
        if attempt is not None:
            self._run_id = attempt.run_id
            attempt.release()
        if self._sessions_without_step >= _MAX_SESSIONS_WITHOUT_STEP:
            names = ", ".join(store.name for store in self.joined.stores)
            raise UnreachableError(
                f"{_MAX_SESSIONS_WITHOUT_STEP} consecutive sessions with {names} were lost before a step was made: "
                f"{cause}"
            )

    def _wait_for_ps(self) -> None:
        """Returns when all ps answer."""
        since, heartbeat = time.monotonic(), self.joined.heartbeat
        heartbeat.probe_ps()
        heartbeat.tell_state(TaskState.RECOVERING)
        # Told again, since ps 0 may be a new process; it may also be lost once more.
        while not (heartbeat.ps_liveness.all_answered_since(since) and heartbeat.tell_state(TaskState.RECOVERING)):
            if self.joined.events.stop.is_set():
                self._park()
            time.sleep(POLL_SECS)

    def _park(self) -> None:
        park(self._duties, self._parked)

    # Of the present session, for duties and for the main thread:

    @property
    def session(self) -> v1.Session | None:
        """The present session, once it is open."""
        attempt = self._attempt
        return None if attempt is None else attempt.session

    @property
    def next_step(self) -> int:
        """The global step after the running call; 0 before the first one."""
        attempt = self._attempt
        return 0 if attempt is None else attempt.next_step

    @property
    def step_secs(self) -> float:
        """The usual duration of a step in seconds; 0 before it is known."""
        attempt = self._attempt
        return 0.0 if attempt is None else attempt.step_secs

    def session_is_over(self) -> bool:
        """Returns True if there is a session that is over."""
        attempt = self._attempt
        return attempt is not None and attempt.is_over()

    def should_stop(self) -> bool:
        """Returns True if the session is over, or this process ends."""
        return self.joined.events.stop.is_set() or self.session_is_over()

    # The main thread:

    @property
    def has_begun(self) -> bool:
        """True if steps are made, or were."""
        return self._run_id != "" or self.session is not None

    def park(self, within_secs: float) -> bool:
        """Stops making steps; returns True if training stopped in time."""
        self.joined.events.stop.set()
        return self._parked.wait(within_secs)

    def leave_job(self, within_secs: float) -> None:
        """Stops making steps, and removes this worker from the rounds; returns early when the job has ended."""
        deadline = time.monotonic() + within_secs
        self.joined.events.stop.set()
        while self.has_begun and self.joined.events.terminal_error is None and time.monotonic() < deadline:
            if self._parked.wait(POLL_SECS):
                told(lambda duty: duty.left(), self._duties)
                return

    def stop(self, within_secs: float) -> None:
        """Has saved what must be kept of a job that ends early; raises SaveError if that is not possible."""
        told(lambda duty: duty.stopped(within_secs), self._duties)

    def done(self) -> None:
        """Tells all duties that another task has ended the job well."""
        told(lambda duty: duty.done(self.session), self._duties)

    def ended(self, end: End) -> None:
        """Tells all duties that the training is over."""
        told(lambda duty: duty.ended(end), self._duties)
