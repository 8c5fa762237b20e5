"""What the training thread of a worker does: builds the graph, opens the session, runs the loop until all is done.

The chief does more; see `chief.py`.
"""

from __future__ import annotations

import dataclasses
import functools
import gc
import logging
import time
from collections.abc import Mapping
from typing import Any

import tensorflow.compat.v1 as v1

from ps_train.cluster.board import Board, cause_of
from ps_train.cluster.budget import Budget
from ps_train.cluster.notices import INPUT_ENDED, TRAINING, WAITING
from ps_train.cluster.server import device_of, session_config, start_server
from ps_train.cluster.spec import Cluster
from ps_train.config import Job, Task
from ps_train.console import Console
from ps_train.data.shard import Source, derived_seed
from ps_train.graph.plan import Plan
from ps_train.graph.step import build_step
from ps_train.graph.trace import Traced
from ps_train.model import Model
from ps_train.roles.clocks import Clocks
from ps_train.roles.heart import Heart
from ps_train.roles.loop import INPUT, STOPPED, LockstepPace, Loop, LostConnectionError, Pace
from ps_train.roles.session import LOST, Sessions, agree_with_chief, await_ready, lost_ps
from ps_train.roles.supervise import Attention
from ps_train.updates.base import Replica

log = logging.getLogger(__name__)

POLL_SECS = 0.1
BRIEF = v1.RunOptions(timeout_in_ms=3000)


@dataclasses.dataclass(frozen=True)
class Setting:
    """All that a training thread works with."""

    job: Job
    task: Task
    cluster: Cluster
    model: Model
    source: Source
    traced: Traced
    plan: Plan
    description: Mapping[str, Any]
    boards: list[Board]
    heart: Heart
    attention: Attention
    console: Console
    directory: str


class Training:
    """Any worker; what is the same for the chief."""

    def __init__(self, setting: Setting) -> None:
        self._s = setting
        self._budget = Budget(setting.boards[0], setting.job.max_steps, setting.cluster.num_replicas)
        self._input_ended = False
        self.begun = False

    def run(self) -> None:
        """Trains until the job has no more for this worker; raises what goes wrong."""
        job, cluster, task = self._s.job, self._s.cluster, self._s.task
        self._agree()
        server = start_server(cluster.address(task), job)
        replica = self._replica = Replica(cluster.replica_index(task), cluster.num_replicas)
        self._step = build_step(
            job, self._s.model, self._s.source, self._s.traced, self._s.plan, replica, device_of(task)
        )
        with self._step.graph.as_default():
            hooks = self._hooks()
            self._step.graph.finalize()
            config = session_config(cluster, task, job)
            self._sessions = Sessions(server.target, self._step.graph, config, self._prepare, self._s.boards)
            try:
                # Not a context manager: what ends the job closes nothing, since closing may hang with a dead ps.
                session = v1.train.MonitoredSession(self._sessions, hooks)
                self._train(session)
            except (*LOST, LostConnectionError) as error:
                raise lost_ps(self._s.boards, cause_of(error)) from None

    def _agree(self) -> None:
        """Before anything is built: is this the chief's job?"""
        timeout_secs = self._s.job.startup_timeout_secs
        agree_with_chief(self._s.boards[0], self._s.description, self._s.cluster, str(self._s.task), timeout_secs)

    def _hooks(self) -> list[Any]:
        return []

    def _prepare(self, session: v1.Session) -> int:
        """Makes the new session ready to train; returns the global step at which it begins."""
        session.run(self._step.uninitialised)  # connects to every ps now, not in the first step
        freeze_garbage()
        chief = str(self._s.cluster.chief)
        ready = await_ready(self._s.boards[0], chief, self._s.job.startup_timeout_secs)
        self._open_input(session, ready.step)
        return ready.step

    def _open_input(self, session: v1.Session, step: int) -> None:
        """The order of the examples depends on the step, so that a resumed job does not begin with the same ones."""
        seed = derived_seed(self._s.job.seed, "shuffle", self._s.cluster.replica_index(self._s.task), step)
        session.run(self._step.batches.initializer, self._step.batches.feeds(seed))

    def _train(self, session: Any) -> None:
        self.begun = True
        while True:
            self._wait_for_more(self._run_loop(session))

    def _run_loop(self, session: Any) -> str:
        """Steps until there are none left for now; then nobody waits for this worker.  Returns why."""
        self._s.heart.say(TRAINING)
        why = self._loop.run(session)
        if why == STOPPED:
            self._rest()
        self._dismiss(self._replica.index)
        self._s.heart.say(INPUT_ENDED if why == INPUT else WAITING)
        if why == INPUT:
            self._input_ended = True
            log.info("%s: input ended", self._s.task)
        return why

    def _dismiss(self, index: int, session: v1.Session | None = None) -> None:
        """Sees to it that no step waits for a replica, until it makes one again."""
        ops, session = self._step.ops, session or self._sessions.session
        if ops.leave is None:
            return
        assert session is not None, "nobody is dismissed before training begins"
        try:
            session.run(ops.leave, {ops.leaver: index}, options=BRIEF)
        except LOST as error:
            log.debug("replica %d could not be dismissed: %s", index, cause_of(error))

    @property
    def _save_steps(self) -> int:
        """A burst must end at multiples of this, if it is not 0."""
        return 0

    @functools.cached_property
    def _loop(self) -> Loop:
        job, first = self._s.job, self._sessions.first_step
        pace: Pace = LockstepPace(job.max_steps) if self._step.lockstep else self._budget
        clocks = Clocks(job.clocks_dir, str(self._s.task)) if job.clocks_dir else None
        return Loop(str(self._s.task), self._step, pace, self._s.attention.stop.is_set, first, self._save_steps, clocks)

    def _rest(self) -> None:
        """Does nothing any more; the main thread ends the process."""
        while True:
            time.sleep(60)

    def _wait_for_more(self, why: str) -> None:
        """Returns when steps are handed out again; else the heart hears of the outcome and the main thread exits."""
        while why == INPUT or self._step.lockstep or self._budget.granted() >= self._s.job.max_steps:
            time.sleep(POLL_SECS)


def freeze_garbage() -> None:
    """The graph's objects stay; a collector that walks them again and again slows every step."""
    gc.collect()
    gc.freeze()
