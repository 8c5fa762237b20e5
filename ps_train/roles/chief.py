"""What the chief's training thread does beyond a worker's: it initialises or restores the model, saves it, and ends the
job: waits for the others, saves last, scores the test split, writes the result, and lets everybody go.
"""

from __future__ import annotations

import functools
import json
import logging
import time
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.checkpoint import found_in
from ps_train.cluster import garbage, notices
from ps_train.cluster.board import cause_of
from ps_train.cluster.notices import Outcome
from ps_train.cluster.server import device_of
from ps_train.errors import LostTaskError, SaveError
from ps_train.export import export, prepare_export
from ps_train.hooks.progress import ProgressHook
from ps_train.hooks.reading import Reading
from ps_train.hooks.save import SaveHook
from ps_train.hooks.tally import Tally, tensors
from ps_train.roles import evaluator
from ps_train.roles.attempt import run_within
from ps_train.roles.finish import Ending, Living, Others, result_step, write_result
from ps_train.roles.heart import seats_of
from ps_train.roles.members import Members
from ps_train.roles.recovery import Recovery
from ps_train.roles.saving import saving
from ps_train.roles.scoring import Scorer
from ps_train.roles.session import LOST, LostConnectionError, ready_notices
from ps_train.roles.setting import Setting
from ps_train.roles.training import BRIEF, POLL_SECS, Training

log = logging.getLogger(__name__)

_GIVE_UP_SECS = 3.0
"""After this a checkpoint that is still being written when its session was lost is given up."""


class Chief(Training):
    """The worker that initialises, saves and ends the job."""

    _cut_short = "all input ended"
    """Why the job ends below max_steps, where it does."""

    def __init__(self, setting: Setting, members: Members) -> None:
        super().__init__(setting)
        self._members = members
        self._start: tuple[float, int, float] | None = None

    def _agree(self) -> None:
        """The others agree with the chief."""

    def _hooks(self) -> list[Any]:
        job, directory = self._s.job, self._s.directory
        names = [str(task) for task in self._s.cluster.possible_replicas()]
        self._tally_of = functools.partial(Tally, job.update, names, self._s.cluster.num_replicas)
        self._counted = tensors(self._step.counts)
        with tf.control_dependencies([self._step.ops.step_after]):
            reading = Reading(self._step.loss, self._step.ops.step_after, tensors(self._step.counts))
        self._progress = ProgressHook(
            reading, job, self._tally_of, lambda progress: self._s.console.progress(progress.text()), directory
        )
        self._checkpoints, self._snapshots = saving(job, self._step, directory, device_of(self._s.task))
        self._saver = SaveHook(self._snapshots, reading, job.save_steps, job.save_secs)
        self._recovery = Recovery(
            job,
            self._s.boards,
            self._step,
            self._checkpoints,
            self._s.console,
            self._s.heart.holder,
            str(self._s.task),
            self._members.present,
        )
        return [self._progress, self._saver]

    def _let_go(self) -> None:
        self._snapshots.wait_briefly(_GIVE_UP_SECS)  # it may be the one that will be restored
        super()._let_go()

    def _prepare(self, session: v1.Session) -> int:
        self._snapshots.begin_session()
        session.run(self._step.uninitialised)  # connects to every ps
        garbage.begin()
        self._s.boards[0].put(notices.DESCRIPTION, json.dumps(self._s.description))  # gone, if ps 0 was restarted
        found = ready_notices(self._s.boards)
        ready = self._recovery.prepare(session, found, self._progress.step if self._start else None)
        self._enter(ready)
        if self._start is None:
            if any(found):
                self._dismiss(self._replica.index, session)  # the chief before this one may have left a step unfinished
            self._start = (time.monotonic(), ready.step, float(session.run(self._step.counts.examples)))
        self._saver.started(ready.step, max((s for s, _ in found_in(self._s.directory) if s <= ready.step), default=0))
        self._progress.resumed(ready.step)
        self._step.local.prepare(session)
        self._open_input(ready.step)
        log.debug("ready at global step %d", ready.step)
        return ready.step

    @property
    def _save_steps(self) -> int:
        return self._s.job.save_steps

    def _train(self, session: Any) -> None:
        self._members.dismiss = self._dismiss
        self._members.awaited = self._awaited if self._step.ops.awaited is not None else None
        while True:
            self._run_loop(session)
            if not self._more_to_do():
                break
        self._finish()

    def _more_to_do(self) -> bool:
        """Waits for the others; True when steps that got lost with a worker that died are handed out again."""
        job, raw = self._s.job, self._raw()
        living = Living(job.worker_lease_secs)
        last_step, deadline = -1, 0.0
        while not self._s.attention.stop.is_set():
            if self._has_ended():
                raise LostConnectionError("a ps was restarted")
            granted = self._budget.granted()  # read first: if it is still so at `reopen`, nobody took a step since
            others = Others.of(seats_of(self._s.boards[0].items()), str(self._s.task), living)
            step = self._look_on(raw)
            if self._shares is not None and self._is_more(""):
                return True
            if not others.training:
                if step >= job.max_steps or self._is_out_of_input(others):
                    return False
                if self._budget.reopen(granted, step) and not self._input_ended:
                    return True
            if step > last_step:
                last_step, deadline = step, time.monotonic() + job.finish_timeout_secs
            if time.monotonic() > deadline:
                log.warning("no longer waiting for %s (finish_timeout_secs)", ", ".join(others.training))
                self._cut_short = "given up waiting for " + ", ".join(others.training)
                return False
            time.sleep(POLL_SECS)
        self._rest()
        return False

    def _is_out_of_input(self, others: Others) -> bool:
        """When nobody trains: whether nobody ever will."""
        if self._shares is None:
            return self._step.lockstep or (self._input_ended and not others.waiting)
        self._input_ended = self._shares.is_over()
        if not self._input_ended:  # what those have who are gone is not given back by themselves
            self._shares.free_all()
        return self._input_ended

    def _awaited(self) -> tuple[int, list[int]] | None:
        session = self._session
        if session is None:
            return None
        try:
            step, awaited = session.run([self._step.global_step, self._step.ops.awaited], options=BRIEF)
        except LOST as error:
            log.debug("who is awaited is not known: %s", cause_of(error))
            return None
        return int(step), [index for index, missing in enumerate(awaited) if missing]

    def _look_on(self, raw: v1.Session) -> int:
        """The global step; while only others train, their progress is shown and saved all the same."""
        step, counted = raw.run([self._step.global_step, self._counted])
        self._progress.observe(int(step), counted)
        self._saver.observe(int(step), raw)
        return int(step)

    def _finish(self) -> None:
        """The last checkpoint, the score, the result; then everybody may go."""
        job, console, raw = self._s.job, self._s.console, self._raw()
        assert self._start is not None, "training has begun"
        start_time, first_step, first_examples = self._start
        wall_secs = time.monotonic() - start_time
        step, counted = raw.run([self._step.global_step, self._counted])
        self._snapshots.wait(raw)
        self._saver.look()
        if step != self._saver.step:
            self._snapshots.save(raw)
        metrics = Scorer(self._s).score(self._sessions)
        tally = self._tally_of(**counted)
        made, examples_made = int(step) - first_step, float(tally.examples) - first_examples
        ending = Ending(
            int(step), made, examples_made, wall_secs, self._progress.loss, metrics, tally, self._snapshots.report()
        )
        for line in ending.lines(job, self._cut_short):
            console.line(line)
        if metrics:
            console.line("test " + evaluator.text(metrics))
        if made > 0 or result_step(self._s.directory) != step:  # the chief before may have been stopped on its way here
            write_result(job, self._s.directory, ending.result(job))
        console.line(f"checkpoint {self._checkpoints.path(step)}")
        if job.export_dir:
            directory = prepare_export(job.export_dir)
            export(self._s.model, self._s.source, self._checkpoints.path(step), directory)
            console.line(f"exported {directory}")
        outcome = Outcome("done", by=str(self._s.task))
        for board in self._s.boards:
            try:
                board.swap(notices.OUTCOME, "", outcome.to_json())
            except LostTaskError as error:  # all is saved; nobody needs that ps any more
                log.warning("%s: it cannot be told that the job is done", error)

    def _raw(self) -> v1.Session:
        assert self._session is not None, "the session exists before training begins"
        return self._session

    def close(self) -> None:
        """Writes the last point of the event files, if there is one that is not written yet."""
        if self._start is not None:
            self._progress.close()

    def save_now(self, within_secs: float) -> None:
        """A checkpoint of this moment, from any thread; nothing where there is no session, or one that is broken.
        Raises SaveError, where a ps is silent at once."""
        raw, lives = None if self._has_ended() else self._session, self._s.heart.lives
        if raw is None:
            if silent := lives.silent_ones():
                raise SaveError(f"no checkpoint could be taken ({', '.join(silent)} does not answer)")
            return
        try:
            run_within(lambda: self._save(raw), within_secs, lambda: bool(lives.silent_ones()))
        except TimeoutError:
            silent = lives.silent_ones()
            cause = f"{', '.join(silent)} does not answer" if silent else f"it is not written after {within_secs:g}s"
            raise SaveError(f"no checkpoint could be taken ({cause})") from None
        except LOST as error:
            raise SaveError(f"no checkpoint could be taken ({cause_of(error)})") from None

    def _save(self, raw: v1.Session) -> None:
        step = self._snapshots.save(raw)
        self._s.console.line(f"saved {self._checkpoints.path(step)}")
