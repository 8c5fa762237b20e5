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

from ps_train.checkpoint import Checkpoints
from ps_train.cluster import notices
from ps_train.cluster.board import Board
from ps_train.cluster.budget import Budget
from ps_train.cluster.calls import LONG
from ps_train.cluster.notices import TRAINING, Ready, Seat
from ps_train.cluster.process_ids import is_gone
from ps_train.config import Job
from ps_train.console import Console
from ps_train.errors import LostTaskError, RefusedError
from ps_train.graph.step import Step
from ps_train.roles.finish import Living
from ps_train.roles.heart import seats_of

log = logging.getLogger(__name__)

_POLL_SECS, _RETURN_SECS = 0.05, 2.0


@dataclasses.dataclass
class Recovery:
    """Args:
    by, me: the chief's process, and its task.
    present: the tasks that take part at the moment.
    """

    job: Job
    boards: list[Board]
    step: Step
    checkpoints: Checkpoints
    console: Console
    by: str
    me: str
    present: Callable[[], Sequence[str]]

    def prepare(self, session: v1.Session, found: Sequence[Ready | None], known_step: int | None) -> Ready:
        """Initialises or restores what is not there, and opens the budget of steps.

        Args:
          found: what stands on the boards.
          known_step: the latest global step that this process knows of; None if it has not trained yet.
        """
        run = _run_of(self.checkpoints.directory)
        self._refuse_foreign(found, run)
        lost = [index for index, ready in enumerate(found) if ready is None]
        there = [ready for ready in found if ready is not None]
        if not lost and session.run(self.step.uninitialised).any():
            lost = list(range(len(found)))
        if not lost and len({ready.world for ready in there}) == 1:
            step = self._global_step(session)
            log.info("the model is still there: training goes on at step %d", step)
            return dataclasses.replace(there[0], step=step)
        if len(lost) == len(found):
            step = self._begin(session, known_step)
        elif lost:
            step = self._repair(session, lost, known_step)
        else:  # the chief before this one died when all but the notices was done
            step = self._global_step(session)
        ready = Ready(step, self.by, uuid.uuid4().hex, run)
        Budget(self.boards[0], self.job.max_steps, sharers=1, world=ready.world).open(step)
        for board in self.boards:
            board.put(notices.READY, ready.to_json())
        return ready

    def _refuse_foreign(self, found: Sequence[Ready | None], run: str) -> None:
        for board, ready in zip(self.boards, found, strict=True):
            if ready is not None and ready.run != run:
                raise RefusedError(
                    f"{board.name} holds the model of another run, whose checkpoints are not in "
                    f"{self.checkpoints.directory}: stop the processes of that run."
                )

    def _begin(self, session: v1.Session, known_step: int | None) -> int:
        """All ps are empty."""
        began = time.monotonic()
        session.run(self.step.initialise, options=LONG)
        log.debug("initialised in %.1fs", time.monotonic() - began)
        restored = self.checkpoints.restore(session)
        if known_step is not None:
            self._tell(range(len(self.boards)), restored, known_step)
        elif restored is None:
            return self.checkpoints.save(session)
        else:
            self.console.line(f"resumed from {self.checkpoints.directory} at step {restored}")
        return self._global_step(session)

    def _repair(self, session: v1.Session, lost: Sequence[int], known_step: int | None) -> int:
        """Some ps are empty, the others are not."""
        session.run([self.step.initialise[ps] for ps in lost], options=LONG)
        self._reset(session)  # else those never come to rest who wait for a step that will not be made
        self._await_rest()
        before = known_step if 0 in lost else self._global_step(session)
        self._reset(session)
        partial = self.job.recovery_mode == "partial"
        restored = self.checkpoints.restore(session, lost if partial else None)
        self._tell(lost, restored, before)
        return self._global_step(session)

    def _reset(self, session: v1.Session) -> None:
        if self.step.ops.reset is not None:
            session.run(self.step.ops.reset)

    def _await_rest(self) -> None:
        """Until no other task makes steps: what they do must not mix with what is restored."""
        start, living = time.monotonic(), Living(self.job.worker_lease_secs)
        while True:
            seats = [seat for seat in seats_of(self.boards[0].items()) if seat.task != self.me]
            busy = [seat.place() for seat in seats if self._trains(seat, living)]
            absent = {*self.present()} - {seat.task for seat in seats} - {self.me}
            waited = time.monotonic() - start
            if not busy and (not absent or waited > _RETURN_SECS):
                return
            if waited > self.job.recovery_secs:
                log.warning("no longer waiting for %s to come to rest (recovery_secs)", ", ".join(busy))
                return
            time.sleep(_POLL_SECS)

    def _trains(self, seat: Seat, living: Living) -> bool:
        return seat.state == TRAINING and living(seat) and not is_gone(seat)

    def _tell(self, lost: Sequence[int], restored: int | None, before: int | None) -> None:
        names = ", ".join(f"ps:{index}" for index in lost)
        if restored is None:
            raise LostTaskError(
                f"{names} restarted, and {self.checkpoints.directory} has no whole checkpoint to restore it from"
            )
        updates = "an unknown number of" if before is None else str(max(0, before - restored))
        part = " there" if len(lost) < len(self.boards) and self.job.recovery_mode == "partial" else ""
        self.console.line(f"{names} restarted; restored step {restored}; {updates} updates lost{part}")

    def _global_step(self, session: v1.Session) -> int:
        return int(session.run(self.step.global_step))


def _run_of(directory: str) -> str:
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
