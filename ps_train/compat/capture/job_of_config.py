"""The job that a RunConfig describes.

job = job_of(config, model_dir, max_steps=1000, survey=survey)
task = task_of(config)
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ps_train.base.errors import ConfigError
from ps_train.base.remote_files import scheme_of
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.compat.capture.estimator_program import CaptureError
from ps_train.compat.capture.savers import NEVER_HOURS
from ps_train.compat.capture.sessions import seed_of
from ps_train.compat.capture.survey import Survey
from ps_train.config.cluster_fields import asked_ps
from ps_train.config.fields import job_fields, kind_of
from ps_train.config.job import Job, Task
from ps_train.config.job_values import NO_LIMIT

_FROM_CONFIG = (
    "ps_hosts",
    "worker_hosts",
    "chief_hosts",
    "cluster_file",
    "max_steps",
    "model_dir",
    "model",
    "model_arg",
)
_FROM_PROGRAM = (
    "optimizer",
    "optimizer_arg",
    "learning_rate",
    "warmup_steps",
    "batch_size",
    "epochs",
    "shuffle_buffer",
    "sharding",
    "accumulate",
)
_NOT_YET = (
    "divide_lr_by_staleness",
    "prefetch_pulls",
    "inject_fault",
    "export_dir",
    "compute_dtype",
    "towers",
)


STARTUP_SECS = 600.0
"""Seconds for which tasks wait for each other at the start.

A worker builds its model before it comes, and models of programs can be large.  TensorFlow waits without a limit.
"""


def trains_in_cluster(config: Any) -> bool:
    """Returns True if the config's cluster is one for training: a chief or worker alone is one if it is the ps too."""
    cluster = config.cluster_spec.as_dict()
    tasks = sum(len(cluster.get(job, ())) for job in ("chief", "master", "worker", "ps"))
    return tasks > 1 or (tasks == 1 and asked_ps(getattr(config, "job", None) or {}) == 0)


def has_ps(config: Any) -> bool:
    """Returns True if the config's cluster has processes for ps."""
    return bool(config.cluster_spec.as_dict().get("ps"))


def cluster_job(config: Any) -> Job:
    """Returns the part of the job that every task knows, the ps too.

    Raises:
      ConfigError: the cluster is not possible, or the config's `job` has a name or value that is not.
    """
    cluster = config.cluster_spec.as_dict()
    chief = cluster.get("chief") or cluster.get("master") or ()
    job = Job(
        ps_hosts=tuple(cluster.get("ps", ())),
        worker_hosts=tuple(cluster.get("worker", ())),
        chief_hosts=tuple(chief),
        sources={"ps_hosts": "TF_CONFIG"},
        **{"startup_timeout_secs": STARTUP_SECS, **_further(config)},
    )
    if cluster:
        Cluster.of(job)
    return job


def job_of(config: Any, model_dir: str, max_steps: int | None, survey: Survey) -> Job:
    """Returns the whole job of a training task.

    Raises:
      ConfigError: the config's `job` has a name or value that is not possible.
      CaptureError: the program and the config's `job` contradict each other.
    """
    if scheme_of(model_dir):
        raise ConfigError(
            f"model_dir={model_dir} is not a local path: a program of tf.estimator needs a local path or a mounted "
            "bucket."
        )
    given = _further(config)
    values = {
        "max_steps": max_steps or NO_LIMIT,
        "model_dir": model_dir,
        "epochs": 1,
        "shuffle_buffer": 0,
        "seed": seed_of(config),
        "save_steps": config.save_checkpoints_steps or 0,
        "save_secs": float(config.save_checkpoints_secs or 0),
        "keep_checkpoints": config.keep_checkpoint_max,
        "summary_steps": config.save_summary_steps or 0,
    }
    hours = survey.saving.keep_hours if survey.saving.has_saver else config.keep_checkpoint_every_n_hours
    values["keep_every_hours"] = float(hours) if hours and hours < NEVER_HOURS else 0.0
    values |= survey.saving.job_fields()
    values["keep_checkpoints"] = values["keep_checkpoints"] or NO_LIMIT
    if survey.has_hooks:
        values["steps_per_run"] = "1"
    if survey.sync is not None:
        if given.get("update", "sync") != "sync":
            raise CaptureError("a SyncReplicasOptimizer synchronizes, but the config's job has another update")
        values |= {"update": "sync", "backup_workers": max(0, survey.sync.total - survey.sync.to_aggregate)}
    return dataclasses.replace(cluster_job(config), **{**values, **given})


def task_of(config: Any) -> Task:
    """Returns this process's task; `master` is the older word for the chief."""
    name = "chief" if config.task_type == "master" else config.task_type
    return Task(name, config.task_id)


def _further(config: Any) -> dict[str, Any]:
    """Returns the fields that the config's `job` sets."""
    given = dict(getattr(config, "job", None) or {})
    kinds = {field.name: kind_of(field) for field in job_fields(Job)}
    allowed = kinds.keys() - {*_FROM_CONFIG, *_FROM_PROGRAM, *_NOT_YET}
    for name in given:
        if name not in allowed:
            raise ConfigError(
                f"job={{{name!r}: ...}} of the RunConfig is not possible: use one of {', '.join(sorted(allowed))}."
            )
    return {name: str(value) if _is_number_as_text(kinds[name], value) else value for name, value in given.items()}


def _is_number_as_text(kind: type, value: Any) -> bool:
    """Returns whether a value is the number of a field that is a text, such as steps_per_run=1."""
    return kind is str and isinstance(value, int) and not isinstance(value, bool)
