"""Recovery of the model's state on the ps by the chief: at the start, and after a ps lost its state.

    ready = recovery.prepare(session, found, known_step=None)          # the record now in every ps's store

A ps with a part of the model has the chief's `ModelReady` record in its own store, which ends with the ps.  So a ps
without the record has lost its part, even if another process is the chief now.
"""

from __future__ import annotations

import dataclasses
import logging
import time
import uuid
from collections.abc import Callable, Sequence

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.console import Console
from ps_train.base.errors import LostTaskError, RefusedError
from ps_train.base.lifecycle import record_event
from ps_train.base.polling import poll_until
from ps_train.base.process_ids import process_exited
from ps_train.cluster.membership import records
from ps_train.cluster.membership.kv_store import KeyValueStore
from ps_train.cluster.membership.liveness import TaskLiveness
from ps_train.cluster.membership.records import ModelReady, TaskState, TaskStatus, task_statuses
from ps_train.cluster.membership.step_ledger import StepLedger
from ps_train.cluster.sessions.calls import LONG_CALL
from ps_train.config.job import Job
from ps_train.config.job_values import described
from ps_train.engine.checkpoint.async_saver import AsyncSaver
from ps_train.engine.checkpoint.files import Checkpoints
from ps_train.engine.checkpoint.push_barrier import PushBarrier
from ps_train.engine.checkpoint.save_hook import next_multiple
from ps_train.engine.checkpoint.save_listeners import NO_LISTENERS, SaveListeners
from ps_train.engine.checkpoint.saving_graph import SavingGraph
from ps_train.engine.checkpoint.snapshot import Snapshot
from ps_train.engine.run_directory.kept_checkpoints import KeptCheckpoints
from ps_train.engine.run_directory.run_files import read_run_id
from ps_train.engine.run_directory.run_record import begin_generation
from ps_train.engine.step.train_step import TrainStep
from ps_train.modeling.tables.plain_vocabulary import AFTER_RESTORE

log = logging.getLogger(__name__)


def make_savers(
    job: Job,
    step: TrainStep,
    directory: str,
    device: str,
    listeners: SaveListeners = NO_LISTENERS,
    shown_directory: str = "",
) -> tuple[Checkpoints, AsyncSaver]:
    """Makes the operations that save and restore, in a graph of their own.

    Args:
      job: gives the limits of checkpoints: their number, and the size of a snapshot.
      step: the training graph; it must not be finalized.
      directory: the model directory.
      device: the chief's device.
      listeners: the user's listeners.
      shown_directory: the directory as messages name it; "" for itself.

    Returns:
      The checkpoints and their saver.
    """
    with step.graph.as_default():
        after_restore = tf.group(*v1.get_collection(AFTER_RESTORE))
    saving = SavingGraph()
    with saving.graph.as_default():
        entries = saving.entries(step.ps.entries)
        stored = [one for one in entries if not one.follower]
        num_ps, limit_bytes = len(step.ps.update_counts), job.max_snapshot_mib << 20
        snapshot = Snapshot(stored, saving.old_rows(step.ps.old_rows), num_ps, limit_bytes)
        kept = KeptCheckpoints(job.keep_checkpoints, job.keep_every_hours)
        checkpoints = Checkpoints(
            directory, kept, entries, device, snapshot, listeners,
            job.checkpoint_writers, step.ps.tables, after_restore, shown_directory,
        )  # fmt: skip
        counters = [saving.variable(counter) for counter in step.ops.push_counters]
        barrier = PushBarrier(counters, step.ops.step_gate, not step.lockstep)
        snapshots = AsyncSaver(checkpoints, barrier, snapshot)
    saving.graph.finalize()
    return checkpoints, snapshots


_POLL_SECS, _RETURN_SECS = 0.05, 2.0


@dataclasses.dataclass
class Recovery:
    """Initialization and restoring of the model.

    Args:
      stores: the store of each ps.
      step: the training graph.
      checkpoints: the checkpoints of this run.
      chief_process: process id of the chief.
      chief_task: task name of the chief, `worker:0`.
      members: returns the names of the replicas that are members now.
      set_aside: moves the files of an ignored run away; returns a line about it.
      first_values: write the values that a new run begins with into initialized variables, in this order.
    """

    job: Job
    stores: list[KeyValueStore]
    step: TrainStep
    checkpoints: Checkpoints
    console: Console
    chief_process: str
    chief_task: str
    members: Callable[[], Sequence[str]]
    set_aside: Callable[[], str]
    first_values: Sequence[Callable[[v1.Session], None]] = ()
    _is_set_aside: bool = False

    def prepare(self, session: v1.Session, found: Sequence[ModelReady | None], known_step: int | None) -> ModelReady:
        """Initializes or restores the missing parts of the model, and starts the step ledger.

        Args:
          session: the new session.
          found: the record of each ps; None for a ps without the model.
          known_step: the latest global step known to this process; None if it has not trained yet.

        Returns:
          The record of the current generation, now in every store.

        Raises:
          RefusedError: a ps holds the model of another run.
          ConfigError: there are checkpoints, but none can be read.
          LostTaskError: a ps lost its state and there is no complete checkpoint.
        """
        if known_step is None and not any(found):
            self._set_aside()
        run_id = read_run_id(self.checkpoints.directory)
        self._refuse_foreign(found, run_id)
        lost = [index for index, ready in enumerate(found) if ready is None]
        ready_records = [ready for ready in found if ready is not None]
        if not lost and session.run(self.step.ps.uninitialized).any():
            lost = list(range(len(found)))
        if not lost and len({ready.generation for ready in ready_records}) == 1:
            step = self._global_step(session)
            log.info("the ps still hold the model: training continues at step %d", step)
            self.checkpoints.run = (run_id, ready_records[0].generation)
            return dataclasses.replace(ready_records[0], step=step)
        generation = uuid.uuid4().hex
        self.checkpoints.run = (run_id, generation)
        if len(lost) == len(found):
            step = self._initialize_all(session, known_step)
        elif lost:
            step = self._restore_lost(session, lost, known_step)
        else:  # the previous chief died before it wrote the last records
            step = self._global_step(session)
        begin_generation(self.checkpoints.directory, generation, step)
        ready = ModelReady(step, self.chief_process, generation, run_id)
        ledger = StepLedger(self.stores[0], self.chief_task, self.job.max_steps, 1, ready.generation)
        ledger.start_at(step, next_multiple(step, self.job.save_steps))
        for store in self.stores:
            store.set(records.READY, ready.to_json())
        return ready

    def _set_aside(self) -> None:
        """Moves the checkpoints away under --ignore_checkpoints; once, since later ones are of this run."""
        if self.job.ignore_checkpoints and not self._is_set_aside and (line := self.set_aside()):
            self.console.line(line)
        self._is_set_aside = True

    def _refuse_foreign(self, found: Sequence[ModelReady | None], run_id: str) -> None:
        for store, ready in zip(self.stores, found, strict=True):
            if ready is not None and ready.run_id != run_id:
                raise RefusedError(
                    f"{store.name} holds the model of another run, whose checkpoints are not in "
                    f"{self.checkpoints.shown_directory}: stop the processes of that run."
                )

    def _initialize_all(self, session: v1.Session, known_step: int | None) -> int:
        """Initializes all ps and restores the newest checkpoint; returns the global step."""
        began = time.monotonic()
        session.run(self.step.ps.initialize, options=LONG_CALL)
        log.debug("initialized in %.1fs", time.monotonic() - began)
        restored = self.checkpoints.restore(session)
        if known_step is not None:
            self._report(range(len(self.stores)), restored, known_step)
        elif restored is None:
            for write in self.first_values:
                write(session)
            step = self.checkpoints.save(session)
            self.checkpoints.listeners.after(session, step)
            return step
        else:
            self.checkpoints.forget_newer(restored)
            line = f"resumed from {self.checkpoints.shown_directory} at step {restored}"
            line += f"; {described(self.job, 'warm_start')} is not used" if self.job.warm_start else ""
            line += "; each worker's own optimizer begins with fresh slots" if self.job.has_local_steps else ""
            record_event("restored", line)
            self.console.line(line)
        return self._global_step(session)

    def _restore_lost(self, session: v1.Session, lost: Sequence[int], known_step: int | None) -> int:
        """Restores the ps that lost their state, or all ps; returns the global step."""
        session.run([self.step.ps.initialize[ps] for ps in lost], options=LONG_CALL)
        self._reset(session)  # releases workers that wait for a step that will not be made
        self._wait_until_idle()
        before = known_step if 0 in lost else self._global_step(session)
        self._reset(session)
        partial = self.job.recovery_mode == "partial"
        restored = self.checkpoints.restore(session, lost if partial else None)
        self._report(lost, restored, before)
        return self._global_step(session)

    def _reset(self, session: v1.Session) -> None:
        session.run(self.step.ops.reset)

    def _wait_until_idle(self) -> None:
        """Waits until no other task makes steps: their pushes must not mix with the restored values."""
        start, liveness = time.monotonic(), TaskLiveness(self.job.heartbeat_timeout_secs)
        busy: list[str] = []

        def is_idle() -> bool:
            nonlocal busy
            statuses = [status for status in task_statuses(self.stores[0].items()) if status.task != self.chief_task]
            busy = [status.location() for status in statuses if self._is_training(status, liveness)]
            absent = {*self.members()} - {status.task for status in statuses} - {self.chief_task}
            return not busy and (not absent or time.monotonic() - start > _RETURN_SECS)

        if not poll_until(is_idle, start + self.job.recovery_timeout_secs, _POLL_SECS):
            log.warning("no longer waiting for %s to stop training (recovery_timeout_secs)", ", ".join(busy))

    def _is_training(self, status: TaskStatus, liveness: TaskLiveness) -> bool:
        return status.state == TaskState.TRAINING and liveness.is_alive(status) and not process_exited(status)

    def _report(self, lost: Sequence[int], restored: int | None, before: int | None) -> None:
        names = ", ".join(f"ps:{index}" for index in lost)
        if restored is None:
            raise LostTaskError(
                f"{names} restarted, and {self.checkpoints.shown_directory} has no complete checkpoint to restore it "
                "from"
            )
        updates = "an unknown number of" if before is None else str(max(0, before - restored))
        part = " there" if len(lost) < len(self.stores) and self.job.recovery_mode == "partial" else ""
        line = f"{names} restarted; restored step {restored}; {updates} updates lost{part}"
        record_event("restored", line)
        self.console.line(line)

    def _global_step(self, session: v1.Session) -> int:
        return int(session.run(self.step.ps.global_step))
