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

from ps_train.checkpoint import prepare_directory
from ps_train.cluster import notices
from ps_train.cluster.agreement import described, differences
from ps_train.cluster.board import Board
from ps_train.cluster.lease import Lease
from ps_train.cluster.notices import Outcome, Stop, new_seat
from ps_train.cluster.probe import reach_all
from ps_train.cluster.whereabouts import Whereabouts
from ps_train.config import Job, Task
from ps_train.console import Console
from ps_train.data.readers import described_shards
from ps_train.data.shard import Source
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
from ps_train.export import prepare_export
from ps_train.graph.plan import make_plan
from ps_train.graph.trace import trace
from ps_train.model import load_model
from ps_train.roles.chief import Chief
from ps_train.roles.heart import EndOfJob, Heart, Watch, failure_of
from ps_train.roles.members import Background, Members
from ps_train.roles.run_status import DONE, FAILED, STOPPED, StatusFile
from ps_train.roles.setting import Setting
from ps_train.roles.supervise import GRACE_SECS, Attention
from ps_train.roles.training import Training

log = logging.getLogger(__name__)

_REST_SECS = 2.0
_SAVE_SECS = GRACE_SECS - _REST_SECS - 1.0
"""A signal leaves the last checkpoint so much time; the rest is for the others to hear of the end."""
_LEAVE_SECS = GRACE_SECS - 4.0
_LAST_SAVE_SECS = 600.0
"""The last checkpoint of a job that no signal ends."""


def run(job: Job, task: Task, console: Console) -> int:
    """Trains; returns the exit code when the job is done or was stopped, raises when it failed."""
    whereabouts = Whereabouts(job)
    cluster = whereabouts.cluster
    cluster.address(task)  # raises where there is no such task
    is_chief = task == cluster.chief
    if is_chief and not job.model_dir:
        raise ConfigError(f"model_dir is not given: {task} is the chief and needs --model_dir to save checkpoints in.")
    directory = prepare_directory(job.model_dir) if is_chief else ""
    if is_chief and job.export_dir:
        prepare_export(job.export_dir)
    model = load_model(job.model, job.model_arguments())
    source = Source(lambda: model.data("train", job.data_dir), job.max_bad_lines)
    traced = trace(model, source, job.batch_size, job.seed)
    plan = make_plan(traced.specs(), len(cluster.ps))
    description = {**described(job), **traced.described(), **described_shards(job, source)}
    boards = reach_all(whereabouts, task, job.shared_fields(), job.startup_timeout_secs)
    lease = Lease(boards[0], new_seat(str(task)))
    lease.take(job.worker_lease_secs)
    if is_chief:
        console.line(plan.table())
        _describe(boards[0], description, str(task))
    attention = Attention()
    members = Members(job, cluster, time.monotonic(), Background() if is_chief else lambda work: None)
    watch = Watch({str(cluster.chief): job.recovery_secs}, job.startup_timeout_secs, time.monotonic())
    heart = Heart(boards, whereabouts, lease, attention, job, members if is_chief else watch)
    setting = Setting(
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
    training = Chief(setting, members) if is_chief else Training(setting)
    heart.start()
    return _lead(training, setting) if isinstance(training, Chief) else _supervise(training, setting)


def _lead(chief: Chief, setting: Setting) -> int:
    """Supervises a chief; how the run goes on and ends stands in model_dir, where an evaluator reads it."""
    status = StatusFile(setting.directory, setting.heart.holder, setting.job.max_steps)
    status.begin()
    try:
        code = _supervise(chief, setting)
    except BaseException as error:
        if not isinstance(error, RefusedError):  # else another process may be the chief
            status.end(FAILED, cause=headline(error), config=_is_config(error))
        raise
    finally:
        chief.close()
    status.end(DONE if code == EXIT_DONE else STOPPED, signum=max(0, code - exit_code_of_signal(0)))
    return code


def _describe(board: Board, description: Mapping[str, Any], task: str) -> None:
    """The chief's description of the job, with which all others must agree.  A model that is there already was trained
    as the chief before this one described it."""
    there = board.get(notices.DESCRIPTION)
    if there and board.get(notices.READY):
        found = differences(json.loads(there), description, "the job that they serve", task)
        if found:
            raise RefusedError(f"the ps still serve another job than {task}'s: {'; '.join(found)}; stop its processes.")
    board.put(notices.DESCRIPTION, json.dumps(description))


def _supervise(training: Training, setting: Setting) -> int:
    """Lets the training thread work until it is through or something else ends the job."""
    attention, result = setting.attention, _Result()
    thread = threading.Thread(target=_train, args=(training, attention, result), daemon=True, name="training")
    thread.start()
    told = False
    while True:
        attention.wait()
        if attention.verdict is not None:
            if isinstance(training, Chief) and isinstance(attention.verdict, TooFewWorkersError):
                _save(training, _LAST_SAVE_SECS)
            return _conclude(attention.verdict, setting)
        if result.code is not None:
            setting.heart.say_farewell()
            return result.code
        if attention.signum is not None and setting.job.elastic and not isinstance(training, Chief):
            return _depart(training, setting)
        if attention.signum is not None and not told:
            told = True
            log.warning("%s got signal %d: the chief saves, then the job stops", setting.task, attention.signum)
            if not training.begun and not isinstance(training, Chief):
                return exit_code_of_signal(attention.signum)  # there is nothing yet that could be saved
            request = Stop(str(setting.task), attention.signum).to_json()
            _put_stop(setting, request)
        stop = setting.heart.stop_notice
        if isinstance(training, Chief) and (attention.signum is not None or stop is not None):
            return _stop(training, stop or Stop(str(setting.task), attention.signum or 0), setting)


def _put_stop(setting: Setting, request: str) -> None:
    setting.heart.on_each(lambda index: setting.boards[index].put(notices.STOP, request))


class _Result:
    code: int | None = None


def _train(training: Training, attention: Attention, result: _Result) -> None:
    try:
        training.run()
        result.code = EXIT_DONE
    except BaseException as error:  # reported by the main thread, whatever it is
        attention.raise_verdict(error)
    attention.wake()


def _depart(training: Training, setting: Setting) -> int:
    """An elastic job goes on without this worker."""
    log.warning("%s got signal %d: it leaves the job (elastic)", setting.task, setting.attention.signum)
    training.depart(min(setting.job.worker_lease_secs, _LEAVE_SECS))
    if setting.attention.verdict is not None:
        return _conclude(setting.attention.verdict, setting)
    setting.heart.say_farewell(notices.LEFT)
    return EXIT_DONE


def _stop(chief: Chief, stop: Stop, setting: Setting) -> int:
    """Saves and ends the job.  A training thread that hangs in a step (one that waits for another worker) changes
    nothing while it hangs, so that the state can be saved all the same."""
    chief.come_to_rest(_REST_SECS)
    _save(chief, _SAVE_SECS)
    outcome = Outcome("stopped", by=stop.by, signum=stop.signum)
    _declare(setting, outcome)
    setting.heart.say_farewell()
    return _code_of(outcome)


def _save(chief: Chief, within_secs: float) -> None:
    try:
        chief.save_now(within_secs)
    except SaveError as error:
        log.error("%s: the job stops without it", error)


def _conclude(verdict: BaseException, setting: Setting) -> int:
    """The job is over for this process: tells the others what they do not know yet, and returns or raises."""
    if isinstance(verdict, EndOfJob):
        setting.heart.say_farewell()
        return _code_of(verdict.outcome)
    if not isinstance(verdict, RefusedError):
        outcome = Outcome("failed", by=str(setting.task), cause=headline(verdict), config=_is_config(verdict))
        _declare(setting, outcome)
    raise verdict


def _is_config(error: BaseException) -> bool:
    return isinstance(error, PsTrainError) and error.exit_code == EXIT_CONFIG


def _code_of(outcome: Outcome) -> int:
    if outcome.kind == "failed":
        raise failure_of(outcome)
    if outcome.kind == "stopped":
        log.warning("the job was stopped by a signal to %s", outcome.by)
        return exit_code_of_signal(outcome.signum)
    return EXIT_DONE


def _declare(setting: Setting, outcome: Outcome) -> None:
    """Writes the outcome on every board that answers, unless there is one already."""
    setting.heart.on_each(lambda index: setting.boards[index].swap(notices.OUTCOME, "", outcome.to_json()))
