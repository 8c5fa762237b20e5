"""A worker, or the chief (worker 0 unless a chief is named): from start to exit.

It checks what it can, reaches the ps and takes its seat.  Then two threads: the main one waits for signals and for what
the heart hears; the other agrees with the chief on the job, and trains.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Mapping
from typing import Any

from ps_train.checkpoint.export import prepare_export
from ps_train.checkpoint.files import prepare_directory
from ps_train.cluster.resolver import ClusterResolver
from ps_train.config.job import Job
from ps_train.config.task import Task
from ps_train.coordination import records
from ps_train.coordination.connect import connect_all_ps
from ps_train.coordination.heartbeat import FailureDetector, Heartbeat, JobEnded, outcome_error
from ps_train.coordination.job_diff import diff_configs, job_fingerprint
from ps_train.coordination.kv_store import KeyValueStore
from ps_train.coordination.lease import Lease
from ps_train.coordination.membership_monitor import BackgroundTask, MembershipMonitor
from ps_train.coordination.records import Outcome, StopRequest, new_task_status
from ps_train.coordination.run_status import DONE, FAILED, STOPPED, StatusFile
from ps_train.data.pipeline import DataSource
from ps_train.errors import (
    EXIT_CONFIG,
    EXIT_DONE,
    ConfigError,
    PsTrainError,
    RefusedError,
    SaveError,
    TooFewWorkersError,
    exit_code_of_signal,
    headline,
)
from ps_train.model import load_model
from ps_train.placement.plan import make_plan
from ps_train.placement.trace import trace
from ps_train.runtime.console import Console
from ps_train.runtime.signals import GRACE_SECS, MainThreadEvents
from ps_train.sharding.readers import described_shards
from ps_train.training.chief_duties import ChiefDuties
from ps_train.training.context import TrainingContext
from ps_train.training.worker_duties import WorkerDuties
from ps_train.training.worker_training import WorkerTraining

log = logging.getLogger(__name__)

_PARK_SECS = 2.0
_SAVE_SECS = GRACE_SECS - _PARK_SECS - 1.0
"""A signal leaves the last checkpoint so much time; the rest is for the others to hear of the end."""
_LEAVE_SECS = GRACE_SECS - 4.0
_LAST_SAVE_SECS = 600.0
"""The last checkpoint of a job that no signal ends."""


def run(job: Job, task: Task, console: Console) -> int:
    """Trains; returns the exit code when the job is done or was stopped, raises when it failed."""
    whereabouts = ClusterResolver(job)
    cluster = whereabouts.cluster
    cluster.address(task)  # raises where there is no such task
    is_chief = task == cluster.chief
    if is_chief and not job.model_dir:
        raise ConfigError(f"model_dir is not given: {task} is the chief and needs --model_dir to save checkpoints in.")
    directory = prepare_directory(job.model_dir) if is_chief else ""
    if is_chief and job.export_dir:
        prepare_export(job.export_dir)
    model = load_model(job.model, job.model_arguments())
    source = DataSource(lambda: model.data("train", job.data_dir), job.max_bad_lines)
    traced = trace(model, source, job.batch_size, job.seed)
    plan = make_plan(traced.specs(), len(cluster.ps))
    description = {**job_fingerprint(job), **traced.described(), **described_shards(job, source)}
    boards = connect_all_ps(whereabouts, task, job.shared_fields(), job.startup_timeout_secs)
    lease = Lease(boards[0], new_task_status(str(task)))
    lease.acquire(job.worker_lease_secs)
    if is_chief:
        console.line(plan.table())
        _describe(boards[0], description, str(task))
    attention = MainThreadEvents()
    members = MembershipMonitor(job, cluster, time.monotonic(), BackgroundTask() if is_chief else lambda work: None)
    watch = FailureDetector({str(cluster.chief): job.recovery_secs}, job.startup_timeout_secs, time.monotonic())
    heart = Heartbeat(boards, whereabouts, lease, attention, job, members if is_chief else watch)
    setting = TrainingContext(
        job,
        task,
        whereabouts,
        cluster,
        model,
        source,
        traced,
        plan,
        description,
        boards,
        heart,
        attention,
        console,
        directory,
    )
    training = WorkerTraining(setting)
    chief = ChiefDuties(training, members) if is_chief else None
    if chief is None:
        WorkerDuties(training)
    heart.start()
    return _train_as_chief(training, chief, setting) if chief is not None else _supervise(training, None, setting)


def _train_as_chief(training: WorkerTraining, chief: ChiefDuties, setting: TrainingContext) -> int:
    """Supervises a chief; how the run goes on and ends stands in model_dir, where an evaluator reads it."""
    status = StatusFile(setting.directory, setting.heartbeat.process_id, setting.job.max_steps)
    status.begin()
    try:
        code = _supervise(training, chief, setting)
    except BaseException as error:
        if not isinstance(error, RefusedError):  # else another process may be the chief
            status.end(FAILED, cause=headline(error), config=_is_config(error))
        raise
    finally:
        chief.close()
    status.end(DONE if code == EXIT_DONE else STOPPED, signum=max(0, code - exit_code_of_signal(0)))
    return code


def _describe(board: KeyValueStore, description: Mapping[str, Any], task: str) -> None:
    """The chief's description of the job, with which all others must agree.  A model that is there already was trained
    as the chief before this one described it."""
    there = board.get(records.DESCRIPTION)
    if there and board.get(records.READY):
        found = diff_configs(json.loads(there), description, "the job that they serve", task)
        if found:
            raise RefusedError(f"the ps still serve another job than {task}'s: {'; '.join(found)}; stop its processes.")
    board.set(records.DESCRIPTION, json.dumps(description))


def _supervise(training: WorkerTraining, chief: ChiefDuties | None, setting: TrainingContext) -> int:
    """Lets the training thread work until it is through or something else ends the job."""
    attention, result = setting.events, _TrainingResult()
    thread = threading.Thread(target=_train, args=(training, attention, result), daemon=True, name="training")
    thread.start()
    told = False
    while True:
        attention.wait()
        if attention.terminal_error is not None:
            if chief is not None and isinstance(attention.terminal_error, TooFewWorkersError):
                _save(chief, _LAST_SAVE_SECS)
            return _exit_code(attention.terminal_error, setting)
        if result.code is not None:
            setting.heartbeat.announce_leaving()
            return result.code
        if attention.signum is not None and setting.job.elastic and chief is None:
            return _leave_job(training, setting)
        if attention.signum is not None and not told:
            told = True
            log.warning("%s got signal %d: the chief saves, then the job stops", setting.task, attention.signum)
            if not training.begun and chief is None:
                return exit_code_of_signal(attention.signum)  # there is nothing yet that could be saved
            request = StopRequest(str(setting.task), attention.signum).to_json()
            _request_stop(setting, request)
        stop = setting.heartbeat.stop_notice
        if chief is not None and (attention.signum is not None or stop is not None):
            training.park(_PARK_SECS)
            return _stop(chief, stop or StopRequest(str(setting.task), attention.signum or 0), setting)


def _request_stop(setting: TrainingContext, request: str) -> None:
    setting.heartbeat.on_each_ps(lambda index: setting.stores[index].set(records.STOP, request))


class _TrainingResult:
    code: int | None = None


def _train(training: WorkerTraining, attention: MainThreadEvents, result: _TrainingResult) -> None:
    try:
        training.run()
        result.code = EXIT_DONE
    except BaseException as error:  # reported by the main thread, whatever it is
        attention.set_terminal_error(error)
    attention.wake()


def _leave_job(training: WorkerTraining, setting: TrainingContext) -> int:
    """An elastic job goes on without this worker."""
    log.warning("%s got signal %d: it leaves the job (elastic)", setting.task, setting.events.signum)
    training.leave_job(min(setting.job.worker_lease_secs, _LEAVE_SECS))
    if setting.events.terminal_error is not None:
        return _exit_code(setting.events.terminal_error, setting)
    setting.heartbeat.announce_leaving(records.LEFT)
    return EXIT_DONE


def _stop(chief: ChiefDuties, stop: StopRequest, setting: TrainingContext) -> int:
    """Saves and ends the job.  A training thread that hangs in a step (one that waits for another worker) changes
    nothing while it hangs, so that the state can be saved all the same."""
    _save(chief, _SAVE_SECS)
    outcome = Outcome("stopped", by=stop.by, signum=stop.signum)
    _declare_outcome(setting, outcome)
    setting.heartbeat.announce_leaving()
    return _code_of(outcome)


def _save(chief: ChiefDuties, within_secs: float) -> None:
    try:
        chief.save_now(within_secs)
    except SaveError as error:
        log.error("%s: the job stops without it", error)


def _exit_code(verdict: BaseException, setting: TrainingContext) -> int:
    """The job is over for this process: tells the others what they do not know yet, and returns or raises."""
    if isinstance(verdict, JobEnded):
        setting.heartbeat.announce_leaving()
        return _code_of(verdict.outcome)
    if not isinstance(verdict, RefusedError):
        outcome = Outcome("failed", by=str(setting.task), cause=headline(verdict), config=_is_config(verdict))
        _declare_outcome(setting, outcome)
    raise verdict


def _is_config(error: BaseException) -> bool:
    return isinstance(error, PsTrainError) and error.exit_code == EXIT_CONFIG


def _code_of(outcome: Outcome) -> int:
    if outcome.kind == "failed":
        raise outcome_error(outcome)
    if outcome.kind == "stopped":
        log.warning("the job was stopped by a signal to %s", outcome.by)
        return exit_code_of_signal(outcome.signum)
    return EXIT_DONE


def _declare_outcome(setting: TrainingContext, outcome: Outcome) -> None:
    """Writes the outcome on every board that answers, unless there is one already."""
    setting.heartbeat.on_each_ps(
        lambda index: setting.stores[index].compare_and_set(records.OUTCOME, "", outcome.to_json())
    )
