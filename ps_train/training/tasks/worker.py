"""The role of a worker or of the chief (worker 0 unless a chief is named), from start to exit: prepare, join, train.

Then the process has two threads.  The main thread waits for signals and for the events of the heartbeat.  The other
agrees with the chief on the job, and trains.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from typing import Any

from ps_train.base.console import Console
from ps_train.base.errors import EXIT_DONE, RefusedError, SaveError, TooFewWorkersError, exit_code_of_signal
from ps_train.base.signals import GRACE_SECS, MainThreadEvents
from ps_train.base.user_code import describe
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.membership.records import STOP, StopRequest, TaskState
from ps_train.cluster.membership.run_status import RunState, StatusFile
from ps_train.config.file_systems import check_file_systems
from ps_train.config.job import Job, Task
from ps_train.config.tracker_check import check_tracker
from ps_train.modeling.model import load_model
from ps_train.saved.export.export import prepare_export
from ps_train.training.tasks.chief_training import ChiefTraining
from ps_train.training.tasks.hosted_ps import hosted_ps
from ps_train.training.tasks.job_end import exit_code, is_config, stop_job
from ps_train.training.tasks.join import Joined, JoinedAsChief, join
from ps_train.training.tasks.measured_weights import with_measured_weights
from ps_train.training.tasks.model_directory import ModelDirectory, directory_of_chief, end_upload
from ps_train.training.tasks.prepare import Prepared, check_as_chief, prepare, with_warm_start
from ps_train.training.tasks.worker_training import WorkerTraining

log = logging.getLogger(__name__)

_PARK_SECS = 2.0
_SAVE_SECS = GRACE_SECS - _PARK_SECS - 1.0
"""Seconds for the last checkpoint after a signal; the rest is for the other tasks to receive the outcome."""
_LEAVE_SECS = GRACE_SECS - 4.0
_LAST_SAVE_SECS = 600.0
"""Seconds for the last checkpoint of a job that ends without a signal."""


def run(job: Job, task: Task, console: Console, given: Prepared | None = None) -> int:
    """Trains; returns the exit code when the job is done or was stopped, raises an error when it failed.

    Args:
      job: the same in every task.
      task: a worker or the chief.
      console: where the chief writes.
      given: the task, with its model; None: it is prepared here, with the model that the job names.
    """
    cluster = Cluster.of(job)
    cluster.address(task)  # raises ConfigError for an unknown task
    model = load_model(job.model, job.model_arguments(), job.sources) if given is None else given.model
    check_file_systems(job)
    if task == cluster.chief:
        check_tracker(job)
    with directory_of_chief(job, task) if task == cluster.chief else contextlib.nullcontext() as directory:
        if directory is not None and job.export_dir:
            prepare_export(job.export_dir)
        with hosted_ps(job, task, cluster) as server:
            prepared = given or prepare(job, task, model)
            if directory is not None:
                check_as_chief(prepared)
                prepared = with_warm_start(prepared, directory.path)
            return _join_and_train(with_measured_weights(prepared), directory, console, server)


def _join_and_train(prepared: Prepared, directory: ModelDirectory | None, console: Console, server: Any) -> int:
    """Trains as a member of the job; returns the exit code."""
    with join(prepared, directory, console) as joined:
        if isinstance(joined, JoinedAsChief):
            with contextlib.closing(ChiefTraining(prepared, joined, console, server)) as chief:
                code = _train_as_chief(chief)
            end_upload(joined.model_directory, is_done=code == EXIT_DONE)
            return code
        with contextlib.closing(WorkerTraining(prepared, joined, console, server)) as training:
            return _supervise(training)


def _train_as_chief(chief: ChiefTraining) -> int:
    """Supervises a chief; writes the status of the run into model_dir, where an evaluator reads it."""
    joined = chief.joined
    status = StatusFile(joined.directory, joined.heartbeat.process_id, chief.prepared.job.last_step or 0)
    status.begin()
    try:
        code = _supervise(chief)
    except BaseException as error:
        if not isinstance(
            error, RefusedError
        ):  # a refused chief does not own the status: another process may be the chief
            _end(status, chief, RunState.FAILED, cause=describe(error), config=is_config(error))
        raise
    state = RunState.DONE if code == EXIT_DONE else RunState.STOPPED
    _end(status, chief, state, signum=max(0, code - exit_code_of_signal(0)))
    return code


def _end(status: StatusFile, chief: ChiefTraining, state: RunState, cause: str = "", **how: Any) -> None:
    """Tells the evaluator, the status page and the tracker how the run ended."""
    status.end(state, cause=cause, **how)
    chief.write_last_point()
    chief.joined.observer.end(state.value, cause or None)
    chief.joined.observer.stop()


def _supervise(training: WorkerTraining) -> int:
    """Runs the training thread until it finishes or another event ends the job; returns the exit code."""
    prepared, joined, result = training.prepared, training.joined, _TrainingResult()
    chief, events = training if isinstance(training, ChiefTraining) else None, joined.events
    thread = threading.Thread(target=_train, args=(training, events, result), daemon=True, name="training")
    thread.start()
    stop_requested = False
    while True:
        events.wait()
        if events.terminal_error is not None:
            if chief is not None and isinstance(events.terminal_error, TooFewWorkersError):
                training.park(_PARK_SECS)  # or the last steps would be in no checkpoint
                _save(chief, _LAST_SAVE_SECS)
            return exit_code(events.terminal_error, training)
        if result.code is not None:
            joined.heartbeat.announce_leaving()
            return result.code
        if events.signum is not None and prepared.job.is_elastic and chief is None:
            return _leave_job(training)
        if events.signum is not None and not stop_requested:
            stop_requested = True
            log.warning("%s got signal %d: the chief saves, then the job stops", prepared.task, events.signum)
            if not training.begun and chief is None and not prepared.cluster.ps_on_workers:
                return exit_code_of_signal(events.signum)  # there is no model yet to save
            _request_stop(joined, StopRequest(str(prepared.task), events.signum))
        stop = joined.heartbeat.stop_request
        if chief is not None and (events.signum is not None or stop is not None):
            training.park(_PARK_SECS)
            return _stop(chief, stop or StopRequest(str(prepared.task), events.signum or 0))


def _request_stop(joined: Joined, stop: StopRequest) -> None:
    joined.heartbeat.on_each_ps(lambda index: joined.stores[index].set(STOP, stop.to_json()))


class _TrainingResult:
    code: int | None = None


def _train(training: WorkerTraining, events: MainThreadEvents, result: _TrainingResult) -> None:
    try:
        training.run()
        result.code = EXIT_DONE
    except BaseException as error:  # the main thread reports every error
        events.set_terminal_error(error)
    events.wake()


def _leave_job(training: WorkerTraining) -> int:
    """Leaves an elastic job, which continues without this worker; returns the exit code."""
    prepared, joined = training.prepared, training.joined
    log.warning("%s got signal %d: it leaves the job (elastic)", prepared.task, joined.events.signum)
    training.leave_job(min(prepared.job.heartbeat_timeout_secs, _LEAVE_SECS))
    if joined.events.terminal_error is not None:
        return exit_code(joined.events.terminal_error, training)
    joined.heartbeat.announce_leaving(TaskState.LEFT)
    return EXIT_DONE


def _stop(chief: ChiefTraining, stop: StopRequest) -> int:
    """Saves and ends the job; returns the exit code.

    A training thread may hang in a step that waits for another worker.  It changes nothing while it hangs, so the state
    can still be saved.
    """
    _save(chief, _SAVE_SECS)
    return stop_job(chief.joined, stop)


def _save(chief: ChiefTraining, within_secs: float) -> None:
    try:
        chief.save_now(within_secs)
    except SaveError as error:
        log.error("%s: the job stops without this checkpoint", error)
