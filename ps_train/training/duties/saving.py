"""Checkpoints: the chief takes them; another worker makes no steps that a checkpoint must not hold."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as v1

from ps_train.base.console import human_secs
from ps_train.base.errors import SaveError
from ps_train.base.life_sign import LastChange
from ps_train.base.process_ids import process_exited
from ps_train.cluster.membership.kv_store import cause_of
from ps_train.cluster.membership.liveness import TaskLiveness
from ps_train.cluster.membership.records import task_statuses
from ps_train.cluster.membership.step_ledger import StepLedger
from ps_train.cluster.sessions.abandonable import run_within
from ps_train.cluster.sessions.calls import PS_LOST_ERRORS, abandonable
from ps_train.engine.checkpoint.save_hook import SaveHook
from ps_train.engine.checkpoint.save_listeners import SaveListeners
from ps_train.engine.checkpoint.save_watcher import SaveWatcher
from ps_train.engine.run_directory.run_checkpoints import run_checkpoints
from ps_train.training.duties.duty import POLL_SECS, Bursts, LastStep, Saves, Setting, Start
from ps_train.training.duties.epochs import Epochs
from ps_train.training.duties.recovery import make_savers
from ps_train.training.duties.user_hooks import UserHooks
from ps_train.training.joining.join import JoinedAsChief

log = logging.getLogger(__name__)

_PAUSE_SECS = 30.0
"""Seconds for which steps wait for a checkpoint of a chief that lives but takes none."""

_STALLED_SECS, _STALLED_STEPS = 5.0, 10
"""Seconds, and number of the chief's steps, for which a checkpoint waits for a worker that makes no step."""

_GIVE_UP_SECS = 3.0
"""Seconds after which a checkpoint still being written when its session was lost is abandoned."""


class AwaitedSaves(Saves):
    """Another worker's: steps wait for the chief's checkpoints."""

    def __init__(self, setting: Setting) -> None:
        self._task, self._chief = setting.prepared.task, str(setting.prepared.cluster.chief)
        self._store = setting.joined.stores[0]
        self._liveness = TaskLiveness(setting.prepared.job.heartbeat_timeout_secs)
        self._has_epochs = setting.prepared.model.has_epochs  # a chief may score for hours between two of them
        self._ledger: StepLedger
        self._since = self._next_look = 0.0

    def opened(self, session: v1.Session, start: Start) -> None:
        """Takes the ledger of the session."""
        self._ledger = start.ledger

    def while_paused(self, session: v1.Session, is_first: bool) -> None:
        """Lets steps be made without the checkpoint for which they wait, if no chief is there to take it.

        A chief that has ended is not there, nor is one that has said nothing for heartbeat_timeout_secs.
        """
        now = time.monotonic()
        if is_first:
            self._since, self._next_look = now, now + POLL_SECS
        if now < self._next_look:
            return
        self._next_look = now + POLL_SECS
        status = next((one for one in task_statuses(self._store.items()) if one.task == self._chief), None)
        is_there = status is not None and not process_exited(status) and self._liveness.is_alive(status)
        if not is_there or (now - self._since > _PAUSE_SECS and not self._has_epochs):
            log.info("%s makes steps without waiting for checkpoints until the chief answers", self._task)
            self._ledger.allow(0)  # the chief's next session sets it again


class Saving(Saves):
    """The chief's: it takes all checkpoints of the run.

    Args:
      epochs: what it does at the multiples of --save_steps, before it saves.
      most_secs: most seconds between two checkpoints, whatever --save_secs is; 0 for any number.

    Attributes:
      checkpoints: the files of the run.
      listeners: the user's.
    """

    def __init__(
        self,
        setting: Setting,
        joined: JoinedAsChief,
        user_hooks: UserHooks,
        epochs: Sequence[Epochs],
        most_secs: float = 0.0,
    ) -> None:
        prepared, step = setting.prepared, setting.step
        self._job, self._now, self._console = prepared.job, setting.now, setting.console
        self._joined = joined
        self._ops, self._global_step, self._lockstep = step.ops, step.ps.global_step, step.lockstep
        self.listeners = SaveListeners(prepared.model.saving_listeners(), user_hooks.end_training)
        device = prepared.device
        self.checkpoints, self._snapshots = make_savers(
            self._job, step, joined.directory, device, self.listeners, joined.model_directory.name
        )
        every_secs = min((secs for secs in (self._job.save_secs, most_secs) if secs), default=0)
        self._hook = SaveHook(
            self._snapshots, step.ops.step_after, self._job.save_steps, every_secs, self._allow_steps, self._at_rest
        )
        self._epochs, self._has_epochs = epochs, prepared.model.has_epochs
        self.hooks, self.bursts = [self._hook], Bursts(ends=self._job.save_steps)
        self._watcher: SaveWatcher | None = None
        self._session: v1.Session
        self._ledger: StepLedger
        self._is_newer = False
        self._limit, self._paused = 0, LastChange()

    def connected(self, session: v1.Session) -> None:
        """Finds out which ps can write checkpoints."""
        self._snapshots.begin_session()
        self.checkpoints.find_writers(session)

    def opened(self, session: v1.Session, start: Start) -> None:
        """Begins to look for due checkpoints, between the steps of this task too."""
        self._session, self._ledger, self._is_newer = session, start.ledger, start.state.is_newer
        saved = max((step for step, _ in run_checkpoints(self._joined.directory) if step <= start.step), default=0)
        self._hook.started(start.step, saved)
        self._watcher = SaveWatcher(self._hook, self._global_step, session, self._joined.events.stop.is_set)
        self._watcher.start()

    def observe(self, step: int, session: v1.Session) -> None:
        """Begins a checkpoint if one is due at this step."""
        self._hook.observe(step, session)

    def report(self) -> dict[str, Any] | None:
        """Returns the statistics of the checkpoints; None before the first one."""
        saves = self._snapshots.report()
        return saves and {**saves, "late": self._hook.late}

    def shown(self) -> dict[str, Any] | None:
        """Returns the same with the step of the last checkpoint."""
        saves = self.report()
        return saves and {**saves, "last_step": self.checkpoints.newest}

    def save_at_rest(self, session: v1.Session) -> int:
        """Saves a checkpoint while no worker makes steps; returns its step."""
        self._snapshots.wait(session)
        self._hook.poll()
        step = self._snapshots.save(session)
        self._hook.saved(step)
        return step

    def end(self, session: v1.Session) -> None:
        """Begins no further checkpoint by itself; returns when none is being begun."""
        if self._watcher is not None:
            self._watcher.stop()
            with abandonable(session):
                self._watcher.join()

    def save_last(self, session: v1.Session, step: int, has_settled: bool) -> LastStep:
        """Saves the last checkpoint, unless it is there.

        Args:
          session: the session.
          step: the global step, after which no step is made.
          has_settled: whether the model has changed without a step.
        """
        self._snapshots.wait(session)
        self._hook.poll()
        # After a recovery the other ps may have made updates since the checkpoint of this very step.
        if has_settled or step != self._hook.step or (self._is_newer and not self._hook.is_of_session):
            self._snapshots.save(session)
        self.listeners.end(session, step)
        return LastStep(step, self.checkpoints.path(step), self.checkpoints.shown_path(step))

    def lost(self) -> None:
        """Waits briefly for the checkpoint that is being written: the recovery may restore it."""
        if self._watcher is not None:
            self._watcher.stop()
        self._snapshots.wait_briefly(_GIVE_UP_SECS)

    def _allow_steps(self, limit: int) -> None:
        """Lets workers make steps up to a global step; in lockstep the chief's own steps end at each multiple."""
        if any(one.is_over for one in self._epochs):
            return
        self._limit, ops = limit, self._ops
        if not self._lockstep or self._has_epochs:
            self._ledger.allow(limit)
        for one in ops.limits:
            self._session.run(one.op, {one.step: limit})

    def _at_rest(self, step: int) -> None:
        """Ends the epochs that end at this step."""
        for one in self._epochs:
            one.at_rest(step)

    def while_paused(self, session: v1.Session, is_first: bool) -> None:
        """Takes the checkpoint for which the steps wait, as soon as the steps before it are made."""
        step = int(session.run(self._global_step))
        self._hook.observe(step, session)
        self._watch_pause(session, step, is_first)

    def _watch_pause(self, session: v1.Session, step: int, is_first: bool) -> None:
        """Gives the steps of dead workers to others, and goes on without the checkpoint if a worker is stalled."""
        if is_first:
            self._paused = LastChange()
        still = self._paused.secs(step, time.monotonic())
        if still < POLL_SECS or step >= self._limit:
            return
        self._ledger.reclaim(lambda: int(session.run(self._global_step)), self._joined.membership.is_silent)
        if still > max(_STALLED_SECS, _STALLED_STEPS * self._now.step_secs):
            log.warning(
                "no checkpoint is taken at step %d: a worker has not made its steps before it for %.0fs",
                self._limit,
                still,
            )
            self._allow_steps(self._limit + self._job.save_steps)

    def stopped(self, within_secs: float) -> None:
        """Saves a checkpoint now; without a usable session it saves nothing.

        A training thread may hang in a step that waits for another worker.  It changes nothing while it hangs, so the
        state can still be saved.

        Raises:
          SaveError: no checkpoint could be taken; raised at once if a ps is silent.
        """
        session = None if self._now.session_is_over() else self._now.session
        ps_liveness = self._joined.heartbeat.ps_liveness
        if session is None:
            if silent := ps_liveness.silent_ps():
                raise SaveError(f"no checkpoint could be taken ({', '.join(silent)} does not answer)")
            return
        try:
            run_within(functools.partial(self._save_now, session), within_secs, lambda: bool(ps_liveness.silent_ps()))
        except TimeoutError:
            silent = ps_liveness.silent_ps()
            cause = (
                f"{', '.join(silent)} does not answer"
                if silent
                else f"it was not written within {human_secs(within_secs)}"
            )
            raise SaveError(f"no checkpoint could be taken ({cause})") from None
        except PS_LOST_ERRORS as error:
            raise SaveError(f"no checkpoint could be taken ({cause_of(error)})") from None

    def _save_now(self, session: v1.Session) -> None:
        step = self._snapshots.save(session)
        self._console.line(f"saved {self.checkpoints.shown_path(step)}")
