"""The end of a job for one training task: the outcome that it publishes, and its exit code."""

from __future__ import annotations

import logging

from ps_train.base.errors import EXIT_DONE, RefusedError, SaveError, TooFewWorkersError, exit_code_of_signal, is_config
from ps_train.base.user_code import describe
from ps_train.cluster.membership import records
from ps_train.cluster.membership.heartbeat import JobEnded, outcome_error
from ps_train.cluster.membership.records import Outcome, OutcomeKind, StopRequest
from ps_train.training.joining.join import Joined
from ps_train.training.tasks.training import Training

log = logging.getLogger(__name__)

PARK_SECS = 2.0
"""Seconds for the running step to end before the last checkpoint, or it would be in none."""
_LAST_SAVE_SECS = 600.0
"""Seconds for the last checkpoint of a job that ends without a signal."""


def exit_code(error: BaseException, training: Training) -> int:
    """Ends the job for this process: publishes an outcome that the other tasks do not know yet; returns or raises."""
    joined = training.joined
    try:
        raise error
    except JobEnded as ended:
        is_done = ended.outcome.kind == OutcomeKind.DONE
        if is_done:
            training.done()
        declare_outcome(joined, ended.outcome)  # the task that declared it may not have reached every ps
        joined.heartbeat.announce_leaving()
        if is_done:
            log.info("%s done: the job has ended", training.prepared.task)
        return code_of(ended.outcome)
    except RefusedError:  # another process may have the task
        raise
    except TooFewWorkersError:  # the chief's
        save_last(training, _LAST_SAVE_SECS)
        _declare_failed(training, error)
        raise
    except BaseException:
        _declare_failed(training, error)
        raise


def _declare_failed(training: Training, error: BaseException) -> None:
    by, cause = str(training.prepared.task), describe(error)
    declare_outcome(training.joined, Outcome(OutcomeKind.FAILED, by=by, cause=cause, config=is_config(error)))


def save_last(training: Training, within_secs: float) -> None:
    """Takes the last checkpoint of a job that ends before its last step; logs why it could not be taken."""
    training.park(PARK_SECS)
    try:
        training.stop(within_secs)
    except SaveError as error:
        log.error("%s: the job stops without this checkpoint", error)


def code_of(outcome: Outcome) -> int:
    """Returns the exit code of an outcome; raises the error of a job that failed."""
    if outcome.kind == OutcomeKind.FAILED:
        raise outcome_error(outcome)
    if outcome.kind == OutcomeKind.STOPPED:
        log.warning("the job was stopped by a signal to %s", outcome.by)
        return exit_code_of_signal(outcome.signum)
    return EXIT_DONE


def stop_job(joined: Joined, stop: StopRequest) -> int:
    """Ends the job because of a signal, unless it has ended already; returns the exit code."""
    outcome = declare_outcome(joined, Outcome(OutcomeKind.STOPPED, by=stop.by, signum=stop.signum))
    joined.heartbeat.announce_leaving()
    return code_of(outcome)


def declare_outcome(joined: Joined, outcome: Outcome) -> Outcome:
    """Writes the outcome into the store of every ps that answers, unless the store has one already.

    Returns:
      The outcome that stands: the one that was there before, as the other tasks may have read it.
    """
    before = [""] * len(joined.stores)

    def write(index: int) -> None:
        before[index] = joined.stores[index].compare_and_set(records.OUTCOME, "", outcome.to_json())

    joined.heartbeat.on_each_ps(write)
    earlier = next(filter(None, before), "")
    return Outcome.from_json(earlier) if earlier else outcome
