"""One attempt to train to the end: a session, its loop and its ledger, which live and die together.

    attempt = Attempt(prepared, joined, step, parts, sessions, calls, run_id="", parked=threading.Event())
    attempt.run()                # in a thread that may be abandoned in a call that does not end
    attempt.is_over()            # any thread

An abandoned thread cannot touch what belongs to the next attempt.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import threading
import time
from collections.abc import Iterable
from typing import Any, NoReturn

import tensorflow.compat.v1 as v1

from ps_train.base import gc_control
from ps_train.base.errors import RefusedError
from ps_train.base.polling import poll_until
from ps_train.cluster.membership.records import ModelReady, TaskState
from ps_train.cluster.membership.step_ledger import StepLedger
from ps_train.cluster.sessions.abandonable import StuckCallDetector
from ps_train.cluster.sessions.calls import LostConnectionError
from ps_train.engine.step.local_calls import LocalCalls
from ps_train.engine.step.train_step import TrainStep
from ps_train.training.duties.duty import POLL_SECS, Duty, Start
from ps_train.training.duties.lists import Parts
from ps_train.training.joining.join import Joined
from ps_train.training.joining.prepare import Prepared
from ps_train.training.loop.burst_size import BurstScheduler
from ps_train.training.loop.local_loop import LocalLoop, RoundScheduler
from ps_train.training.loop.loop import LoopExit, TrainingLoop
from ps_train.training.loop.session import ClusterSessions, monitored_training_session
from ps_train.training.loop.step_sources import StepSource, step_source

log = logging.getLogger(__name__)

_CANCEL_SECS = 1.0
"""Seconds for calls to end after their session was closed.  A call that still connects to a ps does not end."""


@dataclasses.dataclass(frozen=True)
class Generation:
    """The generation in which a task trains: an unbroken life of the model's state on the ps.

    Attributes:
      name: a random one; "" if the task does not train in one.
      since: time at which the task entered it, in seconds of a monotonic clock.
    """

    name: str = ""
    since: float = 0.0


class Attempt:
    """One session of a task's training.

    Args:
      prepared: the task.
      joined: its connections.
      step: the graph of its replica.
      parts: its duties.
      sessions: opens the session.
      calls: finds calls that do not begin.
      run_id: id of the run in which the task trains; "" before its first session.
      parked: set when no further step is made.

    Attributes:
      session: the session; None until the model is ready in it.
      run_id: as in the argument, once the model is ready.
      made_any: True once a step has been made.
    """

    def __init__(
        self,
        prepared: Prepared,
        joined: Joined,
        step: TrainStep,
        parts: Parts,
        sessions: ClusterSessions,
        calls: StuckCallDetector,
        run_id: str,
        parked: threading.Event,
    ) -> None:
        self._prepared, self._joined, self._step, self._parts = prepared, joined, step, parts
        self._sessions, self._calls, self.run_id, self._parked = sessions, calls, run_id, parked
        self.session: v1.Session | None = None
        self._generation, self._is_lost = Generation(), False
        self._opened: tuple[v1.Session, int]
        self._ledger: StepLedger
        self._loop: TrainingLoop | None = None

    def run(self) -> None:
        """Trains until the job is over for this task; raises the error that ends the session or the training."""
        duties = self._parts.duties
        # Not a context manager: the end of the job closes no session, because closing may hang with a dead ps.
        monitored = monitored_training_session(
            self._sessions, [hook for duty in duties for hook in duty.hooks], self._open
        )
        self.session, first_step = self._opened
        steps = self._steps()
        loop = self._loop = self._new_loop(steps, first_step)
        self._calls.begin(loop)
        while True:
            self._run_loop(loop, monitored, self.session, steps)
            if not self._wait_for_more(self.session):
                return self._parts.ending.finish(self.session)

    def _open(self, session: v1.Session) -> None:
        """Makes a new session ready for steps."""
        session.run(self._step.ps.uninitialized)  # connects to every ps now, not in the first step
        gc_control.resume()
        for duty in self._parts.duties:
            duty.connected(session)
        state = self._parts.model.prepare(session)
        self._enter_generation(state.ready)
        self._step.local.prepare(session)
        for duty in self._parts.duties:
            duty.opened(session, Start(state, self._sessions, self._ledger))
        self._opened = session, state.step

    def _enter_generation(self, ready: ModelReady) -> None:
        """Makes this task train in the generation of `ready`; raises RefusedError if it belongs to another run."""
        prepared = self._prepared
        if self.run_id not in ("", ready.run_id):
            raise RefusedError(f"{prepared.task} belongs to a run that is over: the ps now serve another one.")
        self.run_id, self._generation = ready.run_id, Generation(ready.generation, time.monotonic())
        owner = f"{prepared.task}/{self._joined.heartbeat.process_id}"
        max_steps, replicas = prepared.job.max_steps, prepared.cluster.num_replicas
        self._ledger = StepLedger(
            self._joined.stores[0],
            owner,
            max_steps,
            replicas,
            ready.generation,
            prepared.job.local_step_limits.lower,
        )
        self._ledger.forget()

    def _steps(self) -> StepSource:
        shared = None if self._step.lockstep else self._ledger
        return step_source(
            self._prepared.job.max_steps,
            shared,
            self._has_ended,
            self._parts.feed.takes_ahead,
            self._while_paused,
            self._end_of_epoch,
        )

    def _end_of_epoch(self) -> int:
        """Returns the global step up to which steps may be made now; 0 for all, or if the model has no epochs."""
        return self._ledger.limit() if self._prepared.model.has_epochs else 0

    def _has_ended(self) -> bool:
        return self._parts.user_hooks.have_ended

    def _while_paused(self, is_first: bool) -> bool:
        """Waits for a checkpoint, for which all steps before it must be made; returns False if the loop must end."""
        session = self.session
        assert session is not None, "the loop runs in it"
        if is_first and self._loop is not None:
            self._loop.paused()
        if is_first and not self._step.lockstep:
            self._parts.rounds.pause(session)
        self._parts.saves.while_paused(session, is_first)
        return not self.should_stop()

    def _new_loop(self, steps: StepSource, first_step: int) -> TrainingLoop:
        prepared, step, duties = self._prepared, self._step, self._parts.duties
        job, has_rounds = prepared.job, prepared.job.has_local_steps
        cuts = job.save_steps if step.lockstep else 0
        rounds = {"round_steps": job.local_step_limits, "cuts": cuts, "round_secs": job.round_secs}
        if isinstance(step.calls, LocalCalls):
            rounds |= {"round_nodes": step.calls.round_nodes, "may_join": step.is_endless}
        bursts = (RoundScheduler if has_rounds else BurstScheduler).of(
            job,
            [duty.bursts.ends for duty in duties],
            every_step_alone=any(duty.bursts.alone for duty in duties),
            every_burst_with_hooks=(step.lockstep and not has_rounds) or any(duty.bursts.often for duty in duties),
            nodes=step.calls.nodes,
            replicas=1 if step.lockstep else prepared.cluster.num_replicas,
            **(rounds if has_rounds else {}),
        )
        wrappers = [wrap for duty in duties for wrap in duty.wrappers()]
        source, count = self._parts.feed.source(steps), self._joined.telemetry.add
        arguments = (str(prepared.task), step, source, self.should_stop, first_step, bursts, wrappers, count)
        if not has_rounds:
            return TrainingLoop(*arguments)
        return LocalLoop(*arguments, limit=self._end_of_epoch)

    def _run_loop(self, loop: TrainingLoop, monitored: Any, session: v1.Session, steps: StepSource) -> None:
        """Makes steps until no steps or no input is left, then leaves the rounds."""
        heartbeat = self._joined.heartbeat
        heartbeat.set_state(TaskState.TRAINING)
        self._parts.feed.begin(session, steps)
        reason = loop.run(monitored)
        if reason == LoopExit.STOPPED:
            self._check()
            raise LostConnectionError(self._end_of_session())
        for duty in self._parts.duties:
            duty.paused(session)
        ended = self._parts.feed.loop_ended(reason == LoopExit.INPUT) or self._parts.user_hooks.have_left
        heartbeat.set_state(TaskState.INPUT_ENDED if ended else TaskState.WAITING)
        if ended:
            log.info("%s: input ended", self._prepared.task)

    def _wait_for_more(self, session: v1.Session) -> bool:
        """Waits until there are steps for this task again; returns False when the job is over.

        Where another task ends the job, the heartbeat receives the outcome and the main thread exits.
        """
        while self._has_ended() or not self._parts.feed.has_more(lambda: self._ledger.left() > 0):
            self._check()
            for duty in self._parts.duties:
                duty.waiting(session)
            if self._parts.ending.is_over(session):
                return False
            time.sleep(POLL_SECS)
        return True

    def _check(self) -> None:
        """Ends this session if it is over; blocks if the process ends."""
        if self._joined.events.stop.is_set():
            park(self._parts.duties, self._parked)
        if self.is_over():
            raise LostConnectionError(self._end_of_session())

    def _end_of_session(self) -> str:
        return "the aggregator of its rack ended" if self._parts.rounds.is_over() else "a ps was restarted"

    def should_stop(self) -> bool:
        """Returns True if the session is over, or this process ends."""
        return self._joined.events.stop.is_set() or self.is_over()

    def is_over(self) -> bool:
        """Returns True if the generation in which this task trains has ended; any thread."""
        found = self._generation
        if self._is_lost or not found.name:
            return self._is_lost
        return self._parts.rounds.is_over() or self._joined.heartbeat.ps_liveness.generation_changed(
            found.name, found.since
        )

    @property
    def made_any(self) -> bool:
        """True once a step has been made."""
        return self._loop is not None and self._loop.made_any

    @property
    def next_step(self) -> int:
        """The global step after the running call; 0 before the first one."""
        return 0 if self._loop is None else self._loop.next_step

    @property
    def step_secs(self) -> float:
        """The usual duration of a step in seconds; 0 before it is known."""
        return 0.0 if self._loop is None else self._loop.step_secs

    def release(self) -> None:
        """Ends what duties do in the lost session, then all calls that still run in it."""
        self.session, self._is_lost, group = None, True, self._sessions.group
        told(lambda duty: duty.lost(), self._parts.duties)
        group.close()
        poll_until(group.is_idle, time.monotonic() + _CANCEL_SECS, POLL_SECS)


def told(tell: Any, duties: Iterable[Duty]) -> None:
    """Tells all duties in their order, also those after one that raises; the last error is raised at the end."""
    with contextlib.ExitStack() as stack:
        for duty in reversed(list(duties)):
            stack.callback(tell, duty)


def park(duties: Iterable[Duty], parked: threading.Event) -> NoReturn:
    """Blocks the calling thread for ever; the main thread ends the process."""
    parked.set()
    for duty in duties:
        duty.parked()
    while True:
        threading.Event().wait()
