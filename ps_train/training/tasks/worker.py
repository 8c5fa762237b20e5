"""The role of a worker or of the chief (worker 0 unless a chief is named), from start to exit: prepare, join, train.

Then the process has two threads.  The main thread waits for signals and for the events of the heartbeat.  The other
agrees with the chief on the job, and trains.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from ps_train.base.console import Console
from ps_train.base.errors import EXIT_DONE, RefusedError, exit_code_of_signal, is_config
from ps_train.base.signals import GRACE_SECS, MainThreadEvents
from ps_train.base.user_code import describe
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.membership.preparing import told_as_preparing
from ps_train.cluster.membership.records import STOP, StopRequest, TaskState
from ps_train.cluster.membership.run_status import RunState, StatusFile
from ps_train.config.file_systems import check_file_systems
from ps_train.config.job import Job, Task
from ps_train.config.tracker_check import check_tracker
from ps_train.modeling.load_model import load_model
from ps_train.saved.export.export import prepare_export
from ps_train.training.duties.duty import End
from ps_train.training.duties.lists import Chief, Worker
from ps_train.training.joining.join import Joined, JoinedAsChief, join_as_chief, join_as_worker
from ps_train.training.joining.model_directory import directory_of_chief, end_upload
from ps_train.training.joining.prepare import BuiltStep, Prepared, check_as_chief, prepare
from ps_train.training.joining.warm_starts import find_warm_start
from ps_train.training.tasks.displays import displays
from ps_train.training.tasks.hosted_ps import hosted_ps
from ps_train.training.tasks.job_end import PARK_SECS, exit_code, save_last, stop_job
from ps_train.training.tasks.training import Training

log = logging.getLogger(__name__)

_SAVE_SECS = GRACE_SECS - PARK_SECS - 1.0
"""Seconds for the last checkpoint after a signal; the rest is for the other tasks to receive the outcome."""
_LEAVE_SECS = GRACE_SECS - 4.0


def run(
    job: Job,
    task: Task,
    console: Console,
    given: tuple[Prepared, BuiltStep | None] | None = None,
    joined_with: Callable[[MainThreadEvents], None] = lambda events: None,
) -> int:
    """Trains; returns the exit code when the job is done or was stopped, raises an error when it failed.

    Args:
      job: the same in every task.
      task: a worker or the chief.
      console: where the chief writes.
      given: the task, with its model, and its graph if that is built already; None: it is prepared here, with the model
        that the job names.
      joined_with: called with the events of this thread once the task is a member of the job.
    """
    cluster = Cluster.of(job)
    cluster.address(task)  # raises ConfigError for an unknown task
    model = load_model(job.model, job.model_arguments(), job.sources) if given is None else given[0].model
    check_file_systems(job)

    def prepared() -> tuple[Prepared, BuiltStep | None]:
        return given or (prepare(job, task, model), None)

    if task == cluster.chief:
        return _run_as_chief(job, task, cluster, console, prepared, joined_with)
    with hosted_ps(job, task, cluster) as server:
        one, built = prepared()
        with join_as_worker(one) as joined:
            joined_with(joined.events)
            training = Training(one, joined, console, server, Worker(one, built))
            return _ended(lambda: _supervise(training), training.ended)


def _run_as_chief(
    job: Job,
    task: Task,
    cluster: Cluster,
    console: Console,
    prepared: Callable[[], tuple[Prepared, BuiltStep | None]],
    joined_with: Callable[[MainThreadEvents], None],
) -> int:
    """Trains as the chief, which holds the model directory."""
    check_tracker(job)
    with directory_of_chief(job, task) as directory:
        if job.export_dir:
            prepare_export(job.export_dir)
        with hosted_ps(job, task, cluster) as server:
            one, built = prepared()
            check_as_chief(one)
            with told_as_preparing(job, task):
                warm_start = find_warm_start(job, one.model, one.variables, directory.path)
            with join_as_chief(one, directory, displays()) as joined:
                joined_with(joined.events)
                role = Chief(one, joined, console, warm_start, built)
                code = _train_as_chief(Training(one, joined, console, server, role), joined)
                end_upload(directory, is_done=code == EXIT_DONE)
                return code


def _train_as_chief(training: Training, joined: JoinedAsChief) -> int:
    """Supervises a chief; writes the status of the run into model_dir, where an evaluator reads it."""
    status = StatusFile(joined.directory, joined.heartbeat.process_id, training.prepared.job.last_step or 0)
    status.begin()

    def supervise() -> int:
        try:
            code = _supervise(training)
        except RefusedError:  # it does not own the status: another process may be the chief
            raise
        except BaseException as error:
            status.end(RunState.FAILED, cause=describe(error), config=is_config(error))
            raise
        signum = max(0, code - exit_code_of_signal(0))
        status.end(RunState.DONE if code == EXIT_DONE else RunState.STOPPED, signum=signum)
        return code

    def ended(end: End) -> None:
        training.ended(end)
        if end.state:
            joined.observer.end(end.state, end.cause)  # also where no duty was made yet
            joined.observer.stop()

    return _ended(supervise, ended)


def _ended(supervise: Callable[[], int], ended: Callable[[End], None]) -> int:
    """Runs `supervise`, then `ended` with how the training has ended."""
    try:
        code = supervise()
    except RefusedError:
        ended(End(""))
        raise
    except BaseException as error:
        ended(End(RunState.FAILED.value, describe(error)))
        raise
    ended(End((RunState.DONE if code == EXIT_DONE else RunState.STOPPED).value))
    return code


def _supervise(training: Training) -> int:
    """Runs the training thread until it finishes or another event ends the job; returns the exit code."""
    prepared, joined, result = training.prepared, training.joined, _TrainingResult()
    is_chief, events = prepared.is_chief, joined.events
    thread = threading.Thread(target=_train, args=(training, events, result), daemon=True, name="training")
    thread.start()
    stop_requested = False
    while True:
        events.wait()
        if events.terminal_error is not None:
            return exit_code(events.terminal_error, training)
        if result.code is not None:
            joined.heartbeat.announce_leaving()
            return result.code
        if events.signum is not None and prepared.job.is_elastic and not is_chief:
            return _leave_job(training)
        if events.signum is not None and not stop_requested:
            stop_requested = True
            log.warning("%s got signal %d: the chief saves, then the job stops", prepared.task, events.signum)
            if not training.has_begun and not is_chief and prepared.cluster.ps_of(prepared.task) is None:
                return exit_code_of_signal(events.signum)  # there is no model yet to save
            _request_stop(joined, StopRequest(str(prepared.task), events.signum))
        stop = joined.heartbeat.stop_request
        if is_chief and (events.signum is not None or stop is not None):
            save_last(training, _SAVE_SECS)
            return stop_job(joined, stop or StopRequest(str(prepared.task), events.signum or 0))


def _request_stop(joined: Joined, stop: StopRequest) -> None:
    joined.heartbeat.on_each_ps(lambda index: joined.stores[index].set(STOP, stop.to_json()))


class _TrainingResult:
    code: int | None = None


def _train(training: Training, events: MainThreadEvents, result: _TrainingResult) -> None:
    try:
        training.run()
        result.code = EXIT_DONE
    except BaseException as error:  # the main thread reports every error
        events.set_terminal_error(error)
    events.wake()


def _leave_job(training: Training) -> int:
    """Leaves an elastic job, which continues without this worker; returns the exit code."""
    prepared, joined = training.prepared, training.joined
    log.warning("%s got signal %d: it leaves the job (elastic)", prepared.task, joined.events.signum)
    training.leave_job(min(prepared.job.heartbeat_timeout_secs, _LEAVE_SECS))
    if joined.events.terminal_error is not None:
        return exit_code(joined.events.terminal_error, training)
    joined.heartbeat.announce_leaving(TaskState.LEFT)
    return EXIT_DONE
