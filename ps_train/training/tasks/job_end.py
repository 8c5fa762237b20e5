"""The end of a job for one training task: the outcome that it publishes, and its exit code."""

from __future__ import annotations

import logging

from ps_train.base.errors import EXIT_CONFIG, EXIT_DONE, PsTrainError, RefusedError, exit_code_of_signal
from ps_train.base.user_code import describe
from ps_train.cluster.membership import records
from ps_train.cluster.membership.heartbeat import JobEnded, outcome_error
from ps_train.cluster.membership.records import Outcome, OutcomeKind, StopRequest
from ps_train.training.joining.join import Joined
from ps_train.training.tasks.training import Training

log = logging.getLogger(__name__)


def exit_code(error: BaseException, training: Training) -> int:
    """Ends the job for this process: publishes an outcome that the other tasks do not know yet; returns or raises."""
    task, joined = training.prepared.task, training.joined
    if isinstance(error, JobEnded):
        if error.outcome.kind == OutcomeKind.DONE:
            training.done()
        declare_outcome(joined, error.outcome)  # the task that declared it may not have reached every ps
        joined.heartbeat.announce_leaving()
        if error.outcome.kind == OutcomeKind.DONE:
            log.info("%s done: the job has ended", task)
        return code_of(error.outcome)
    if not isinstance(error, RefusedError):
        outcome = Outcome(OutcomeKind.FAILED, by=str(task), cause=describe(error), config=is_config(error))
        declare_outcome(joined, outcome)
    raise error


def is_config(error: BaseException) -> bool:
    """Returns True if the configuration was at fault, so that a restart cannot help."""
    return isinstance(error, PsTrainError) and error.exit_code == EXIT_CONFIG


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
