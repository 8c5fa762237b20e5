"""The end of a run: its metrics, result.json, and the lines that say how to go on with its checkpoint."""

from __future__ import annotations

import json
import logging
import os
import shlex
from collections.abc import Mapping
from typing import Any

from ps_train.base.console import Console
from ps_train.base.errors import DataError, JobFailedError, SaveError
from ps_train.base.remote_files import scheme_of
from ps_train.base.untrusted import is_of, parse_json, read_text
from ps_train.base.whole_file import write_whole
from ps_train.config.job import Job
from ps_train.config.slice_names import split_slices
from ps_train.config.tracker_check import tensorboard_command
from ps_train.observe.status.health import warnings
from ps_train.observe.status.observer import JobObserver
from ps_train.observe.status.result import RunSummary

log = logging.getLogger(__name__)


def metrics_line(metrics: Mapping[str, float]) -> str:
    """Formats metrics for the console: `accuracy 0.9417  loss 0.1873`."""
    return "  ".join(f"{name} {value:.4f}" for name, value in metrics.items())


def report_end(
    summary: RunSummary, job: Job, reason: str, directory: str, console: Console, observer: JobObserver | None
) -> bool:
    """Shows the end of a run and its health, and writes result.json.

    Args:
      summary: the summary of the run.
      job: has `eval_by`.
      reason: the reason for an end below max_steps.
      directory: the model directory.
      console: receives the lines.
      observer: knows the health of the job; None for none.

    Returns:
      True if result.json was written: not where this process made no step and the file is there already.
    """
    health: list[dict[str, Any]] = []
    if observer is not None:
        observer.board.set_metrics(summary.metrics)
        health = observer.board.status()["health"]
    for line in [*summary.lines(job, reason), *warnings(health)]:
        console.line(line)
    whole, slices = split_slices(summary.metrics, job.eval_by)
    if whole:
        console.line("test " + metrics_line(whole))
    for value, metrics in slices.items():
        console.line(f"test {job.eval_by}={value}: {metrics_line(metrics)}")
    # The previous chief may have been stopped before it wrote the result.
    if summary.steps_made <= 0 and read_result_step(directory) == summary.step:
        return False
    write_result(directory, {**summary.result(job), **({"health": health} if health else {})})
    return True


def check_trained(job: Job, none: DataError, gave_up: str, steps: int, examples: float) -> None:
    """Refuses a job that has ended without an example in its input.

    Args:
      job: says whether the data are sharded dynamically, and for how many epochs.
      none: the error for data without examples.
      gave_up: the tasks that the chief no longer waits for; "" where all input ended.
      steps: steps of this process.
      examples: examples of the whole job.

    Raises:
      JobFailedError: no step was made by the tasks that were waited for.
      DataError: there are no examples.
    """
    if gave_up:
        if not examples:
            raise JobFailedError(f"no step was made: {gave_up}")
    # Without --epochs, input that has an example has no end; only data whose rows the checkpoint counts may be used up.
    elif not examples or (not steps and not job.epochs and not job.is_dynamic):
        raise none
    elif not steps and not job.is_dynamic:
        log.warning("no step was made: no examples are left; check --data_dir")


def write_result(directory: str, result: dict[str, Any]) -> str:
    """Writes result.json atomically; returns its path.

    Raises:
      SaveError: it cannot be written.
    """
    path = os.path.join(directory, "result.json")
    try:
        write_whole(path, json.dumps(result, indent=2) + "\n")
    except OSError as error:
        raise SaveError(
            f"{path} could not be written ({error.strerror}): the model is saved; make room and start again."
        ) from error
    return path


def read_result_step(directory: str) -> int | None:
    """Returns the global step in result.json; None if the file is missing or unreadable."""
    try:
        step = parse_json(read_text(os.path.join(directory, "result.json")), finite=False)["global_step"]
        return step if is_of("int", step) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def advice(directory: str, export_dir: str, step: int, is_call: bool = False) -> list[str]:
    """Returns the last lines of a run for the console: how to resume it, how to look at it, and how to serve it.

    Args:
      directory: the model directory.
      export_dir: directory of the exported model, "" if it was not exported.
      step: the last global step.
      is_call: True for a call of `ps_train.fit`, which has arguments instead of flags.
    """
    same, more_steps, export = (
        f"the same command with --model_dir={shlex.quote(directory)}",
        "--max_steps",
        "--export_dir=DIR",
    )
    if is_call:
        same, more_steps, export = f"the same call with model_dir={directory!r}", "max_steps", "export_dir='DIR'"
    base = export_dir if scheme_of(export_dir) else os.path.abspath(export_dir)
    serve = f"tensorflow_model_server --model_base_path={shlex.quote(base)}"
    return [
        f"to resume: {same} and {more_steps} above {step}",
        f"to look:   {tensorboard_command(directory)}",
        f"to serve:  {serve if export_dir else f'{same} and {export} writes a SavedModel'}",
    ]
