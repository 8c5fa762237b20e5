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

from ps_train.cluster import garbage
from ps_train.cluster.board import cause_of
from ps_train.cluster.budget import Budget
from ps_train.cluster.notices import INPUT_ENDED, RECOVERING, TRAINING, WAITING, Ready
from ps_train.cluster.server import device_of, own_config, session_config, start_server
from ps_train.data.shard import derived_seed
from ps_train.errors import LostTaskError, RefusedError, UnreachableError
from ps_train.faults import slowness
from ps_train.graph.step import build_step
from ps_train.hooks.ticket import TicketHook
from ps_train.roles.attempt import attempt
from ps_train.roles.call_watch import CallWatch
from ps_train.roles.clocks import Clocks
from ps_train.roles.input import Input
from ps_train.roles.loop import INPUT, STEPS, STOPPED, LockstepPace, Loop, Pace
from ps_train.roles.rhythm import Rhythm
from ps_train.roles.scoring import Helper
from ps_train.roles.session import LOST, LostConnectionError, LostInputError, Sessions, agree_with_chief, await_ready
from ps_train.roles.setting import Setting
from ps_train.roles.shares import Shares
from ps_train.updates.base import Replica

log = logging.getLogger(__name__)

POLL_SECS = 0.1
BRIEF = v1.RunOptions(timeout_in_ms=3000)
_BARREN = 5
"""How many sessions in turn may be lost before a single step was made."""

_CANCEL_SECS = 1.0
"""A call may take so long to end after its session was closed; one that still connects to a ps does not end."""


@dataclasses.dataclass(frozen=True)
class World:
    """The unbroken state in which a task trains (see `lives.py`), the run it is of, and since when it has trained."""

    name: str
    run: str
    since: float


class Training:
    """Any worker; what is the same for the chief."""

    def __init__(self, setting: Setting) -> None:
        self._s = setting
        self._session: v1.Session | None = None
        self._loop: Loop | None = None
        self._world = World("", "", 0.0)
        self._barren = 0
        self._input_open = self._input_ended = False
        self._at_rest = threading.Event()
        self._helper = Helper(setting)
        self.begun = False

    def run(self) -> None:
        """Trains until the job has no more for this worker; raises what goes wrong."""
        job, cluster, task = self._s.job, self._s.cluster, self._s.task
        self._agree()
        server = start_server(cluster.address(task), job)
        replica = self._replica = Replica.of(cluster, task)
        self._step = build_step(
            job, self._s.model, self._s.source, self._s.traced, self._s.plan, replica, device_of(task)
        )
        own = own_config(cluster, task, job)
        self._input = Input(server.target, own, self._step)
        self._calls = CallWatch(self._input.begun_calls, job.recovery_secs)
        sharers = replica.declared
        self._shares = Shares(self._step, replica, job, sharers, self._input.begin) if self._step.leased else None
        with self._step.graph.as_default():
            hooks = [*self._hooks(), *self._hooks_of_shares()]
            self._step.graph.finalize()
        while True:
            try:
                return self._attempt(server.target, hooks)
            except (*LOST, LostConnectionError, LostTaskError) as error:
                if isinstance(error, LostInputError):
                    self._input_open = False
                    log.warning("%s: its input was interrupted when a ps was lost, and begins anew", self._s.task)
                self._outlive(cause_of(error))

    def _attempt(self, target: str, hooks: list[Any]) -> None:
        """Trains in one session, and in a thread of its own: a call with a ps that fell silent does not end."""
        known = self._s.heart.lives.incarnations()  # before the addresses: else one that moves now would go unnoticed
        config = session_config(self._s.whereabouts.look(), self._s.task, self._s.job)
        sessions = self._sessions = Sessions(target, self._step.graph, config, self._prepare)

        def train() -> None:
            with self._step.graph.as_default():
                self._live(sessions, hooks)

        def has_ended() -> bool:
            replaced = self._has_ended() or self._s.heart.lives.incarnations() != known
            return replaced or self._calls.is_stuck(time.monotonic())

        attempt(train, sessions.group, has_ended)

    def _live(self, sessions: Sessions, hooks: list[Any]) -> None:
        """Trains in one session."""
        # Not a context manager: what ends the job closes nothing, since closing may hang with a dead ps.
        session = v1.train.MonitoredSession(sessions, hooks)
        self._session = sessions.session
        self._loop = self._new_loop(sessions.first_step)
        self._calls.begin(self._loop)
        self._train(session)

    def _outlive(self, cause: str) -> None:
        """Comes to rest after the session was lost; returns when all ps answer."""
        log.debug("the session is given up: %s", cause)
        self._barren = 0 if self._loop is not None and self._loop.made_any else self._barren + 1
        self._session = self._loop = None
        self._world = dataclasses.replace(self._world, name="")
        self._let_go()
        if self._barren >= _BARREN:
            names = ", ".join(board.name for board in self._s.boards)
            raise UnreachableError(f"{_BARREN} sessions in turn were lost before a step was made with {names}: {cause}")
        since = time.monotonic()
        self._s.heart.knock()
        with contextlib.suppress(LostTaskError):
            self._s.heart.say(RECOVERING)
        while not self._s.heart.lives.answering(since):
            if self._s.attention.stop.is_set():
                self._rest()
            time.sleep(POLL_SECS)
        self._s.heart.say(RECOVERING)  # on ps 0, which may be a new one

    def _let_go(self) -> None:
        """Ends what is still under way in the lost session: nothing of it may reach a ps any more."""
        if self._shares is not None:
            self._shares.drop()  # its input may have threads that use the session's device
        group = self._sessions.group
        group.close()
        deadline = time.monotonic() + _CANCEL_SECS
        while not group.is_quiet() and time.monotonic() < deadline:
            time.sleep(POLL_SECS)

    def _has_ended(self) -> bool:
        """Whether the world in which this task trains is no more."""
        return self._world.name != "" and self._s.heart.lives.left(self._world.name, self._world.since)

    def _rests(self) -> bool:
        return self._s.attention.stop.is_set() or self._has_ended()

    def _agree(self) -> None:
        """Before anything is built: is this the chief's job?"""
        timeout_secs = self._s.job.startup_timeout_secs
        agree_with_chief(self._s.boards[0], self._s.description, self._s.cluster, str(self._s.task), timeout_secs)

    def _hooks(self) -> list[Any]:
        return []

    def _hooks_of_shares(self) -> list[Any]:
        ticket = self._step.batches.ticket
        return [TicketHook(ticket, self._shares.followed)] if self._shares and ticket is not None else []

    def _prepare(self, session: v1.Session) -> int:
        """Makes the new session ready to train; returns the global step at which it begins."""
        session.run(self._step.uninitialised)  # connects to every ps now, not in the first step
        garbage.begin()
        ready = await_ready(self._s.boards, str(self._s.cluster.chief), self._s.job.startup_timeout_secs)
        self._enter(ready)
        step = int(session.run(self._step.global_step))
        self._step.local.prepare(session)
        self._open_input(step)
        return step

    def _enter(self, ready: Ready) -> None:
        """This task trains in that world from now on."""
        if self._world.run not in ("", ready.run):
            raise RefusedError(f"{self._s.task} belongs to a run that is over: the ps now serve another one.")
        self._world = World(ready.world, ready.run, time.monotonic())
        self._budget = Budget(self._s.boards[0], self._s.job.max_steps, self._s.cluster.num_replicas, world=ready.world)

    def _open_input(self, step: int) -> None:
        """Once: the input is this process's own and outlives a session.  The order of the examples depends on the
        step, so that a resumed job does not begin with the same ones."""
        if self._input_open or self._shares:  # what is shared is opened whenever the loop begins
            return
        self._input_open = True
        seed = derived_seed(self._s.job.seed, "shuffle", self._replica.index, step)
        self._input.begin(seed)

    def _train(self, session: Any) -> None:
        self.begun = True
        while True:
            self._wait_for_more(self._run_loop(session))

    def _run_loop(self, session: Any) -> str:
        """Steps until there are none left for now; then nobody waits for this worker.  Returns why."""
        self._s.heart.say(TRAINING)
        assert self._loop is not None, "there is one for each session"
        if self._shares is not None and self._session is not None:
            self._shares.begin(self._session, self._pace())
        why = self._loop.run(session)
        if why == STOPPED and not self._s.attention.stop.is_set():
            raise LostConnectionError("a ps was restarted")
        if why == STOPPED:
            self._rest()
        self._leave()
        if self._shares is not None:  # there may be nothing to take now, but later
            why = INPUT if self._shares.is_over() else STEPS
        self._s.heart.say(INPUT_ENDED if why == INPUT else WAITING)
        self._input_ended = why == INPUT
        if why == INPUT:
            log.info("%s: input ended", self._s.task)
        return why

    def _leave(self) -> None:
        """Nobody waits for this task any more.  As it lives nobody else would see to that: it tries again where a busy
        ps did not answer in time."""
        while not self._dismiss(self._replica.index) and not self._has_ended():
            time.sleep(POLL_SECS)

    def _dismiss(self, index: int, session: v1.Session | None = None) -> bool:
        """Sees to it that no step waits for a replica, until it makes one again.  Whether that was possible."""
        ops, session = self._step.ops, session or self._session
        if ops.leave is None or session is None:
            return True
        try:
            session.run(ops.leave, {ops.leaver: index}, options=BRIEF)
        except LOST as error:
            log.debug("replica %d could not be dismissed: %s", index, cause_of(error))
            return False
        return True

    @property
    def _save_steps(self) -> int:
        """A burst must end at multiples of this, if it is not 0."""
        return 0

    def _pace(self) -> Pace:
        return LockstepPace(self._s.job.max_steps) if self._step.lockstep else self._budget

    def _new_loop(self, first_step: int) -> Loop:
        pace = self._shares or self._pace()
        job = self._s.job
        name, save_steps, rhythm = str(self._s.task), self._save_steps, Rhythm.of(job)
        slow = slowness(job.inject, name)
        return Loop(name, self._step, pace, self._rests, first_step, save_steps, rhythm, self._clocks, slow)

    @functools.cached_property
    def _clocks(self) -> Clocks | None:
        return Clocks(self._s.job.clocks_dir, str(self._s.task)) if self._s.job.clocks_dir else None

    def come_to_rest(self, within_secs: float) -> bool:
        """From another thread: makes no steps any more; returns whether that was so in time."""
        self._s.attention.stop.set()
        return self._at_rest.wait(within_secs)

    def depart(self, within_secs: float) -> None:
        """From another thread: makes no steps any more, and nobody waits for this worker; or the job has ended."""
        deadline = time.monotonic() + within_secs
        self._s.attention.stop.set()
        while self.begun and self._s.attention.verdict is None and time.monotonic() < deadline:
            if self._at_rest.wait(POLL_SECS):
                self._dismiss(self._replica.index)
                return

    def _rest(self) -> None:
        """Does nothing any more; the main thread ends the process."""
        self._at_rest.set()
        while True:
            time.sleep(60)

    def _wait_for_more(self, why: str) -> None:
        """Returns when steps are handed out again; else the heart hears of the outcome and the main thread exits."""
        while not self._is_more(why):
            if self._s.attention.stop.is_set():
                self._rest()
            if self._has_ended():
                raise LostConnectionError("a ps was restarted")
            self._helper.look(self._sessions)
            time.sleep(POLL_SECS)

    def _is_more(self, why: str) -> bool:
        """Whether there are steps for this worker after its loop has ended."""
        if self._shares is not None:
            return self._shares.are_there() and (self._step.lockstep or self._steps_are_left())
        return why != INPUT and not self._step.lockstep and self._steps_are_left()

    def _steps_are_left(self) -> bool:
        return self._budget.granted() < self._s.job.max_steps
