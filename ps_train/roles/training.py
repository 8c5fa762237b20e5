"""What the training thread does: builds the graph, opens the session, runs the loop, ends.

`Follower` is any worker; `Chief` also initialises, saves, and ends the job.
"""

from __future__ import annotations

import dataclasses
import gc
import logging
import time
from typing import Any

import tensorflow as tf

from ps_train.checkpoint import Checkpoints
from ps_train.cluster import notices
from ps_train.cluster.board import Board
from ps_train.cluster.budget import Budget
from ps_train.cluster.notices import Outcome, Ready
from ps_train.cluster.server import device_of, session_config, start_server
from ps_train.cluster.spec import Cluster
from ps_train.config import Job, Task
from ps_train.console import Console
from ps_train.data.shard import derived_seed
from ps_train.graph.plan import Plan
from ps_train.graph.step import Step, build_step
from ps_train.graph.trace import Traced
from ps_train.hooks.finite import FiniteHook
from ps_train.hooks.progress import ProgressHook
from ps_train.hooks.reading import Reading
from ps_train.hooks.save import SaveHook
from ps_train.model import Model
from ps_train.roles import evaluator
from ps_train.roles.finish import Living, Others, make_result, wait_until, write_result
from ps_train.roles.heart import Heart, seats_of
from ps_train.roles.loop import INPUT, STEPS, STOPPED, LockstepPace, Loop, Pace
from ps_train.roles.session import Sessions, await_ready, lost_ps
from ps_train.roles.supervise import Attention
from ps_train.updates.base import Replica

log = logging.getLogger(__name__)
v1 = tf.compat.v1

_POLL_SECS = 0.1


@dataclasses.dataclass(frozen=True)
class Setting:
    """All that a training thread works with."""

    job: Job
    task: Task
    cluster: Cluster
    model: Model
    data: Any
    traced: Traced
    plan: Plan
    boards: list[Board]
    heart: Heart
    attention: Attention
    console: Console
    directory: str


class Training:
    """A worker that is not the chief."""

    def __init__(self, setting: Setting) -> None:
        self._s = setting
        self._budget = Budget(setting.boards[0], setting.job.max_steps, setting.cluster.num_replicas)
        self._input_ended = False

    def run(self) -> None:
        """Trains until the job has no more for this worker; raises what goes wrong."""
        job, cluster, task = self._s.job, self._s.cluster, self._s.task
        server = start_server(cluster.address(task), job)
        replica = Replica(cluster.replica_index(task), cluster.num_replicas)
        self._step = build_step(job, self._s.model, self._s.data, self._s.traced, self._s.plan, replica, device_of(task))
        with self._step.graph.as_default():
            reading, hooks = self._hooks()
            self._prepare_graph()
            self._step.graph.finalize()
            self._before_session()
            config = session_config(cluster, task, job)
            self._sessions = Sessions(server.target, self._step.graph, config, self._prepare, self._s.boards)
            try:
                # Not a context manager: what ends the job closes nothing, since closing may hang with a dead ps.
                session = v1.train.MonitoredSession(self._sessions, hooks)
                self._train(session, reading)
            except (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.DeadlineExceededError) as error:
                raise lost_ps(self._s.boards, error.message.splitlines()[0]) from None

    def _hooks(self) -> tuple[Reading, list[Any]]:
        reading = Reading(self._step.loss, self._step.ops.step_after)
        return reading, [FiniteHook(reading, str(self._s.task))]

    def _prepare_graph(self) -> None:
        """Adds what else the graph needs before it is finalized."""

    def _before_session(self) -> None:
        chief = str(self._s.cluster.chief)
        self._ready = await_ready(self._s.boards[0], chief, self._s.job.startup_timeout_secs)

    def _prepare(self, session: v1.Session) -> int:
        self._open_input(session, self._ready.step)
        return self._ready.step

    def _open_input(self, session: v1.Session, step: int) -> None:
        """The order of the examples depends on the step, so that a resumed job does not begin with the same ones."""
        seed = derived_seed(self._s.job.seed, "shuffle", self._s.cluster.replica_index(self._s.task), step)
        session.run(self._step.batches.initializer, self._step.batches.feeds(seed))
        gc.collect()
        gc.freeze()  # the graph's objects stay; a collector that walks them takes up to a fifth of a step

    def _train(self, session: Any, reading: Reading) -> None:
        loop = self._loop(reading)
        self._s.heart.say("training")
        while True:
            why = loop.run(session, self._on_input_end)
            if why == STOPPED:
                self._rest()
            self._s.heart.say("input ended" if why == INPUT else "waiting")
            self._wait_for_more(why)
            self._s.heart.say("training")

    def _loop(self, reading: Reading, save_steps: int = 0) -> Loop:
        job, first = self._s.job, self._sessions.first_step
        pace: Pace = LockstepPace(first, job.max_steps) if self._step.lockstep else self._budget
        return Loop(self._step, reading, pace, self._s.attention.stop.is_set, save_steps)

    def _on_input_end(self) -> None:
        self._input_ended = True
        log.info("%s: input ended", self._s.task)
        self._s.heart.say("input ended")

    def _rest(self) -> None:
        """Does nothing any more; the main thread ends the process."""
        while True:
            time.sleep(60)

    def _wait_for_more(self, why: str) -> None:
        """Returns when steps are handed out again; else the heart hears of the outcome and the main thread exits."""
        while why == INPUT or self._step.lockstep or self._budget.granted() >= self._s.job.max_steps:
            time.sleep(_POLL_SECS)


class Follower(Training):
    """Any worker but the chief."""


class Chief(Training):
    """The worker that initialises, saves and ends the job."""

    def _hooks(self) -> tuple[Reading, list[Any]]:
        job, directory = self._s.job, self._s.directory
        with tf.control_dependencies([self._step.ops.step_after]), tf.device(self._step.examples.device):
            examples_after = self._step.examples.read_value()
        reading = Reading(self._step.loss, self._step.ops.step_after, examples_after)
        self._progress = ProgressHook(
            reading, job.max_steps, job.log_secs, lambda progress: self._s.console.progress(progress.text()), directory
        )
        self._checkpoints = Checkpoints(directory, job.keep_checkpoints, self._step.stored, device_of(self._s.task))
        self._saver = SaveHook(self._checkpoints, reading, job.save_steps, job.save_secs)
        return reading, [FiniteHook(reading, str(self._s.task)), self._progress, self._saver]

    def _before_session(self) -> None:
        """The chief waits for nobody."""

    def _prepare(self, session: v1.Session) -> int:
        board = self._s.boards[0]
        adopted = board.get(notices.READY) and not session.run(self._step.uninitialised).any()
        if adopted:
            step = int(session.run(self._step.global_step))
            log.info("the model is still there: training goes on at step %d", step)
        else:
            step = self._initialise(session)
            self._budget.open(step)
        self._saver.started(step)
        self._start = (time.monotonic(), step, float(session.run(self._step.examples)))
        self._open_input(session, step)
        board.put(notices.READY, Ready(step, self._s.heart.holder).to_json())
        return step

    def _initialise(self, session: v1.Session) -> int:
        session.run(self._step.initialise)
        restored = self._checkpoints.restore(session)
        session.run(self._step.ops.reset)
        if restored is None:
            return self._checkpoints.save(session)
        self._s.console.line(f"resumed from {self._s.directory} at step {restored}")
        return restored

    def _loop(self, reading: Reading, save_steps: int = 0) -> Loop:
        return super()._loop(reading, self._s.job.save_steps)

    def _train(self, session: Any, reading: Reading) -> None:
        self._s.heart.say("training")
        loop = self._loop(reading)
        while True:
            why = loop.run(session, self._on_input_end)
            if why == STOPPED:
                self._rest()
            if not self._more_to_do(why):
                break
        self._finish()

    def _more_to_do(self, why: str) -> bool:
        """Waits for the others; True if steps got lost with a worker that died, and are handed out again."""
        job, board = self._s.job, self._s.boards[0]
        living = Living(job.worker_lease_secs)
        raw = self._sessions.session
        assert raw is not None
        deadline = time.monotonic() + job.finish_timeout_secs
        while not self._s.attention.stop.is_set():
            granted = self._budget.granted()
            others = Others.of(seats_of(board.items()), str(self._s.task), living)
            step = int(raw.run(self._step.global_step))
            exhausted = granted >= job.max_steps or why == INPUT
            if not others.training:
                if step >= job.max_steps or self._step.lockstep:
                    return False
                if self._input_ended and not others.waiting:
                    return False
                if exhausted and self._budget.reopen(granted, step) and not self._input_ended:
                    return True
            if step > self._last_seen:
                self._last_seen, deadline = step, time.monotonic() + job.finish_timeout_secs
            if time.monotonic() > deadline:
                log.warning("no longer waiting for %s (finish_timeout_secs)", ", ".join(others.training))
                return False
            time.sleep(_POLL_SECS)
        self._rest()
        return False

    _last_seen = -1

    def _finish(self) -> None:
        """The last checkpoint, the score, the result; then everybody may go."""
        job, raw = self._s.job, self._sessions.session
        assert raw is not None
        began, first_step, first_examples = self._start
        wall_secs = time.monotonic() - began
        step = self._checkpoints.save(raw)
        examples = float(raw.run(self._step.examples))
        path = self._checkpoints.path(step)
        metrics = evaluator.score(self._s.model, job.data_dir, path)
        if step == first_step:
            self._s.console.line(f"this job is finished already: step {step} of {job.max_steps}")
        elif step < job.max_steps:
            self._s.console.line(f"all input ended at step {step} of {job.max_steps}")
        if metrics:
            self._s.console.line("test " + evaluator.text(metrics))
        self._s.console.line(f"checkpoint {path}")
        if step > first_step:
            made = step - first_step, examples - first_examples
            result = make_result(job, step, made[0], examples, made[1], self._progress.loss, metrics, wall_secs)
            write_result(job, self._s.directory, result)
        outcome = Outcome("done", by=str(self._s.task))
        for board in self._s.boards:
            board.swap(notices.OUTCOME, "", outcome.to_json())

    def save_now(self) -> None:
        """A checkpoint of this moment, from any thread; nothing if training has not begun."""
        raw = self._sessions.session if hasattr(self, "_sessions") else None
        if raw is not None:
            step = self._checkpoints.save(raw)
            self._s.console.line(f"saved {self._checkpoints.path(step)}")


_ = wait_until
