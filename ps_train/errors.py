"""Every error that ps_train raises on purpose, and the exit code that each one means.

    PsTrainError                      1
    |- ConfigError                    2   flags, flagfile, TF_CONFIG, addresses, directories
    |- ModelError                     2   the user's model class, or a checkpoint of another model
    |- DataError                      2   a data file that is missing or not of its format
    |- RefusedError                   2   this task must not join: another job, or the task is already running
    `- TrainingError                  1   worth a restart
       |- UnreachableError            1   a task did not answer in time
       |- LostTaskError               1   a task that was there is gone
       |- TooFewWorkersError          1   fewer than min_workers remain
       |- DivergedError               1   the loss is NaN or infinite
       |- SaveError                   1   a checkpoint could not be written
       |- DamagedCheckpointError      1   a checkpoint cannot be read
       `- JobFailedError              1   another task failed, or the job was given up

Exit codes: 0 done; 1 training failed (a restart may help); 2 wrong configuration (a restart never helps);
128 + n stopped by signal n (130 SIGINT, 143 SIGTERM).  See docs/OPERATING.md.

The text of an error says four things in one line: what was wrong, the value and where it came from, what is
allowed, what to do.  `headline` makes such a line of any other exception.  This module knows nothing of TensorFlow.
"""

from __future__ import annotations

import re

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_CONFIG = 2


def exit_code_of_signal(signum: int) -> int:
    """The shell's convention for a process that a signal ended: 128 + signum."""
    return 128 + signum


class PsTrainError(Exception):
    """Base of all errors that are reported as one line, without a stack trace."""

    exit_code = EXIT_FAILED


class ConfigError(PsTrainError):
    """The description of the job is wrong; found before any server starts."""

    exit_code = EXIT_CONFIG


class ModelError(PsTrainError):
    """The model cannot be trained as it is written."""

    exit_code = EXIT_CONFIG


class DataError(PsTrainError):
    """A data file is missing or is not of the format that its reader expects."""

    exit_code = EXIT_CONFIG


class RefusedError(PsTrainError):
    """This process may not take part in the job: it differs from the job, or its task is taken."""

    exit_code = EXIT_CONFIG


class TrainingError(PsTrainError):
    """The configuration is right but training failed; a restart may help."""


class UnreachableError(TrainingError):
    """A task that is needed did not answer before the deadline."""


class LostTaskError(TrainingError):
    """A task that answered before does not answer any more, or has lost its state."""


class TooFewWorkersError(TrainingError):
    """Workers have left, and fewer remain than the job asks for."""


class DivergedError(TrainingError):
    """A loss is not a finite number."""


class SaveError(TrainingError):
    """A checkpoint could not be written; those before it are as they were."""


class DamagedCheckpointError(TrainingError):
    """A checkpoint's files are damaged, incomplete or gone."""


class JobFailedError(TrainingError):
    """The job as a whole failed for a cause found in another task."""


_AROUND = (
    "Graph execution error",
    "From /job:",
    "Detected at",
    "Original stack trace",
    "File ",
    "Node:",
    "[[{{node",
    "Hint:",
)
_CODES = (
    "CANCELLED|UNKNOWN|INVALID_ARGUMENT|DEADLINE_EXCEEDED|NOT_FOUND|ALREADY_EXISTS|PERMISSION_DENIED|UNAUTHENTICATED|"
    "RESOURCE_EXHAUSTED|FAILED_PRECONDITION|ABORTED|OUT_OF_RANGE|UNIMPLEMENTED|INTERNAL|UNAVAILABLE|DATA_LOSS"
)
_BEFORE = re.compile(rf"\d+ root error\(s\) found\.|^\s*(\(\d+\) )?({_CODES}): ")
"""What TensorFlow writes before a cause, in its line."""

_LONGEST = 200


def cause_of(error: BaseException) -> str:
    """Returns the line of a TensorFlow error that says what happened, without the graph around it."""
    text = str(getattr(error, "message", error))
    lines = [line for line in (_BEFORE.sub("", line).strip() for line in text.splitlines()) if line]
    telling = [line for line in lines if not line.startswith(_AROUND) and line.strip("=")]
    return (telling or lines or [type(error).__name__])[0][:_LONGEST]


def headline(error: BaseException) -> str:
    """Returns one line that names an error: its type, unless it is one of ours, and what happened."""
    cause, name = cause_of(error), type(error).__name__
    return cause if isinstance(error, PsTrainError) or cause == name else f"{name}: {cause}"
