"""The errors that ps_train raises deliberately, and their exit codes.

    PsTrainError                      1
    |- ConfigError                    2   flags, flagfile, TF_CONFIG, addresses, directories
    |- ModelError                     2   the user's model class, or a checkpoint of another model
    |- DataError                      2   a data file that is missing or not of its format
    |- RefusedError                   2   this task must not join: another job, or the task is already running
    `- TrainingError                  1   worth a restart
       |- UnreachableError            1   a task did not answer in time
       |- LostTaskError               1   a task has stopped answering or lost its state
       |- TooFewWorkersError          1   fewer than min_workers remain
       |- DivergedError               1   the loss is NaN or infinite
       |- SaveError                   1   a checkpoint could not be written
       |- DamagedCheckpointError      1   a checkpoint cannot be read
       `- JobFailedError              1   another task failed, or the job was given up

`EXIT_CODES` describes the exit codes.

The text of an error has four parts in one line: the problem, the value and its source, the allowed values, and the
action to take.  `headline` makes one line of any other exception, `shown` of a value, and `nearest` finds the name
that was meant.  The module does not use TensorFlow.
"""

from __future__ import annotations

import difflib
import re
import signal
from collections.abc import Iterable

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_CONFIG = 2

EXIT_CODES = {
    str(EXIT_DONE): "The job is done, or was done before.",
    str(EXIT_FAILED): "Training failed: a task was lost or did not start, a loss is not finite, or the last checkpoint "
    "could not be written.",
    str(EXIT_CONFIG): "Wrong flags, addresses, model or data; or training is done, but an output is incomplete or an "
    "export was rejected.",
    "130, 143": "SIGINT or SIGTERM stopped the job.  The chief saves first, if there is a model and every ps answers.",
    "137": "SIGKILL ended this process, without a checkpoint.",
    "255": "`launch` has no connection over ssh.",
}
"""Exit code to its meaning, in the words of `docs/troubleshoot.md`, which says what to do."""

DOCTOR_HINT = "try python -m ps_train doctor with the same flags"
"""The end of an error about a task that does not answer when a job starts."""


def signal_name(signum: int) -> str:
    """Returns the name of a signal: SIGTERM, or SIGRTMIN+1 for a real-time signal."""
    return signal.Signals(signum).name if signum in [*signal.Signals] else f"SIGRTMIN+{signum - signal.SIGRTMIN}"


def exit_code_of_signal(signum: int) -> int:
    """Returns 128 + signum, the shell's exit code for a process that a signal ended."""
    return 128 + signum


class PsTrainError(Exception):
    """Base of all errors that are reported as one line, without a stack trace.

    Args:
      *parts: the text.
      page: page of the documents, and its heading, that helps more than that of the kind of error.

    Attributes:
      exit_code: of a process that ends with it.
      page: the page, and its heading, that helps.
    """

    exit_code = EXIT_FAILED
    page = "troubleshoot#messages"

    def __init__(self, *parts: object, page: str = "") -> None:
        super().__init__(*parts)
        if page:
            self.page = page

    def __str__(self) -> str:
        # The text may quote a value that somebody else has written, with control characters of a terminal.
        return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in super().__str__())


def is_config(error: BaseException) -> bool:
    """Returns True if the configuration was at fault, so that a restart cannot help."""
    return isinstance(error, PsTrainError) and error.exit_code == EXIT_CONFIG


def ps_train_error(error: BaseException) -> PsTrainError | None:
    """Returns the error of ps_train that an error is, or for which a library has raised it; None if there is none.

    AutoGraph raises an error of its own for an error in a function that it has converted.
    """
    found: BaseException | None = error
    while found is not None and not isinstance(found, PsTrainError):
        found = found.__cause__ or found.__context__
    return found


class ConfigError(PsTrainError):
    """The job's configuration is wrong; raised before any server starts."""

    exit_code = EXIT_CONFIG
    page = "troubleshoot#it-does-not-start"


class ModelError(PsTrainError):
    """The model cannot be trained as it is written."""

    exit_code = EXIT_CONFIG
    page = "models#mistakes"


class DataError(PsTrainError):
    """A data file is missing or is not of the format that its reader expects."""

    exit_code = EXIT_CONFIG
    page = "data#malformed-records"


class RefusedError(PsTrainError):
    """This process may not join the job: its configuration differs, or another process has its task."""

    exit_code = EXIT_CONFIG
    page = "troubleshoot#it-does-not-start"


class TrainingError(PsTrainError):
    """The configuration is right but training failed; a restart may help."""


class UnreachableError(TrainingError):
    """A required task did not answer before the deadline."""

    page = "troubleshoot#it-hangs"


class LostTaskError(TrainingError):
    """A task has stopped answering, or has lost its state."""

    page = "troubleshoot#a-task-died"


class TooFewWorkersError(TrainingError):
    """Workers have left, and fewer remain than the job asks for."""

    page = "troubleshoot#a-task-died"


class DivergedError(TrainingError):
    """A loss is not finite."""

    page = "troubleshoot#the-loss-explodes"


class SaveError(TrainingError):
    """A checkpoint could not be written; earlier checkpoints are unchanged."""

    page = "troubleshoot#a-disk-is-full"


class DamagedCheckpointError(TrainingError):
    """A checkpoint's files are damaged, incomplete or missing."""

    page = "troubleshoot#a-checkpoint-is-damaged"


class JobFailedError(TrainingError):
    """The job failed because of another task, or was given up."""

    page = "troubleshoot#a-task-died"


_PAGE = re.compile(r" \(help: ([\w.]+#[a-z0-9-]+)\)$")


def with_page(line: str, page: str) -> str:
    """Returns a line that ends with the page that helps: `(help: troubleshoot#it-hangs)`."""
    return f"{line} (help: {page})"


def split_page(line: str) -> tuple[str, str]:
    """Returns a line without its page, and the page; "" if it has none.  The inverse of `with_page`."""
    found = _PAGE.search(line)
    return (line[: found.start()], found[1]) if found else (line, "")


_CONTEXT_PREFIXES = (
    "Graph execution error",
    "Exception encountered when calling",
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
_CAUSE_PREFIX = re.compile(rf"\d+ root error\(s\) found\.|^\s*(\(\d+\) )?({_CODES}): ")
"""The text that TensorFlow puts before the cause in the same line."""

_NODE_NOTE = re.compile(r" for '\{\{node ([^}]*)\}\} = (\w+)\[.*?\]\(.*?\)'")
"""TensorFlow's note on the operation that could not be made, with all its attributes."""

_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_USER_CODE = re.compile(
    r'^in user code:\n+(?:\s*File "[^"]+", line \d+, in .*\n.*\n)+\s*(?:[\w.]+(?:Error|Exception): )?'
)
"""The frames that AutoGraph puts before the text of an error, and the error's type after them."""

_MAX_LENGTH = 200


def cause_of(error: BaseException) -> str:
    """Returns the line of an error's text that gives the cause, without TensorFlow's lines about the graph."""
    text = _ESCAPES.sub("", str(getattr(error, "message", error)))
    text = _NODE_NOTE.sub(r" for \1 (\2)", _USER_CODE.sub("", text))
    lines = [line for line in (_CAUSE_PREFIX.sub("", line).strip() for line in text.splitlines()) if line]
    causes = [line for line in lines if not line.startswith(_CONTEXT_PREFIXES) and line.strip("=")]
    cause = (causes or lines or [type(error).__name__])[0]
    if isinstance(error, PsTrainError) or len(cause) <= _MAX_LENGTH:
        return cause
    return f"{cause[: _MAX_LENGTH // 2]} ... {cause[-_MAX_LENGTH // 2 :]}"  # the reason may be the end, after a path


def cut(text: str, most: int = 80) -> str:
    """Returns a text of at most so many characters; a longer one ends with dots."""
    return text if len(text) <= most else text[: most - 3] + "..."


def shown(value: object) -> str:
    """Returns a value for a message, in one short line without control characters; bytes as the text that they are."""
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
    return repr(cut(text)) if isinstance(text, str) else cut(repr(text))


def nearest(
    name: str,
    known: Iterable[str],
    hint: str = "did you mean {}? ",
    otherwise: str = "",
    *,
    most: int = 1,
    joint: str = ", ",
    cutoff: float = 0.6,
) -> str:
    """Returns a hint to the known names that are near an unknown one.

    Args:
      name: the unknown name.
      known: all names.
      hint: the text, with {} in the place of the names.
      otherwise: the text where none is near.
      most: most names of a hint.
      joint: stands between two names.
      cutoff: least likeness of a near name, from 0 to 1.
    """
    found = difflib.get_close_matches(name, [*known], most, cutoff)
    return hint.format(joint.join(found)) if found else otherwise


def one_line(error: BaseException) -> str:
    """Returns the whole text of an error in one line, without a full stop."""
    return " ".join(str(error).split()).rstrip(".")


def headline(error: BaseException) -> str:
    """Returns an error's cause in one line, after the error's type if it is not a PsTrainError."""
    cause, name = cause_of(error), type(error).__name__
    return cause if isinstance(error, PsTrainError) or cause == name else f"{name}: {cause}"
