"""Training as a Python call.

    result = fit(Net, num_workers=4, max_steps=5000, optimizer="adam")
    result.metrics["accuracy"], result.checkpoint

The model is sent to processes of their own, so this process may be a script or a notebook, with or without TensorFlow.
"""

from __future__ import annotations

import dataclasses
import inspect
import numbers
import os
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

from ps_train.base import errors
from ps_train.base.errors import (
    EXIT_CONFIG,
    EXIT_DONE,
    ConfigError,
    JobFailedError,
    PsTrainError,
    TrainingError,
    exit_code_of_signal,
    nearest,
    signal_name,
)
from ps_train.base.remote_files import RemoteDirectory, scheme_of
from ps_train.base.untrusted import parse_json, read_text
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.addresses.from_environment import parse_flags
from ps_train.commands.launch.child_process import PARENT_VARIABLE
from ps_train.commands.launch.fit_process import run_program
from ps_train.commands.launch.history import history_of, plot_history
from ps_train.commands.launch.local import new_directory
from ps_train.commands.launch.progress_bar import LOG_SECS, notebook_bar
from ps_train.commands.launch.sent_model import write_model
from ps_train.config import flags
from ps_train.config.error_report import REPORT_VARIABLE, read_errors
from ps_train.config.fields import job_fields, kind_of
from ps_train.config.job import Job, Task
from ps_train.config.model_arguments import convert_arguments
from ps_train.config.optimizer_arguments import TABLES
from ps_train.config.tracker_check import told_sources

_HERE = "fit()"
_ERRORS = "errors.jsonl"
_SIGNALLED = exit_code_of_signal(0)


@dataclasses.dataclass(frozen=True)
class FitResult:
    """The result of a job that is done.

    A task that is not the chief knows only its name: the chief has the values.

    Attributes:
      task: "local" for a whole cluster on this machine, else the task of this call, as "worker:1".
      global_step: the last global step.
      loss: the last loss; None if there is none.
      metrics: metric name to its value on the test split.
      model_dir: directory of checkpoints, event files and result.json.
      checkpoint: the last checkpoint, for `tf.train.load_checkpoint`.
      export_dir: directory of the SavedModel; "" without one.
      values: everything in result.json.
      history: the table of this call, column to list: `step`, `loss`, `examples_per_sec`, `steps_per_sec` and each
        metric of an evaluation, with an evaluator's loss as `eval_loss`; None where a row has no value.
    """

    task: str
    global_step: int | None = None
    loss: float | None = None
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)
    model_dir: str = ""
    checkpoint: str = ""
    export_dir: str = ""
    values: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    history: Mapping[str, list[Any]] = dataclasses.field(default_factory=dict)

    def plot(self) -> Any:
        """Draws loss and metrics by step; returns the figure of matplotlib, None without matplotlib."""
        return plot_history(self.history)


def fit(model: Any, *, quiet: bool = False, **given: Any) -> FitResult:
    """Trains a model until the job is done, and returns its result.

    It starts a cluster on this machine, or takes part in a cluster as the task that `job_name` and `task_index` or the
    environment variable `TF_CONFIG` name.  A ps returns when the job is done.  All processes of the call have ended
    when it returns or raises.  Ctrl-C saves a checkpoint and raises KeyboardInterrupt.

    Args:
      model: a subclass of `ps_train.Model`, an instance of one, or "package.module:Class".
      quiet: if True, nothing is printed.  In a notebook with tqdm (the extra `notebook`) the progress is a bar.
      **given: flags by name, as `max_steps=5000`; lists for host lists, dicts for `model_arg`,
        `optimizer_arg` and `outer_optimizer_arg`.

    Raises:
      PsTrainError: ConfigError, ModelError, DataError and RefusedError if something must be corrected; TrainingError
        if the training failed.
    """
    if REPORT_VARIABLE in os.environ:
        raise ConfigError(
            "fit() is called while a process that another fit() started imports the model: put the call under "
            '`if __name__ == "__main__":`.'
        )
    with tempfile.TemporaryDirectory(prefix="ps_train_fit_") as directory:
        values = values_of_call(model, given, directory)
        parsed = _parse(values)
        model_dir = _model_dir(parsed.job) if _writes_result(parsed) else ""
        bar = None if quiet else notebook_bar()
        values = {**({"log_secs": LOG_SECS} if bar is not None else {}), **values}
        values |= {"model_dir": model_dir} if model_dir else {}
        environ = {**call_environment(directory), **_sources(parsed.job)}
        code = run_program(flags.as_arguments(values), environ, quiet, bar)
        if code != EXIT_DONE:
            raise error_of_call(code, directory)
    return _result(parsed, model_dir)


def values_of_call(model: Any, given: Mapping[str, Any], directory: str) -> dict[str, Any]:
    """Returns the flags of a call as `flags.as_arguments` takes them; writes the model's module where it needs one.

    Args:
      model: the model, as `fit` takes it.
      given: flags by name, as `fit` takes them.
      directory: directory for the module.

    Raises:
      PsTrainError: a flag or the model is wrong.
    """
    given = {name: value for name, value in given.items() if value is not None}
    arguments = given.pop("model_arg", {})
    given = with_texts(given)
    check_names(given)
    path = write_model(model, directory, _as_dict("model_arg", arguments))
    return {**texts_of(given), "model": path, "model_arg": _as_flags(model, arguments)}


def with_texts(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns flags by name, where dicts of arguments of optimizers are lists of key=value."""
    dicts = {name: _as_dict(name, given[name]) for name in TABLES if not isinstance(given.get(name, []), list | tuple)}
    return {**given, **{name: [f"{key}={value}" for key, value in some.items()] for name, some in dicts.items()}}


def check_names(given: Mapping[str, Any]) -> None:
    """Raises ConfigError for a name that no flag has, and for a value that its flag cannot have."""
    fields = {field.name: field for kind in (Task, Job) for field in job_fields(kind)}
    for name, value in given.items():
        if name not in fields:
            hint = nearest(name, fields, most=4)
            raise ConfigError(f"fit() has no flag {name!r}: {hint}python -m ps_train --helpfull lists all flags.")
        kind, is_text = kind_of(fields[name]), isinstance(value, str)
        fits: dict[Any, bool] = {
            bool: isinstance(value, bool),
            str: isinstance(value, str | os.PathLike | numbers.Integral) and not isinstance(value, bool),
            tuple: (isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)) or is_text,
        }
        if not fits.get(kind, not isinstance(value, bool | list | tuple | dict)):
            texts: dict[Any, str] = {bool: "True or False", tuple: "a list of texts", str: "a text"}
            allowed = texts.get(kind, "a number")
            raise ConfigError(f"{name}={value!r} (from {_HERE}) is not valid: use {allowed}.")


def texts_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the flags as `flags.as_arguments` takes them."""
    return {
        name: tuple(value) if isinstance(value, list | tuple) else os.fspath(value)
        if isinstance(value, os.PathLike) else value
        for name, value in given.items()
    }  # fmt: skip


def _as_dict(flag: str, arguments: Any) -> dict[str, Any]:
    if not isinstance(arguments, Mapping) or not all(isinstance(name, str) for name in arguments):
        raise ConfigError(f"{flag}={arguments!r} (from {_HERE}) is not valid: use a dict from names to values.")
    return dict(arguments)


def _as_flags(model: Any, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the arguments of the constructor as the texts that --model_arg takes.

    Raises:
      ConfigError: the constructor would not get the value back from its text.
    """
    parameters = inspect.signature(model).parameters if isinstance(model, type) else {}
    for name, value in arguments.items():
        is_lost = not isinstance(value, str | int | float)
        if name in parameters and not is_lost:
            is_lost = convert_arguments(model.__name__, {name: parameters[name]}, {name: str(value)}, {})[name] != value
        if is_lost:
            raise ConfigError(
                f"model_arg {name}={value!r} (from {_HERE}) would reach the model as the text {str(value)!r}: annotate "
                f"the argument ({name}: {type(value).__name__}), or give fit() an instance of the model."
            )
    return tuple(f"{name}={value}" for name, value in arguments.items())


def _parse(values: Mapping[str, Any]) -> flags.ParsedFlags:
    """Checks all flags, together with TF_CONFIG, as the program will."""
    try:
        return parse_flags(flags.as_arguments(values), os.environ)
    except ConfigError as error:
        raise ConfigError(str(error).replace(flags.COMMAND_LINE, _HERE)) from None


def _writes_result(parsed: flags.ParsedFlags) -> bool:
    job, task = parsed.job, parsed.task
    if not job.trains:
        return False
    return task.job_name == "local" or (
        task.job_name in ("worker", "chief") and flags.with_task(task) == Cluster.of(job).chief
    )


def _model_dir(job: Job) -> str:
    if not job.model_dir:
        return new_directory(job)
    return job.model_dir if "://" in job.model_dir else os.path.abspath(os.path.expanduser(job.model_dir))


def call_environment(directory: str) -> dict[str, str]:
    """Returns the environment of the child, which imports what this process can import."""
    path = [directory, *(entry for entry in sys.path if entry)]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONUNBUFFERED": "1",
        REPORT_VARIABLE: os.path.join(directory, _ERRORS),
        PARENT_VARIABLE: str(os.getpid()),
    }


def error_of_call(code: int, directory: str) -> PsTrainError:
    """Returns the error that ended the job, made from the first one that is not a consequence of another.

    Args:
      code: exit code of the job.
      directory: the directory of `call_environment`, with the errors of the job's processes.
    """
    found = read_errors(os.path.join(directory, _ERRORS))
    causes = [error for error in found if error.kind != JobFailedError.__name__] or found
    if code < 0 or code > _SIGNALLED:
        signum = abs(code) if code < 0 else code - _SIGNALLED
        return JobFailedError(f"the job was stopped by {signal_name(signum)}: call fit() again to resume.")
    if not causes:
        return JobFailedError(f"the job failed with exit code {code}; its output has the cause.")
    kind = getattr(errors, causes[0].kind, None)
    if not isinstance(kind, type) or not issubclass(kind, PsTrainError):
        kind = ConfigError if code == EXIT_CONFIG else TrainingError
    return kind(causes[0].text)


def _result(parsed: flags.ParsedFlags, model_dir: str) -> FitResult:
    name = "local" if parsed.task.job_name == "local" else str(flags.with_task(parsed.task))
    if not model_dir:
        return FitResult(name)
    values = parse_json(_text_in(model_dir, "result.json"), finite=False)
    step = values["global_step"]
    return FitResult(
        task=name,
        global_step=step,
        loss=values["loss"],
        metrics=values["metrics"],
        model_dir=model_dir,
        checkpoint=os.path.join(model_dir, f"model.ckpt-{step}"),
        export_dir=_newest_export(parsed.job.final_export_dir),
        values=values,
        history=history_of(_report_in(model_dir), step, values["metrics"]),
    )


def _text_in(model_dir: str, name: str) -> str:
    if scheme_of(model_dir):
        return (RemoteDirectory(model_dir).read(name) or b"").decode(errors="replace")
    return read_text(os.path.join(model_dir, name))


def _sources(job: Job) -> dict[str, str]:
    """Returns the environment variables with the sources of the flags as a tracker shows them."""
    sources = {name: _HERE if source == flags.COMMAND_LINE else source for name, source in job.sources.items()}
    return told_sources(dataclasses.replace(job, sources=sources), {})


def _report_in(model_dir: str) -> str:
    """Returns the text of the report; "" if it could not be written."""
    try:
        return _text_in(model_dir, "report.html")
    except Exception:  # the packages of object stores have errors of their own
        return ""


def _newest_export(directory: str) -> str:
    """Returns the newest SavedModel in a directory: a numbered version of it, or the directory itself."""
    if not directory:
        return ""
    if scheme_of(directory):
        from ps_train.data.opened_files import names_in  # late: it imports TensorFlow

        names = names_in(directory)
    else:
        directory = os.path.abspath(directory)
        names = os.listdir(directory)
    newest = max((name for name in names if name.isdigit()), key=int, default="")
    return os.path.join(directory, newest) if newest else directory
