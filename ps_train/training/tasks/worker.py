"""The role of a worker or of the chief (worker 0 unless a chief is named), from start to exit.

The process checks its configuration, connects to the ps and acquires its task lease.  Then it runs two threads.  The
main thread waits for signals and for the events of the heartbeat.  The other agrees with the chief on the job, and
trains.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ps_train.base.console import Console
from ps_train.base.errors import EXIT_DONE, RefusedError, SaveError, TooFewWorkersError, exit_code_of_signal
from ps_train.base.lifecycle import Recorder, attach
from ps_train.base.process_stats import instruction_set_line
from ps_train.base.signals import GRACE_SECS, MainThreadEvents
from ps_train.base.untrusted import read_object
from ps_train.base.user_code import describe
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.addresses.resolver import ClusterResolver
from ps_train.cluster.membership import records
from ps_train.cluster.membership.connect import connect_all_ps, patient, retry_until
from ps_train.cluster.membership.directory_lock import DirectoryLock, held_directory
from ps_train.cluster.membership.heartbeat import FailureDetector, Heartbeat
from ps_train.cluster.membership.job_diff import diff_configs, job_fingerprint
from ps_train.cluster.membership.kv_store import KeyValueStore
from ps_train.cluster.membership.lease import Lease
from ps_train.cluster.membership.membership import MembershipMonitor
from ps_train.cluster.membership.records import StopRequest, TaskState, new_task_status
from ps_train.cluster.membership.run_status import RunState, StatusFile
from ps_train.cluster.membership.telemetry import TelemetrySource
from ps_train.cluster.sessions.abandonable import BackgroundTask
from ps_train.config.file_systems import check_file_systems
from ps_train.config.job import Job, Task
from ps_train.config.job_values import described
from ps_train.data.pipeline import DataSource
from ps_train.data.shards.shard_readers import described_shards
from ps_train.engine.checkpoint.export import prepare_export, served_features
from ps_train.engine.checkpoint.files import prepare_directory
from ps_train.engine.step.towers import find_towers
from ps_train.engine.variables.plan import Plan, make_plan
from ps_train.engine.variables.trace import ModelVariables, trace
from ps_train.modeling.model import Model, ignores_data_dir, load_model
from ps_train.modeling.splits import training_source
from ps_train.observe.status.observer import JobObserver
from ps_train.training.loop.chief_duties import ChiefDuties
from ps_train.training.loop.task_context import TrainingContext
from ps_train.training.loop.worker_duties import WorkerDuties
from ps_train.training.loop.worker_training import WorkerTraining
from ps_train.training.tasks.dtype_check import check_compute_dtype
from ps_train.training.tasks.job_end import exit_code, is_config, stop_job
from ps_train.training.tasks.model_check import check_model, warn_of_not_finite

log = logging.getLogger(__name__)

_PARK_SECS = 2.0
_SAVE_SECS = GRACE_SECS - _PARK_SECS - 1.0
"""Seconds for the last checkpoint after a signal; the rest is for the other tasks to receive the outcome."""
_LEAVE_SECS = GRACE_SECS - 4.0
_LAST_SAVE_SECS = 600.0
"""Seconds for the last checkpoint of a job that ends without a signal."""


class TracedModel(NamedTuple):
    """A model whose code has been run once, in a scratch graph.

    Attributes:
      model: the model.
      source: its training data.
      variables: its variables.
    """

    model: Model
    source: DataSource
    variables: ModelVariables


def traced(model: Model, job: Job) -> TracedModel:
    """Runs a model's code once, before any server starts; raises ModelError if it cannot be trained."""
    source = training_source(model, job)
    return TracedModel(model, source, trace(model, source, job.batch_sizes.lower, job.seed))


def run(job: Job, task: Task, console: Console, given: TracedModel | None = None) -> int:
    """Trains; returns the exit code when the job is done or was stopped, raises an error when it failed.

    Args:
      job: the job.
      task: this task.
      console: where the chief writes.
      given: the model; None for the one that the job names.
    """
    resolver = ClusterResolver(job)
    cluster = resolver.cluster
    cluster.address(task)  # raises ConfigError for an unknown task
    is_chief = task == cluster.chief
    model = load_model(job.model, job.model_arguments(), job.sources) if given is None else given.model
    check_file_systems(job)
    if not is_chief:
        return _run(job, task, resolver, console, given or traced(model, job))
    directory = prepare_directory(job.model_dir)
    with held_directory(directory, str(task), job.heartbeat_timeout_secs) as lock:
        if job.export_dir:
            prepare_export(job.export_dir)
        return _run(job, task, resolver, console, given or traced(model, job), lock)


def _run(
    job: Job,
    task: Task,
    resolver: ClusterResolver,
    console: Console,
    traced_model: TracedModel,
    lock: DirectoryLock | None = None,
) -> int:
    """Joins the job and trains; a task with the lock of its model directory is the chief."""
    cluster, is_chief, towers = resolver.cluster, lock is not None, find_towers(job)
    model, source, variables = traced_model
    if is_chief:
        _check_as_chief(model, job, variables, source)
    plan = make_plan(variables.specs(), len(cluster.ps))
    recorder = attach(Recorder(job.events_json if is_chief else ""))
    observer = JobObserver(job, cluster, plan, recorder, lock.directory) if lock is not None else None
    description = {**job_fingerprint(job), **variables.described(), **described_shards(job, source)}
    stores = connect_all_ps(resolver, task, job.shared_fields(), job.startup_timeout_secs)
    lease = Lease(stores[0], new_task_status(str(task)))
    _when_answered(lambda: lease.acquire(job.heartbeat_timeout_secs), stores[0], job)
    if observer is not None:
        _show_start(console, job, plan)
        observer.start(console)
        _when_answered(lambda: _describe(stores[0], description, str(task)), stores[0], job)
    events, (membership, detector) = MainThreadEvents(), _monitors(job, cluster, is_chief)
    heartbeat = Heartbeat(stores, resolver, lease, events, job, membership if is_chief else detector)
    context = TrainingContext(
        job, task, resolver, cluster, model, source, variables, plan, description, stores,
        heartbeat, events, console, lock.directory if lock is not None else "", _measured(lease, recorder), observer,
        towers,
    )  # fmt: skip
    training = WorkerTraining(context)
    chief = ChiefDuties(training, membership) if is_chief else None
    training.duties = chief if chief is not None else WorkerDuties(training)
    if observer is not None and lock is not None:
        observer.watch(heartbeat)
        lock.watch(events.set_terminal_error)
    heartbeat.start()
    try:
        return _train_as_chief(training, chief, context) if chief is not None else _supervise(training, None, context)
    finally:
        training.profile.close()
        heartbeat.stop()
        events.close()


def _when_answered(call: Callable[[], None], store: KeyValueStore, job: Job) -> None:
    """Makes a call to ps 0 again until it is answered: no heartbeat watches this ps yet."""
    retry_until(lambda: patient(call), job.startup_timeout_secs, store.name)


def _show_start(console: Console, job: Job, plan: Plan) -> None:
    """Shows the plan, and the CPU's instructions if the job computes in 16 bits."""
    console.line(plan.table())
    if job.is_mixed:
        console.line(instruction_set_line(job.compute_dtype))


def _monitors(job: Job, cluster: Cluster, is_chief: bool) -> tuple[MembershipMonitor, FailureDetector]:
    """Returns the monitor of the chief and that of another worker."""
    now, silence = time.monotonic(), {str(cluster.chief): job.recovery_timeout_secs}
    membership = MembershipMonitor(job, cluster, now, BackgroundTask() if is_chief else lambda work: None)
    return membership, FailureDetector(silence, job.startup_timeout_secs, now)


def _measured(lease: Lease, recorder: Recorder) -> TelemetrySource:
    """Makes the heartbeats of this task carry its measurements and events."""
    telemetry = TelemetrySource(recorder)
    lease.telemetry = telemetry.read
    return telemetry


def _check_as_chief(model: Model, job: Job, variables: ModelVariables, source: DataSource) -> None:
    """Checks what only the chief needs: the methods of the model, test data, features to export, values of the data."""
    check_model(model, job, variables)
    check_compute_dtype(model, job, variables, source)
    if job.export_dir:
        served_features(source)
    warn_of_not_finite("train", source.loaded)
    if job.data_dir and ignores_data_dir(model):
        log.warning("%s has no effect: the model's data() does not read it", described(job, "data_dir"))


def _train_as_chief(training: WorkerTraining, chief: ChiefDuties, context: TrainingContext) -> int:
    """Supervises a chief; writes the status of the run into model_dir, where an evaluator reads it."""
    status = StatusFile(context.directory, context.heartbeat.process_id, context.job.last_step or 0)
    status.begin()
    try:
        code = _supervise(training, chief, context)
    except BaseException as error:
        if not isinstance(
            error, RefusedError
        ):  # a refused chief does not own the status: another process may be the chief
            _end(status, context, RunState.FAILED, cause=describe(error), config=is_config(error))
        raise
    finally:
        chief.close()
    state = RunState.DONE if code == EXIT_DONE else RunState.STOPPED
    _end(status, context, state, signum=max(0, code - exit_code_of_signal(0)))
    return code


def _end(status: StatusFile, context: TrainingContext, state: RunState, cause: str = "", **how: Any) -> None:
    """Tells the evaluator and the status page how the run ended."""
    status.end(state, cause=cause, **how)
    if context.observer is not None:
        context.observer.end(state.value, cause or None)
        context.observer.stop()


def _describe(store: KeyValueStore, description: Mapping[str, Any], task: str) -> None:
    """Publishes the chief's description of the job, with which all other tasks must agree.

    Raises:
      RefusedError: the ps hold the model of another job; the previous chief's description differs.
    """
    previous = store.get(records.DESCRIPTION)
    if previous and store.get(records.READY):
        found = diff_configs(read_object(previous), description, "the job that they serve", task)
        if found:
            raise RefusedError(f"the ps still serve another job than {task}'s: {'; '.join(found)}; stop its processes.")
    store.set(records.DESCRIPTION, json.dumps(description))


def _supervise(training: WorkerTraining, chief: ChiefDuties | None, context: TrainingContext) -> int:
    """Runs the training thread until it finishes or another event ends the job; returns the exit code."""
    events, result = context.events, _TrainingResult()
    thread = threading.Thread(target=_train, args=(training, events, result), daemon=True, name="training")
    thread.start()
    stop_requested = False
    while True:
        events.wait()
        if events.terminal_error is not None:
            if chief is not None and isinstance(events.terminal_error, TooFewWorkersError):
                _save(chief, _LAST_SAVE_SECS)
            return exit_code(events.terminal_error, training)
        if result.code is not None:
            context.heartbeat.announce_leaving()
            return result.code
        if events.signum is not None and context.job.is_elastic and chief is None:
            return _leave_job(training, context)
        if events.signum is not None and not stop_requested:
            stop_requested = True
            log.warning("%s got signal %d: the chief saves, then the job stops", context.task, events.signum)
            if not training.begun and chief is None:
                return exit_code_of_signal(events.signum)  # there is no model yet to save
            request = StopRequest(str(context.task), events.signum).to_json()
            _request_stop(context, request)
        stop = context.heartbeat.stop_request
        if chief is not None and (events.signum is not None or stop is not None):
            training.park(_PARK_SECS)
            return _stop(chief, stop or StopRequest(str(context.task), events.signum or 0), context)


def _request_stop(context: TrainingContext, request: str) -> None:
    context.heartbeat.on_each_ps(lambda index: context.stores[index].set(records.STOP, request))


class _TrainingResult:
    code: int | None = None


def _train(training: WorkerTraining, events: MainThreadEvents, result: _TrainingResult) -> None:
    try:
        training.run()
        result.code = EXIT_DONE
    except BaseException as error:  # the main thread reports every error
        events.set_terminal_error(error)
    events.wake()


def _leave_job(training: WorkerTraining, context: TrainingContext) -> int:
    """Leaves an elastic job, which continues without this worker; returns the exit code."""
    log.warning("%s got signal %d: it leaves the job (elastic)", context.task, context.events.signum)
    training.leave_job(min(context.job.heartbeat_timeout_secs, _LEAVE_SECS))
    if context.events.terminal_error is not None:
        return exit_code(context.events.terminal_error, training)
    context.heartbeat.announce_leaving(TaskState.LEFT)
    return EXIT_DONE


def _stop(chief: ChiefDuties, stop: StopRequest, context: TrainingContext) -> int:
    """Saves and ends the job; returns the exit code.

    A training thread may hang in a step that waits for another worker.  It changes nothing while it hangs, so the state
    can still be saved.
    """
    _save(chief, _SAVE_SECS)
    return stop_job(context, stop)


def _save(chief: ChiefDuties, within_secs: float) -> None:
    try:
        chief.save_now(within_secs)
    except SaveError as error:
        log.error("%s: the job stops without this checkpoint", error)
