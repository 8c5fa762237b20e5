"""Experiment trackers (--track): the check that the package is there, and what the environment tells the chief.

Standard library only: the check runs before TensorFlow is imported.
"""

from __future__ import annotations

import importlib.util
import json
import shlex
from collections.abc import Mapping

from ps_train.base.errors import ConfigError
from ps_train.base.extras import install
from ps_train.base.untrusted import parse_json
from ps_train.config.fields import item_key, repeated_fields
from ps_train.config.job import Job
from ps_train.config.job_values import described
from ps_train.config.output_fields import NO_TRACKER

TRACK_PARENT = "PS_TRAIN_TRACK_PARENT"
"""Environment variable with the id of the run, or the name of the study, that a job's run is nested in."""

SOURCES_VARIABLE = "PS_TRAIN_FLAG_SOURCES"
"""Environment variable with the source of each flag, for processes that a launcher gives the flags of the user."""

_PACKAGES = {
    "mlflow": ("mlflow", install("mlflow")),
    "wandb": ("wandb", install("wandb")),
    "tensorboard-hparams": ("tensorboard", install("tensorboard")),
}
"""Module and installation of each tracker's package."""


def check_tracker(job: Job) -> None:
    """Raises ConfigError if the package of a job's tracker is not installed."""
    if job.track == NO_TRACKER:
        return
    module, command = _PACKAGES[job.track]
    if not is_installed(module):
        raise ConfigError(f"{described(job, 'track')} needs {module}: {command}.")


def is_installed(module: str) -> bool:
    """Returns whether a package can be imported, without importing it."""
    found = importlib.util.find_spec(module)
    return found is not None and found.origin is not None  # a directory of this name, such as W&B's, is not the package


def tensorboard_command(directory: str) -> str:
    """Returns the command that shows event files, with the installation of TensorBoard where it is missing.

    TensorFlow 2.21 no longer brings TensorBoard.
    """
    command = f"tensorboard --logdir={shlex.quote(directory)}"
    if is_installed("tensorboard"):
        return command
    return f"{install('tensorboard')}, then {command}"


def flag_sources(job: Job, environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the sources of the flags that the user gave; those of arguments as `model_arg.NAME`.

    Args:
      job: its own `sources` count where no launcher has told them.
      environ: the environment of this process.
    """
    try:
        told = parse_json(environ.get(SOURCES_VARIABLE, ""))
    except ValueError:
        told = {}
    found = told if isinstance(told, dict) and told else job.sources  # a launcher adds flags of its own
    repeated = {
        item_key(name, item): f"{name}.{item.partition('=')[0]}"
        for name in repeated_fields(type(job))
        for item in getattr(job, name)
    }
    names = {name: repeated.get(name, name) for name in found}
    return {name: str(found[key]) for key, name in names.items() if "=" not in name}


def told_sources(job: Job, environ: Mapping[str, str]) -> dict[str, str]:
    """Returns environment variables with the sources of the flags for the tasks of a job that has a tracker."""
    if job.track == NO_TRACKER:
        return {}
    return {SOURCES_VARIABLE: environ.get(SOURCES_VARIABLE) or json.dumps(dict(job.sources))}
