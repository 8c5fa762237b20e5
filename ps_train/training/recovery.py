"""How the chief brings all ps to a state from which everybody can train: at the start, and after ps lost theirs.

    ready = recovery.prepare(session, known_step=None)          # what stands on every board from then on

A ps that holds its part of the model has the chief's notice of it on its own board, which dies with it; so a ps
without the notice has lost its part, whoever the chief is by now.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import time
import uuid
from collections.abc import Callable, Sequence

import tensorflow.compat.v1 as v1

from ps_train.checkpoint.files import Checkpoints
from ps_train.cluster.calls import LONG_CALL
from ps_train.config.job import Job
from ps_train.coordination import records
from ps_train.coordination.heartbeat import task_statuses
from ps_train.coordination.kv_store import KeyValueStore
from ps_train.coordination.liveness import TaskLiveness
from ps_train.coordination.records import TRAINING, ModelReady, TaskStatus
from ps_train.coordination.step_budget import StepBudget
from ps_train.errors import LostTaskError, RefusedError
from ps_train.graph.train_step import TrainStep
from ps_train.runtime.console import Console
from ps_train.runtime.process_ids import process_exited

log = logging.getLogger(__name__)

_POLL_SECS, _RETURN_SECS = 0.05, 2.0


@dataclasses.dataclass
class Recovery:
    """Args:
    by, me: the chief's process, and its task.
    present: the tasks that take part at the moment.
    """

    job: Job
    stores: list[KeyValueStore]
    step: TrainStep
    checkpoints: Checkpoints
    console: Console
    chief_process: str
    chief_task: str
    members: Callable[[], Sequence[str]]

    def prepare(self, session: v1.Session, found: Sequence[ModelReady | None], known_step: int | None) -> ModelReady:
        """Initialises or restores what is not there, and opens the budget of steps.

        Args:
          found: what stands on the boards.
          known_step: the latest global step that this process knows of; None if it has not trained yet.
        """
        run = _read_run_id(self.checkpoints.directory)
        self._refuse_foreign(found, run)
        lost = [index for index, ready in enumerate(found) if ready is None]
        there = [ready for ready in found if ready is not None]
        if not lost and session.run(self.step.uninitialized).any():
            lost = list(range(len(found)))
        if not lost and len({ready.generation for ready in there}) == 1:
            step = self._global_step(session)
            log.info("the model is still there: training goes on at step %d", step)
            return dataclasses.replace(there[0], step=step)
        if len(lost) == len(found):
            step = self._initialize_all(session, known_step)
        elif lost:
            step = self._restore_lost(session, lost, known_step)
        else:  # the chief before this one died when all but the notices was done
            step = self._global_step(session)
        ready = ModelReady(step, self.chief_process, uuid.uuid4().hex, run)
        StepBudget(self.stores[0], self.job.max_steps, sharers=1, world=ready.generation).start_at(step)
        for board in self.stores:
            board.set(records.READY, ready.to_json())
        return ready

    def _refuse_foreign(self, found: Sequence[ModelReady | None], run: str) -> None:
        for board, ready in zip(self.stores, found, strict=True):
            if ready is not None and ready.run_id != run:
                raise RefusedError(
                    f"{board.name} holds the model of another run, whose checkpoints are not in "
                    f"{self.checkpoints.directory}: stop the processes of that run."
                )

    def _initialize_all(self, session: v1.Session, known_step: int | None) -> int:
        """All ps are empty."""
        began = time.monotonic()
        session.run(self.step.initialize, options=LONG_CALL)
        log.debug("initialised in %.1fs", time.monotonic() - began)
        restored = self.checkpoints.restore(session)
        if known_step is not None:
            self._report(range(len(self.stores)), restored, known_step)
        elif restored is None:
            return self.checkpoints.save(session)
        else:
            self.console.line(f"resumed from {self.checkpoints.directory} at step {restored}")
        return self._global_step(session)

    def _restore_lost(self, session: v1.Session, lost: Sequence[int], known_step: int | None) -> int:
        """Some ps are empty, the others are not."""
        session.run([self.step.initialize[ps] for ps in lost], options=LONG_CALL)
        self._reset(session)  # else those never come to rest who wait for a step that will not be made
        self._wait_until_idle()
        before = known_step if 0 in lost else self._global_step(session)
        self._reset(session)
        partial = self.job.recovery_mode == "partial"
        restored = self.checkpoints.restore(session, lost if partial else None)
        self._report(lost, restored, before)
        return self._global_step(session)

    def _reset(self, session: v1.Session) -> None:
        if self.step.ops.reset is not None:
            session.run(self.step.ops.reset)

    def _wait_until_idle(self) -> None:
        """Until no other task makes steps: what they do must not mix with what is restored."""
        start, living = time.monotonic(), TaskLiveness(self.job.worker_lease_secs)
        while True:
            seats = [seat for seat in task_statuses(self.stores[0].items()) if seat.task != self.chief_task]
            busy = [seat.location() for seat in seats if self._is_training(seat, living)]
            absent = {*self.members()} - {seat.task for seat in seats} - {self.chief_task}
            waited = time.monotonic() - start
            if not busy and (not absent or waited > _RETURN_SECS):
                return
            if waited > self.job.recovery_secs:
                log.warning("no longer waiting for %s to come to rest (recovery_secs)", ", ".join(busy))
                return
            time.sleep(_POLL_SECS)

    def _is_training(self, seat: TaskStatus, living: TaskLiveness) -> bool:
        return seat.state == TRAINING and living.is_alive(seat) and not process_exited(seat)

    def _report(self, lost: Sequence[int], restored: int | None, before: int | None) -> None:
        names = ", ".join(f"ps:{index}" for index in lost)
        if restored is None:
            raise LostTaskError(
                f"{names} restarted, and {self.checkpoints.directory} has no whole checkpoint to restore it from"
            )
        updates = "an unknown number of" if before is None else str(max(0, before - restored))
        part = " there" if len(lost) < len(self.stores) and self.job.recovery_mode == "partial" else ""
        self.console.line(f"{names} restarted; restored step {restored}; {updates} updates lost{part}")

    def _global_step(self, session: v1.Session) -> int:
        return int(session.run(self.step.global_step))


def _read_run_id(directory: str) -> str:
    """What tells this run, of all its processes and restarts, from others: a random word beside its checkpoints."""
    path = os.path.join(directory, "run_id")
    try:
        with open(path) as file:
            if run := file.read().strip():
                return run
    except FileNotFoundError:
        pass
    run = uuid.uuid4().hex
    with open(path + ".new", "w") as file:
        file.write(run + "\n")
    os.replace(path + ".new", path)
    return run
