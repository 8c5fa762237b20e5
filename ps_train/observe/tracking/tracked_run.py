"""A run as trackers get it: flags with their sources, arguments, versions, fingerprints, the plan.

run = tracked_run(job, plan, variables, directory, run_id, "net.py")
run.parameters["max_steps"], run.tags["source.max_steps"]          # "500", "flags/job.flags:3"
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import inspect
import json
import os
import platform
import re
import subprocess
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from ps_train import __version__
from ps_train.base.untrusted import UntrustedError, file_name, is_of, parse_json, read_text
from ps_train.base.whole_file import write_whole
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.config.cluster_fields import HOST_LISTS
from ps_train.config.fields import job_fields, repeated_fields
from ps_train.config.job import Job
from ps_train.config.tracker_check import TRACK_PARENT, flag_sources
from ps_train.engine.run_directory.run_files import TRACKING
from ps_train.engine.variables.plan import Plan

_GIT_SECS = 5.0
_DIGITS = 16
_OF_A_TRIAL = re.compile(r"(\d{4,})/\d+/model")
"""The last parts of the model directory of a trial's execution."""

_OF_A_MODEL = ("model", "data", "training", "updates", "gradients", "transport")
"""Sections of flags that hyperparameters are in."""


@dataclasses.dataclass(frozen=True)
class TrackedRun:
    """A run as trackers get it.

    Attributes:
      run_id: the id of the run in its model directory.
      name: the name of the model directory, for a nested run with those of the two above it.
      directory: the local model directory, which has `report.html` at the end.
      parameters: flags by name but for addresses, each model argument as `model_arg.NAME`, and the numbers of tasks.
      tags: sources of the given flags, versions, fingerprints and the git commit.
      hyperparameters: those of the parameters that differ from their defaults and concern the model.
      plan: the table of the plan.
      parent: the run, or the study, that this run is nested in; "" for none.
      trial: the number of the trial of which this run is an execution; None outside of a study.
      start_time: seconds since 1970.
    """

    run_id: str
    name: str
    directory: str
    parameters: Mapping[str, str]
    tags: Mapping[str, str]
    hyperparameters: Mapping[str, Any]
    plan: str
    parent: str = ""
    trial: int | None = None
    start_time: float = dataclasses.field(default_factory=time.time)

    def kept_id(self, tracker: str) -> str:
        """Returns the id that this run has in a tracker; "" for one that does not know it."""
        found = _kept(self.directory).get(tracker, "")
        with contextlib.suppress(UntrustedError):  # a tracker makes a directory or an address of it
            return file_name(found) if is_of("str", found) else ""
        return ""

    def keep_id(self, tracker: str, run_id: str) -> None:
        """Keeps the id that this run has in a tracker, beside its checkpoints."""
        content = {**_kept(self.directory), tracker: run_id}
        write_whole(os.path.join(self.directory, TRACKING), json.dumps(content))


def tracked_run(
    job: Job, plan: Plan, variables: Mapping[str, str], directory: str, run_id: str, source_file: str
) -> TrackedRun:
    """Returns a run as trackers get it; asks git for the commit.

    Args:
      job: its flags become hyperparameters.
      plan: placement of the variables.
      variables: shape and dtype of each variable by its name.
      directory: the local model directory.
      run_id: as in the run's record.
      source_file: path of the model's source; "" if it is unknown.
    """
    arguments = {f"model_arg.{name}": value for name, value in job.model_arguments().items()}
    arguments |= {f"optimizer_arg.{name}": value for name, value in job.optimizer_arguments().items()}
    cluster, parent = Cluster.of(job), os.environ.get(TRACK_PARENT, "")
    arguments |= {"num_ps": str(len(cluster.ps)), "num_workers": str(cluster.num_workers)}
    left_out = {*HOST_LISTS, *repeated_fields(type(job))}  # ports change with each start
    fields = [field for field in job_fields(type(job)) if field.name not in left_out]
    values = {field.name: getattr(job, field.name) for field in fields}
    sources = {f"source.{name}": source for name, source in flag_sources(job, os.environ).items()}
    chosen = {
        field.name: values[field.name]
        for field in fields
        if field.metadata["section"] in _OF_A_MODEL and values[field.name] != field.default
    }
    tags = {
        **sources,
        "run_id": run_id,
        "model_dir": job.model_dir,
        "version.ps_train": __version__,
        "version.tensorflow": tf.__version__,
        "version.numpy": np.__version__,
        "version.python": platform.python_version(),
        "fingerprint.model": _fingerprint(dict(variables)),
        "fingerprint.plan": _fingerprint([dataclasses.asdict(piece) for piece in plan.slices]),
    }
    if commit := commit_of(source_file):
        tags["git.commit"] = commit
    name = "/".join(job.model_dir.rstrip("/").split("/")[-3 if parent else -1 :])
    of_trial = _OF_A_TRIAL.fullmatch(name) if parent else None
    return TrackedRun(
        run_id=run_id,
        name=name or run_id,
        directory=directory,
        parameters={**{name: _text(value) for name, value in values.items() if value is not None}, **arguments},
        tags=tags,
        hyperparameters={name: _simple(value) for name, value in chosen.items() if name != "data_dir"} | arguments,
        plan=plan.table(),
        parent=parent,
        trial=int(of_trial[1]) if of_trial else None,
    )


def source_file_of(model: Any) -> str:
    """Returns the path of a model's source, or of the model_fn of an Estimator; "" if there is no file."""
    try:
        return inspect.getsourcefile(inspect.unwrap(getattr(model, "captured", type(model)))) or ""
    except (TypeError, ValueError):
        return ""


def commit_of(path: str) -> str:
    """Returns the git commit of a file's working tree, with `-dirty` if the file differs from it; "" without one."""
    if not os.path.isfile(path):
        return ""
    folder = os.path.dirname(os.path.abspath(path))

    def git(*arguments: str) -> str:
        command = ["git", "-C", folder, *arguments]
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_GIT_SECS, check=True
        ).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", os.path.abspath(path))  # a file that git does not know has no commit
        commit = git("rev-parse", "HEAD")
        return commit + "-dirty" if git("status", "--porcelain", "--", os.path.abspath(path)) else commit
    except (OSError, subprocess.SubprocessError):
        return ""


def _kept(directory: str) -> dict[str, Any]:
    try:
        found = parse_json(read_text(os.path.join(directory, TRACKING)))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _fingerprint(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:_DIGITS]


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _simple(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | str) else _text(value)
