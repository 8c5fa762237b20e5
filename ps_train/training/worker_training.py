"""What the training thread of a worker does: builds the graph, opens the session, runs the loop until all is done.

When a ps is lost the session is given up, and training goes on in a new one as soon as all ps answer and the chief has
seen to it that the model is there.  How long that may take is watched by the heart.

The chief does more; see `chief.py`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import threading
import time
from typing import Any

import tensorflow.compat.v1 as v1

from ps_train.cluster.server import device_of, own_config, session_config, start_server
from ps_train.config.fault_spec import slowdown_factor
from ps_train.coordination.kv_store import cause_of
from ps_train.coordination.records import INPUT_ENDED, RECOVERING, TRAINING, WAITING, ModelReady
from ps_train.coordination.step_budget import StepBudget
from ps_train.data.pipeline import derived_seed
from ps_train.errors import LostTaskError, RefusedError, UnreachableError
from ps_train.graph.spec import GraphSpec
from ps_train.graph.train_step import build_train_step
from ps_train.hooks.shard_progress_hook import ShardProgressHook
from ps_train.training.abandonable import run_abandonable
from ps_train.training.burst_size import BurstScheduler
from ps_train.training.context import Generation, TrainingContext
from ps_train.training.duties import Duties
from ps_train.training.final_evaluation import EvalWorker
from ps_train.training.input import Input
from ps_train.training.loop import INPUT, STEPS, STOPPED, LockstepSource, StepSource, TrainingLoop
from ps_train.training.session import (
    PS_LOST_ERRORS,
    LostConnectionError,
    LostInputError,
    TrainingSessionCreator,
)
from ps_train.training.shard_client import ShardClient
from ps_train.training.step_timeline import StepTimeline
from ps_train.training.stuck_calls import StuckCallDetector
from ps_train.updates.base import Replica

log = logging.getLogger(__name__)

POLL_SECS = 0.1
SHORT_CALL = v1.RunOptions(timeout_in_ms=3000)
_MAX_SESSIONS_WITHOUT_STEP = 5
"""How many sessions in turn may be lost before a single step was made."""

_CANCEL_SECS = 1.0
"""A call may take so long to end after its session was closed; one that still connects to a ps does not end."""


class WorkerTraining:
    """Trains one replica, in one session after the other.

    Attributes:
      duties: the part that differs between a worker and the chief; sets itself.
    """

    duties: Duties

    def __init__(self, context: TrainingContext) -> None:
        self.context = context
        self.session: v1.Session | None = None
        self._loop: TrainingLoop | None = None
        self._generation = Generation("", "", 0.0)
        self._sessions_without_step = 0
        self._input_open = self.input_ended = False
        self._parked = threading.Event()
        self._eval_worker = EvalWorker(context)
        self.begun = False

    def run(self) -> None:
        """Trains until the job has no more for this worker; raises what goes wrong."""
        job, cluster, task = self.context.job, self.context.cluster, self.context.task
        self.duties.agree()
        server = start_server(cluster.address(task), job)
        replica = self.replica = Replica.of(cluster, task)
        context = self.context
        spec = GraphSpec(job, context.model, context.source, context.variables, context.plan, replica, device_of(task))
        self.step = build_train_step(spec)
        own = own_config(cluster, task, job)
        self._input = Input(server.target, own, self.step)
        self._calls = StuckCallDetector(self._input.begun_calls, job.recovery_secs)
        sharers = replica.declared
        self.shard_client = (
            ShardClient(self.step, replica, job, sharers, self._input.begin) if self.step.assigned else None
        )
        with self.step.graph.as_default():
            hooks = [*self.duties.hooks(), *self._shard_hooks()]
            self.step.graph.finalize()
        while True:
            try:
                return self._attempt(server.target, hooks)
            except (*PS_LOST_ERRORS, LostConnectionError, LostTaskError) as error:
                if isinstance(error, LostInputError):
                    self._input_open = False
                    log.warning("%s: its input was interrupted when a ps was lost, and begins anew", self.context.task)
                self._wait_for_ps(cause_of(error))

    def _attempt(self, target: str, hooks: list[Any]) -> None:
        """Trains in one session, and in a thread of its own: a call with a ps that fell silent does not end."""
        # Before the addresses: else a ps that moves now would go unnoticed.
        known = self.context.heartbeat.lives.incarnations()
        config = session_config(self.context.resolver.current(), self.context.task, self.context.job)
        sessions = self.sessions = TrainingSessionCreator(target, self.step.graph, config, self.duties.prepare)

        def train() -> None:
            with self.step.graph.as_default():
                self._train_in_session(sessions, hooks)

        def has_ended() -> bool:
            replaced = self.session_is_over() or self.context.heartbeat.lives.incarnations() != known
            return replaced or self._calls.is_stuck(time.monotonic())

        run_abandonable(train, sessions.group, has_ended)

    def _train_in_session(self, sessions: TrainingSessionCreator, hooks: list[Any]) -> None:
        """Trains in one session."""
        # Not a context manager: what ends the job closes nothing, since closing may hang with a dead ps.
        session = v1.train.MonitoredSession(sessions, hooks)
        self.session = sessions.session
        self._loop = self._new_loop(sessions.first_step)
        self._calls.begin(self._loop)
        self.duties.train(session)

    def _wait_for_ps(self, cause: str) -> None:
        """Comes to rest after the session was lost; returns when all ps answer."""
        log.debug("the session is given up: %s", cause)
        self._sessions_without_step = (
            0 if self._loop is not None and self._loop.made_any else self._sessions_without_step + 1
        )
        self.session = self._loop = None
        self._generation = dataclasses.replace(self._generation, generation="")
        self._release_session()
        if self._sessions_without_step >= _MAX_SESSIONS_WITHOUT_STEP:
            names = ", ".join(board.name for board in self.context.stores)
            raise UnreachableError(
                f"{_MAX_SESSIONS_WITHOUT_STEP} sessions in turn were lost before a step was made with {names}: {cause}"
            )
        since = time.monotonic()
        self.context.heartbeat.probe_ps()
        with contextlib.suppress(LostTaskError):
            self.context.heartbeat.set_state(RECOVERING)
        while not self.context.heartbeat.lives.all_answered_since(since):
            if self.context.events.stop.is_set():
                self.park_forever()
            time.sleep(POLL_SECS)
        self.context.heartbeat.set_state(RECOVERING)  # on ps 0, which may be a new one

    def _release_session(self) -> None:
        """Ends what is still under way in the lost session: nothing of it may reach a ps any more."""
        self.duties.before_release()
        if self.shard_client is not None:
            self.shard_client.drop()  # its input may have threads that use the session's device
        group = self.sessions.group
        group.close()
        deadline = time.monotonic() + _CANCEL_SECS
        while not group.is_idle() and time.monotonic() < deadline:
            time.sleep(POLL_SECS)

    def session_is_over(self) -> bool:
        """Whether the world in which this task trains is no more."""
        return self._generation.generation != "" and self.context.heartbeat.lives.generation_changed(
            self._generation.generation, self._generation.since
        )

    def _should_stop(self) -> bool:
        return self.context.events.stop.is_set() or self.session_is_over()

    def _shard_hooks(self) -> list[Any]:
        ticket = self.step.batches.ticket
        return (
            [ShardProgressHook(ticket, self.shard_client.step_done)] if self.shard_client and ticket is not None else []
        )

    def enter_generation(self, ready: ModelReady) -> None:
        """This task trains in that world from now on."""
        if self._generation.run_id not in ("", ready.run_id):
            raise RefusedError(f"{self.context.task} belongs to a run that is over: the ps now serve another one.")
        self._generation = Generation(ready.generation, ready.run_id, time.monotonic())
        self.budget = StepBudget(
            self.context.stores[0],
            self.context.job.max_steps,
            self.context.cluster.num_replicas,
            world=ready.generation,
        )

    def open_input(self, step: int) -> None:
        """Once: the input is this process's own and outlives a session.  The order of the examples depends on the
        step, so that a resumed job does not begin with the same ones."""
        if self._input_open or self.shard_client:  # what is shared is opened whenever the loop begins
            return
        self._input_open = True
        seed = derived_seed(self.context.job.seed, "shuffle", self.replica.index, step)
        self._input.begin(seed)

    def run_loop(self, session: Any) -> str:
        """Steps until there are none left for now; then nobody waits for this worker.  Returns why."""
        self.context.heartbeat.set_state(TRAINING)
        assert self._loop is not None, "there is one for each session"
        if self.shard_client is not None and self.session is not None:
            self.shard_client.begin(self.session, self._step_source())
        why = self._loop.run(session)
        if why == STOPPED and not self.context.events.stop.is_set():
            raise LostConnectionError("a ps was restarted")
        if why == STOPPED:
            self.park_forever()
        self._leave()
        if self.shard_client is not None:  # there may be nothing to take now, but later
            why = INPUT if self.shard_client.is_over() else STEPS
        self.context.heartbeat.set_state(INPUT_ENDED if why == INPUT else WAITING)
        self.input_ended = why == INPUT
        if why == INPUT:
            log.info("%s: input ended", self.context.task)
        return why

    def _leave(self) -> None:
        """Nobody waits for this task any more.  As it lives nobody else would see to that: it tries again where a busy
        ps did not answer in time."""
        while not self.remove_replica(self.replica.index) and not self.session_is_over():
            time.sleep(POLL_SECS)

    def remove_replica(self, index: int, session: v1.Session | None = None) -> bool:
        """Sees to it that no step waits for a replica, until it makes one again.  Whether that was possible."""
        ops, session = self.step.ops, session or self.session
        if ops.remove is None or session is None:
            return True
        try:
            session.run(ops.remove, {ops.removed_replica: index}, options=SHORT_CALL)
        except PS_LOST_ERRORS as error:
            log.debug("replica %d could not be dismissed: %s", index, cause_of(error))
            return False
        return True

    def _step_source(self) -> StepSource:
        return LockstepSource(self.context.job.max_steps) if self.step.lockstep else self.budget

    def _new_loop(self, first_step: int) -> TrainingLoop:
        pace = self.shard_client or self._step_source()
        job = self.context.job
        name, save_steps, rhythm = str(self.context.task), self.duties.save_steps, BurstScheduler.of(job)
        slow = slowdown_factor(job.inject, name)
        return TrainingLoop(
            name, self.step, pace, self._should_stop, first_step, save_steps, rhythm, self._timeline, slow
        )

    @functools.cached_property
    def _timeline(self) -> StepTimeline | None:
        return (
            StepTimeline(self.context.job.clocks_dir, str(self.context.task)) if self.context.job.clocks_dir else None
        )

    def park(self, within_secs: float) -> bool:
        """From another thread: makes no steps any more; returns whether that was so in time."""
        self.context.events.stop.set()
        return self._parked.wait(within_secs)

    def leave_job(self, within_secs: float) -> None:
        """From another thread: makes no steps any more, and nobody waits for this worker; or the job has ended."""
        deadline = time.monotonic() + within_secs
        self.context.events.stop.set()
        while self.begun and self.context.events.terminal_error is None and time.monotonic() < deadline:
            if self._parked.wait(POLL_SECS):
                self.remove_replica(self.replica.index)
                return

    def park_forever(self) -> None:
        """Does nothing any more; the main thread ends the process."""
        self._parked.set()
        while True:
            time.sleep(60)

    def wait_for_more(self, why: str) -> None:
        """Returns when steps are handed out again; else the heart hears of the outcome and the main thread exits."""
        while not self.has_more_steps(why):
            if self.context.events.stop.is_set():
                self.park_forever()
            if self.session_is_over():
                raise LostConnectionError("a ps was restarted")
            self._eval_worker.update(self.sessions)
            time.sleep(POLL_SECS)

    def has_more_steps(self, why: str) -> bool:
        """Whether there are steps for this worker after its loop has ended."""
        if self.shard_client is not None:
            return self.shard_client.has_work() and (self.step.lockstep or self._steps_left())
        return why != INPUT and not self.step.lockstep and self._steps_left()

    def _steps_left(self) -> bool:
        return self.budget.allocated() < self.context.job.max_steps
