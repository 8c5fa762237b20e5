"""The training thread of the chief, a worker that also initializes or restores the model, saves it, and ends the job.

At the end it waits for the other tasks, saves the last checkpoint, scores the test split, writes the result, and
publishes the outcome.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base import gc_control
from ps_train.base.console import Console, Progress, human_secs
from ps_train.base.errors import ConfigError, DamagedCheckpointError, LostTaskError, SaveError
from ps_train.base.polling import poll_until
from ps_train.base.process_ids import process_exited
from ps_train.cluster.membership import records
from ps_train.cluster.membership.kv_store import cause_of
from ps_train.cluster.membership.liveness import PeerStates
from ps_train.cluster.membership.records import Outcome, OutcomeKind, TaskStatus, task_statuses
from ps_train.cluster.sessions.abandonable import run_within
from ps_train.cluster.sessions.calls import PS_LOST_ERRORS, SHORT_CALL, LostConnectionError, abandonable
from ps_train.cluster.sessions.server import device_of
from ps_train.config.error_report import REPORT_VARIABLE
from ps_train.config.job_values import described
from ps_train.data.split import no_examples, no_rows
from ps_train.engine.checkpoint.save_hook import SaveHook
from ps_train.engine.checkpoint.save_listeners import SaveListeners
from ps_train.engine.checkpoint.save_watcher import SaveWatcher
from ps_train.engine.run_directory.run_checkpoints import run_checkpoints
from ps_train.engine.run_directory.run_files import DELTAS, WARM_START_REPORT
from ps_train.engine.step.label_values import LabelValuesHook
from ps_train.engine.step.parts.loss_scaling import LossScaling
from ps_train.engine.step.parts.push_codec import PushCodec
from ps_train.engine.step.parts.sharding import Sharding
from ps_train.engine.step.summaries import summaries_of
from ps_train.engine.updates.counters.counter_values import RunCounterValues, counter_tensors
from ps_train.engine.updates.following.adaptation import AdaptationHook
from ps_train.observe.progress.early_stop import early_stop_hooks
from ps_train.observe.progress.progress import ProgressHook, StepFetches
from ps_train.observe.progress.summaries import SummaryHook, text_of
from ps_train.observe.status.result import RunSummary
from ps_train.observe.status.run_end import advice, check_trained, report_end
from ps_train.observe.tracking.tracked_run import TrackedRun, source_file_of, tracked_run
from ps_train.observe.tracking.trackers import make_tracking
from ps_train.saved.export.export import prepare_export
from ps_train.saved.warm_start.initial_values import InitialValues
from ps_train.training.loop.chief_event_cuts import EventCuts
from ps_train.training.loop.loop import LoopExit
from ps_train.training.loop.partition_client import PartitionClient
from ps_train.training.loop.recovery import Recovery, make_savers
from ps_train.training.loop.session import ready_records
from ps_train.training.tasks.delta_writer import DeltaWriter
from ps_train.training.tasks.export_model import export_model
from ps_train.training.tasks.final_evaluation import EvalCoordinator
from ps_train.training.tasks.join import JoinedAsChief
from ps_train.training.tasks.prepare import Prepared
from ps_train.training.tasks.worker_training import POLL_SECS, WorkerTraining

log = logging.getLogger(__name__)

_LAST_UPLOAD_SECS = 600.0
"""Seconds for the last upload to a model directory on an object store, before the job is done."""

_RETURN_SECS = 20.0
"""Seconds for which the end of a job waits for a ps that does not answer."""

_LAST_DELTA_SECS = 600.0
"""Seconds for the last delta (`--delta_every_secs`), before the job is done."""

_STALLED_SECS, _STALLED_STEPS = 5.0, 10
"""Seconds, and number of the chief's steps, for which a checkpoint waits for a worker that makes no step."""

_GIVE_UP_SECS = 3.0
"""Seconds after which a checkpoint still being written when its session was lost is abandoned."""


class ChiefTraining(WorkerTraining):
    """The chief in training.

    Args:
      prepared: the task.
      joined: its connections to the job, its monitor of the replicas, and its observer.
      console: where it writes.
      server: see `WorkerTraining`.
    """

    joined: JoinedAsChief

    _gave_up = ""
    """The tasks that the chief has given up waiting for, as the reason of an end below max_steps; "" for none."""

    def __init__(
        self, prepared: Prepared, joined: JoinedAsChief, console: Console, server: v1.train.Server | None = None
    ) -> None:
        super().__init__(prepared, joined, console, server)
        self._console = console
        self.save_steps = prepared.job.save_steps
        self._start: tuple[float, int, float] | None = None
        self._limit, self._paused_at = 0, (0, 0.0)
        self._newest_session: v1.Session | None = None
        self._has_recovered = False
        self._watcher: SaveWatcher | None = None
        self._deltas: DeltaWriter | None = None
        self._event_cuts: EventCuts | None = None

    def agree(self) -> None:
        """Does nothing: the other tasks agree with the chief."""

    def chief_only_hooks(self) -> list[Any]:
        """Makes the savers and the recovery; returns the hooks for progress and saving."""
        prepared, joined = self.prepared, self.joined
        job, directory = prepared.job, joined.directory
        names, topology = [str(task) for task in prepared.cluster.possible_replicas()], prepared.topology
        if topology is not None:
            names = [f"rack {name}" for name in topology.names]
            joined.observer.board.set_topology(topology)
        declared = prepared.cluster.num_replicas if topology is None else len(names)
        self._counters_at = functools.partial(RunCounterValues, job.update, names, declared)
        self._counted, step_after = self._count(), self.step.ops.step_after
        with tf.control_dependencies([step_after]):
            fetches = StepFetches(self.step.worker.loss, step_after, self._count())
        self._progress = ProgressHook(fetches, job, self._counters_at, self._show, directory)
        summaries = summaries_of(self.step.graph) if job.summary_steps else []
        self.summary_steps = job.summary_steps if summaries else 0
        self._progress.texts = {"job": text_of(job, self.prepared.plan)}
        self._tracking = make_tracking(job, joined.observer.board, self._progress.add_summary)
        joined.observer.tracking, self._progress.track = self._tracking, self._tracking.add
        self._listeners = SaveListeners(self.prepared.model.saving_listeners(), self.model_hooks.end_training)
        device = device_of(self.prepared.task, self.prepared.cluster)
        self._checkpoints, self._snapshots = make_savers(job, self.step, directory, device, self._listeners)
        self._checkpoints.shown_directory = joined.model_directory.name
        self._saver = SaveHook(self._snapshots, fetches.step, job.save_steps, self._save_secs(), self._allow_steps)
        client = self.shard_client
        for table in [table for part in self.step.parts.of(Sharding) for table in part.ownership.event_cuts]:
            if isinstance(client, PartitionClient):
                self._event_cuts = EventCuts(table, client, job, directory, self._save_cut, self._console.line)
        if job.delta_every_secs:
            self._deltas = DeltaWriter(directory, job.delta_every_secs)
        process_id, task, members = joined.heartbeat.process_id, str(prepared.task), joined.membership.present
        self._recovery = Recovery(
            job, joined.stores, self.step, self._checkpoints, self._console, process_id, task, members,
            joined.model_directory.set_aside, self._first_values(device),
        )  # fmt: skip
        stopping = early_stop_hooks(job.early_stop, directory, fetches.step, self.model_hooks.end_training)
        ps, values = self.step.ps, self.step.adapted
        fetched = fetches.args().fetches
        adapting = [AdaptationHook(values, ps.global_step, fetched, self.profile.tracer)] if values else []
        written = SummaryHook(summaries, job, fetches.step, self._next_step, self._progress)
        return [self._progress, self._saver, LabelValuesHook(), *stopping, *([written] if summaries else []), *adapting]

    def _allow_steps(self, limit: int) -> None:
        """Lets workers make steps up to a global step; in lockstep the chief's own steps end at each multiple."""
        self._limit, ops = limit, self.step.ops
        if not self.step.lockstep:
            self.ledger.allow(limit)
        for one in ops.limits:
            assert self._newest_session is not None, "prepare_session was called"
            self._newest_session.run(one.op, {one.step: limit})

    def while_paused(self, is_first: bool) -> bool:
        """Takes the checkpoint for which the steps wait, as soon as the steps before it are made."""
        session = self._unhooked_session()
        step = int(session.run(self.step.ps.global_step))
        self._saver.observe(step, session)
        self._watch_pause(step, is_first)
        return super().while_paused(is_first)

    def _watch_pause(self, step: int, is_first: bool) -> None:
        """Gives the steps of dead workers to others, and goes on without the checkpoint if a worker is stalled."""
        now = time.monotonic()
        if is_first or step != self._paused_at[0]:
            self._paused_at = step, now
        still = now - self._paused_at[1]
        if still < POLL_SECS or step >= self._limit:
            return
        self.ledger.reclaim(lambda: int(self._unhooked_session().run(self.step.ps.global_step)), self._is_silent)
        if still > max(_STALLED_SECS, _STALLED_STEPS * (self.loop.step_secs if self.loop is not None else 0.0)):
            log.warning(
                "no checkpoint is taken at step %d: a worker has not made its steps before it for %.0fs",
                self._limit,
                still,
            )
            self._allow_steps(self._limit + self.prepared.job.save_steps)

    def _is_silent(self, status: TaskStatus) -> bool:
        return self.joined.membership.is_silent(status)

    def _save_secs(self) -> float:
        """Returns the seconds between checkpoints, of which deltas are made; 0 for none by time."""
        return min(
            (secs for secs in (self.prepared.job.save_secs, self.prepared.job.delta_every_secs) if secs), default=0
        )

    def _first_values(self, device: str) -> list[Callable[[v1.Session], None]]:
        """Makes the first values of a new run in the graph; returns the functions that write them and their report."""
        prepared, found = self.prepared, self.prepared.warm_start
        job = prepared.job
        given = InitialValues(prepared.variables, prepared.plan, self.step.ps.variables, device, job.seed)
        if found is None:
            return [given.write]
        warm = found.made(job, self.step.ps.entries, device)

        def begin(session: v1.Session) -> None:
            report = warm.report()
            for line in report.splitlines() if job.warm_start_report else [warm.summary()]:
                self._console.line(line)
            try:
                warm.write(session)
            except DamagedCheckpointError as error:
                raise ConfigError(f"{described(job, 'warm_start')}: {error}; give another checkpoint.") from None
            with open(os.path.join(self.joined.directory, WARM_START_REPORT), "w") as file:
                file.write(report + "\n")

        return [given.write, begin]

    def _count(self) -> dict[str, Any]:
        """Returns tensors with the present counters of the run."""
        adapted = {value.name: value.newest() for value in self.step.adapted}
        return counter_tensors(self.step.ps.counters) | ({"adapted": adapted} if adapted else {})

    def _show(self, progress: Progress, counters: RunCounterValues) -> None:
        self._console.progress(progress.text())
        self.joined.observer.board.progress(progress, counters, self._shown_saves())

    def _shown_saves(self) -> dict[str, Any] | None:
        saves = self._saves_report()
        return saves and {**saves, "last_step": self._checkpoints.newest}

    def _saves_report(self) -> dict[str, Any] | None:
        saves = self._snapshots.report()
        return saves and {**saves, "late": self._saver.late}

    def _end_training(self, hook: str) -> None:
        """Ends the training of all tasks at the request of a hook."""
        super()._end_training(hook)
        self.joined.stores[0].set(records.TRAINED, hook)

    def _next_step(self) -> int:
        return self.loop.next_step if self.loop is not None else 0

    def before_release(self) -> None:
        """Waits briefly for the checkpoint that is being written."""
        if self._watcher is not None:
            self._watcher.stop()
        self._snapshots.wait_briefly(_GIVE_UP_SECS)  # the recovery may restore this checkpoint

    def prepare_session(self, session: v1.Session) -> int:
        """Initializes or restores the model, and opens the input; returns the global step."""
        self._snapshots.begin_session()
        session.run(self.step.ps.uninitialized)  # connects to every ps
        self._checkpoints.find_writers(session)
        gc_control.resume()
        # Written again in every session: a restarted ps 0 has lost it.
        self.joined.stores[0].set(records.DESCRIPTION, json.dumps(self.prepared.description))
        found = ready_records(self.joined.stores)
        # What is restored whole is what the checkpoint holds; else a ps may have made updates since.
        is_restored = None in found and self.prepared.job.recovery_mode != "partial"
        self._has_recovered = any(found) and not is_restored
        ready = self._recovery.prepare(session, found, self._progress.step if self._start else None)
        self._enter_generation(ready)
        self._tracking.begin(functools.partial(self._tracked_run, ready.run_id))
        if self._start is None:
            if any(found) and self.rack is None:  # the previous chief may have left a step unfinished
                self.remove_replica(self.prepared.replica.index, session)
            self._start = (time.monotonic(), ready.step, float(session.run(self.step.ps.counters.examples)))
        self._newest_session = session
        if self._event_cuts is not None:
            self._event_cuts.restored(ready.step)
        self._saver.started(
            ready.step, max((s for s, _ in run_checkpoints(self.joined.directory) if s <= ready.step), default=0)
        )
        self._progress.resumed(ready.step)
        self.step.local.prepare(session)
        self.open_input(ready.step)
        return ready.step

    def _tracked_run(self, run_id: str) -> TrackedRun:
        prepared, directory = self.prepared, self.joined.directory
        found = prepared.variables.described(), directory, run_id, source_file_of(prepared.model)
        return tracked_run(prepared.job, prepared.plan, *found)

    def train(self, session: Any) -> None:
        """Makes steps until the job has no more, then saves, scores the test split and ends the job."""
        self.joined.membership.remove_replica = self._remove_absent
        self.joined.membership.awaited = self._awaited if self.step.ops.awaited else None
        unhooked = self._unhooked_session()
        watcher = self._watcher = SaveWatcher(
            self._saver, self.step.ps.global_step, unhooked, self.joined.events.stop.is_set
        )
        watcher.start()
        try:
            while True:
                self._run_loop(session)
                if not self._more_to_do():
                    break
        finally:
            watcher.stop()
        with abandonable(unhooked):
            watcher.join()
        if self.model_hooks.hooks:
            self.joined.stores[0].set(records.ENDING, str(self.prepared.task))
        self.model_hooks.close(self._unhooked_session())
        self._finish()

    def _more_to_do(self) -> bool:
        """Waits for the other tasks; returns True when the lost steps of a dead worker are allocated again."""
        job, session = self.prepared.job, self._unhooked_session()
        last_step, deadline = -1, 0.0
        while not self.joined.events.stop.is_set():
            if self.session_is_over():
                raise LostConnectionError("a ps was restarted")
            others = PeerStates.from_records(
                task_statuses(self.joined.stores[0].items()), str(self.prepared.task), self._is_alive
            )
            step = self._observe_others(session)
            if not self.step.lockstep and step < job.max_steps:
                self.ledger.reclaim(lambda: self._observe_others(session), self.joined.membership.is_silent)
            if self._has_more_steps(LoopExit.INPUT if self.input_ended else LoopExit.STEPS):
                return True
            if self._event_cuts is not None and step < job.max_steps:
                self._event_cuts.advance(session)
            is_over = step >= job.max_steps or self.has_ended
            if not others.training and (is_over or self._input_exhausted(others)):
                return False
            waits_for_rows = isinstance(self.shard_client, PartitionClient) and not others.training
            if step > last_step or waits_for_rows:
                last_step, deadline = step, time.monotonic() + job.finish_timeout_secs
            if time.monotonic() > deadline:
                log.warning("no longer waiting for %s (finish_timeout_secs)", ", ".join(others.training))
                self._gave_up = "given up waiting for " + ", ".join(others.training)
                return False
            time.sleep(POLL_SECS)
        self._park_forever()
        return False

    def _is_alive(self, status: TaskStatus) -> bool:
        return not (process_exited(status) or self.joined.membership.is_silent(status))

    def _input_exhausted(self, others: PeerStates) -> bool:
        """Returns True if no task will train again; called when none trains."""
        if self.shard_client is None:
            return self.step.lockstep or (self.input_ended and not others.waiting)
        self.input_ended = self.shard_client.is_over()
        if not self.input_ended:  # dead workers do not release their shards
            self.shard_client.release_all()
        return self.input_ended

    def _awaited(self) -> tuple[int, list[int]] | None:
        session = self.session
        if session is None:
            return None
        try:
            step, awaited = session.run([self.step.ps.global_step, *self.step.ops.awaited], options=SHORT_CALL)
        except PS_LOST_ERRORS as error:
            log.debug("the awaited replicas are unknown: %s", cause_of(error))
            return None
        indices = [index for index, missing in enumerate(awaited) if missing]
        topology = self.prepared.topology
        if topology is None:
            return int(step), indices
        tasks = [task for index in indices for task in topology.workers[index]]
        replicas = [str(task) for task in self.prepared.cluster.replicas()]
        return int(step), [replicas.index(task) for task in tasks]

    def _remove_absent(self, index: int) -> bool:
        """Removes an absent replica from the rounds on the ps; or its rack, once all its workers are absent."""
        topology = self.prepared.topology
        if topology is None:
            return self.remove_replica(index)
        place = topology.place(self.prepared.cluster.replicas()[index])
        if any(task in self.joined.membership.present() for task in topology.workers[place.index]):
            return True
        return self.remove_pusher(place.index)

    def _observe_others(self, session: v1.Session) -> int:
        """Returns the global step; shows and saves the progress while only other tasks train."""
        step, counted = session.run([self.step.ps.global_step, self._counted])
        self._progress.observe(int(step), counted)
        self._saver.observe(int(step), session)
        return int(step)

    def _save_cut(self, session: v1.Session) -> int:
        """Saves a checkpoint while no worker makes steps; returns its step."""
        self._snapshots.wait(session)
        self._saver.poll()
        self._saver.step = self._snapshots.save(session)
        return self._saver.step

    def _save_last(self, session: v1.Session, step: int) -> None:
        self._snapshots.wait(session)
        self._saver.poll()
        were_applied = [part.residuals.apply(session) for part in self.step.parts.of(PushCodec)]
        # After a recovery the other ps may have made updates since the checkpoint of this very step.
        is_old = step != self._saver.step or (self._has_recovered and not self._saver.is_of_session)
        if any(were_applied) or is_old:
            self._snapshots.save(session)
        self._listeners.end(session, step)

    def _finish(self) -> None:
        """Saves the last checkpoint, scores it, writes the result, and publishes the outcome."""
        job, console, session = self.prepared.job, self._console, self._unhooked_session()
        self.joined.observer.board.is_finishing = True
        start_time, first_step, first_examples = self._start or (0.0, 0, 0.0)
        wall_secs = time.monotonic() - start_time
        step, counted = session.run([self.step.ps.global_step, self._counted])
        counters = self._counters_at(**counted)
        made, examples_made = int(step) - first_step, float(counters.examples) - first_examples
        if int(step) < job.max_steps:
            client, name = self.shard_client, self.prepared.source.name
            none = no_rows(client.source_name) if isinstance(client, PartitionClient) else no_examples(name)
            check_trained(job, none, self._gave_up, made, counters.examples)
        self._save_last(session, int(step))
        metrics = EvalCoordinator(self.prepared, self.joined, counters.examples).score(self.sessions)
        scale = next((float(session.run(part.present)) for part in self.step.parts.of(LossScaling)), None)
        summary = RunSummary(
            int(step), made, examples_made, wall_secs, self._progress.loss, metrics, counters,
            self._saves_report(), scale,
        )  # fmt: skip
        reason = "ended by a hook" if self.has_ended else self._gave_up or "all input ended"
        if report_end(summary, job, reason, self.joined.directory, console, self.joined.observer):
            self._progress.add({f"test/{name}": value for name, value in metrics.items()}, int(step))
        self.joined.model_directory.flush(_LAST_UPLOAD_SECS)
        console.line(f"checkpoint {self._checkpoints.shown_path(step)}")
        self._tracking.tag("checkpoint", self._checkpoints.shown_path(step))
        if self._deltas is not None:
            self._deltas.finish(_LAST_DELTA_SECS)
            console.line(f"deltas {os.path.join(self.joined.directory, DELTAS)}")
        if job.final_export_dir:
            directory = prepare_export(job.final_export_dir)
            checkpoint = self._checkpoints.path(step)
            exported = export_model(job, self.prepared.model, self.prepared.source, checkpoint, directory)
            console.line(f"exported {exported}")
            self._tracking.tag("export", exported)
        for line in (
            advice(self.joined.model_directory.name, job.export_dir, int(step), is_call=REPORT_VARIABLE in os.environ)
            if self.prepared.model.gives_advice
            else ()
        ):
            console.line(line)
        self._wait_for_lost_ps()
        outcome = Outcome(OutcomeKind.DONE, by=str(self.prepared.task))
        for store in self.joined.stores:
            try:
                store.compare_and_set(records.OUTCOME, "", outcome.to_json())
            except LostTaskError as error:  # the model is saved; that ps is not needed now
                log.warning("%s: it did not receive the news that the job is done", error)

    def _wait_for_lost_ps(self) -> None:
        """Waits for ps that are being restarted: one that comes after the outcome would wait for a job in vain.

        This thread is given up if one comes back, and training goes on to its end with it.
        """

        def all_answer() -> bool:
            try:
                return all(store.get(records.IDENTITY) for store in self.joined.stores)
            except LostTaskError as error:
                log.debug("%s", error)
                return False

        within_secs = min(_RETURN_SECS, self.prepared.job.recovery_timeout_secs)
        poll_until(all_answer, time.monotonic() + within_secs, POLL_SECS)

    def _unhooked_session(self) -> v1.Session:
        assert self.session is not None, "the session exists before training begins"
        return self.session

    def close(self) -> None:
        """Writes the last point of the event files, if it is not written yet, and ends the profile and the deltas."""
        self.write_last_point()
        if self._deltas is not None:
            self._deltas.close()
        super().close()

    def write_last_point(self) -> None:
        """Writes the last point of the progress, if it is not written yet, and shows the last checkpoint."""
        if self._start is not None:
            self._progress.close()
            self.joined.observer.board.saved(self._shown_saves())

    def save_now(self, within_secs: float) -> None:
        """Saves a checkpoint now; may be called by any thread.

        Without a usable session it saves nothing.

        Args:
          within_secs: seconds to wait for the checkpoint.

        Raises:
          SaveError: no checkpoint could be taken; raised at once if a ps is silent.
        """
        session = None if self.session_is_over() else self.session
        ps_liveness = self.joined.heartbeat.ps_liveness
        if session is None:
            if silent := ps_liveness.silent_ps():
                raise SaveError(f"no checkpoint could be taken ({', '.join(silent)} does not answer)")
            return
        try:
            run_within(lambda: self._save(session), within_secs, lambda: bool(ps_liveness.silent_ps()))
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

    def _save(self, session: v1.Session) -> None:
        step = self._snapshots.save(session)
        self._console.line(f"saved {self._checkpoints.shown_path(step)}")
