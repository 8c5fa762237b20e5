"""Settings of an Estimator's runs.

    config = RunConfig(model_dir="/models/run1", save_checkpoints_steps=1000, tf_random_seed=1)
    config = config.replace(keep_checkpoint_max=10)

The cluster comes from the environment variable `TF_CONFIG`.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import logging
import numbers
import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import nearest
from ps_train.compat.estimator.spec.cluster_config import ClusterConfig, read_cluster_config
from ps_train.config.fields import job_fields
from ps_train.config.job import Job
from ps_train.config.validators import Check, one_of, optional

log = logging.getLogger(__name__)


def complete_config(config: Any, model_dir: Any) -> RunConfig:
    """Returns the configuration with a directory, which is a temporary one if none is given.

    Args:
      config: a RunConfig.
      model_dir: the directory that the Estimator is given; None or "", a flag's usual default: that of the RunConfig.

    Raises:
      ValueError: the config is something else, or there are two different directories.
    """
    if not isinstance(config, RunConfig):
        raise ValueError(f"config must be a RunConfig, not {type(config).__name__}: use RunConfig(...).")
    given = tf.compat.as_str(os.fspath(model_dir)) if model_dir else None
    if given and config.model_dir and given != config.model_dir:
        raise ValueError(f"model_dir={given} differs from the RunConfig's, {config.model_dir}: give one of them.")
    changes: dict[str, Any] = {"model_dir": given or config.model_dir}
    if changes["model_dir"] is None:
        changes["model_dir"] = tempfile.mkdtemp()
        log.warning("no model_dir is given: the model is kept in %s", changes["model_dir"])
    if config.session_config is None:
        changes["session_config"] = v1.ConfigProto(allow_soft_placement=True)
        rewriting = changes["session_config"].graph_options.rewrite_options
        rewriting.meta_optimizer_iterations = rewriting.ONE
    return config.replace(**changes)


ENGINES = ("auto", "ps_train", "tensorflow")
_UNSET: Any = "not given"
"""Default of save_checkpoints_steps and _secs: None has the meaning "never"."""

_SAVE_SECS = 600


def _number(what: str, holds: Callable[[Any], bool], kind: type = numbers.Real) -> Check:
    def is_right(value: Any) -> bool:
        return isinstance(value, kind) and not isinstance(value, bool) and holds(value)

    return optional(Check(what, is_right))


_AT_LEAST_0 = _number("a number of at least 0, or None", lambda value: value >= 0)
_ABOVE_0 = _number("a number above 0, or None", lambda value: value > 0)
_INTEGER = _number("an integer, or None", lambda value: True, numbers.Integral)


def _takes_op(function: Any) -> bool:
    return callable(function) and list(inspect.signature(function).parameters) == ["op"]


_CHECKS = {
    "model_dir": Check("the path of a directory, or None", lambda value: value != ""),
    "tf_random_seed": _INTEGER,
    "save_summary_steps": _AT_LEAST_0,
    "save_checkpoints_steps": _AT_LEAST_0,
    "save_checkpoints_secs": _AT_LEAST_0,
    "session_config": optional(Check("a tf.compat.v1.ConfigProto", lambda value: isinstance(value, v1.ConfigProto))),
    "keep_checkpoint_max": _AT_LEAST_0,
    "keep_checkpoint_every_n_hours": _ABOVE_0,
    "log_step_count_steps": _ABOVE_0,
    "device_fn": optional(Check("a function with the one argument op", _takes_op)),
    "protocol": optional(one_of(("grpc",))),
    "experimental_max_worker_delay_secs": _INTEGER,
    "session_creation_timeout_secs": _ABOVE_0,
    "engine": one_of(ENGINES),
}
_REFUSED = ("train_distribute", "eval_distribute", "experimental_distribute")


@dataclasses.dataclass(eq=False, repr=False)
class _Settings:
    """The settings of a RunConfig; see there."""

    model_dir: Any = None
    tf_random_seed: int | None = None
    save_summary_steps: int | None = 100
    save_checkpoints_steps: int | None = _UNSET
    save_checkpoints_secs: float | None = _UNSET
    session_config: Any = None
    keep_checkpoint_max: int | None = 5
    keep_checkpoint_every_n_hours: float | None = 10000
    log_step_count_steps: int | None = 100
    train_distribute: Any = None
    device_fn: Callable[[tf.Operation], str] | None = None
    protocol: str | None = None
    eval_distribute: Any = None
    experimental_distribute: Any = None
    experimental_max_worker_delay_secs: int | None = None
    session_creation_timeout_secs: float | None = 7200
    checkpoint_save_graph_def: bool = True
    engine: str = dataclasses.field(default="auto", kw_only=True)
    job: Mapping[str, Any] | None = dataclasses.field(default=None, kw_only=True)

    cluster_spec: tf.train.ClusterSpec = dataclasses.field(init=False)
    task_type: str = dataclasses.field(init=False)
    task_id: int = dataclasses.field(init=False)
    master: str = dataclasses.field(init=False)
    evaluation_master: str = dataclasses.field(init=False)
    is_chief: bool = dataclasses.field(init=False)
    num_ps_replicas: int = dataclasses.field(init=False)
    num_worker_replicas: int = dataclasses.field(init=False)
    global_id_in_cluster: int | None = dataclasses.field(init=False)
    service: dict[str, Any] | None = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        """Sets the other attributes, and checks all; see `RunConfig`."""
        raise NotImplementedError


class RunConfig(_Settings):
    """Settings of an Estimator's runs, which do not change; `replace` returns a changed copy.

    A program may set attributes of its own, which a model_fn finds in its argument `config`, and derive classes.

    Args:
      model_dir: directory of checkpoints, events and exports; by default that of TF_CONFIG, if it has one.
      tf_random_seed: seed of the graph.
      save_summary_steps: write the summaries every so many steps; 0 or None: never.
      save_checkpoints_steps: save a checkpoint every so many steps.
      save_checkpoints_secs: save a checkpoint every so many seconds; 600 if neither is given, never if both are None.
      session_config: settings of the sessions; in a cluster by default one with device filters.
      keep_checkpoint_max: number of checkpoints to keep; 0 or None: all.
      keep_checkpoint_every_n_hours: one checkpoint of every so many hours stays for good.
      log_step_count_steps: log loss and speed every so many steps; None: never.
      train_distribute: refused, as are eval_distribute and experimental_distribute.
      device_fn: returns the device of an operation; for the engine "tensorflow".
      protocol: "grpc" or None.
      experimental_max_worker_delay_secs: accepted without effect; workers start at once.
      session_creation_timeout_secs: seconds that a worker waits for its session.
      checkpoint_save_graph_def: True to write the graph beside the checkpoints.
      engine: "ps_train", "tensorflow" (replica_device_setter and a monitored session), or "auto": the first that can.
      job: further flags of ps_train by name, for example `{"update": "sync"}`.

    Attributes:
      cluster_spec: the cluster; see `ClusterConfig` for this one and the following ones.
      task_type, task_id, master, evaluation_master, is_chief, num_ps_replicas, num_worker_replicas,
        global_id_in_cluster, service: the place of this process in the cluster.

    Raises:
      ValueError: a value, or TF_CONFIG, is invalid.
      TypeError: `service` in TF_CONFIG is not a dict.
    """

    def __post_init__(self) -> None:
        cluster = read_cluster_config(os.environ.get("TF_CONFIG", ""))
        steps, secs = self.save_checkpoints_steps, self.save_checkpoints_secs
        if steps is _UNSET and secs is _UNSET:
            secs = _SAVE_SECS
        changes = {
            "save_checkpoints_steps": None if steps is _UNSET else steps,
            "save_checkpoints_secs": None if secs is _UNSET else secs,
            "model_dir": _joined_model_dir(self.model_dir, cluster.model_dir),
            "session_config": _filtered_session_config(cluster) if self.session_config is None else self.session_config,
        }
        places = {field.name: getattr(cluster, field.name) for field in dataclasses.fields(cluster)}
        self._set(places | changes)
        self._is_made = True

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in {field.name for field in dataclasses.fields(self)}:
            object.__setattr__(self, name, value)
        elif "_is_made" in vars(self):
            raise AttributeError(f"{name} of a RunConfig cannot be set: use config.replace({name}=...).")
        elif not isinstance(getattr(type(self), name, None), property):  # of a derived class, which knows better
            object.__setattr__(self, name, value)

    def replace(self, **changes: Any) -> RunConfig:
        """Returns a copy with other values; a new save_checkpoints_steps clears _secs, and the other way round.

        Raises:
          ValueError: a name is unknown, or a value is invalid.
        """
        allowed = [field.name for field in dataclasses.fields(self) if field.init]
        for name in changes:
            if name not in allowed:
                raise ValueError(f"{name} cannot be replaced: use {', '.join(allowed)}.")
        for name, other in _SAVES:
            if changes.get(name) is not None and other not in changes:
                changes[other] = None
        copied = copy.deepcopy(self)
        copied._set(changes)
        return copied

    def _set(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            if not isinstance(getattr(type(self), name, None), property):  # of a derived class, which knows better
                object.__setattr__(self, name, _plain_path(value) if name == "model_dir" else value)
        for name, check in _CHECKS.items():
            if not check.holds(getattr(self, name)):
                raise ValueError(f"{name}={getattr(self, name)!r} is not valid: use {check.allowed}.")
        if self.save_checkpoints_steps is not None and self.save_checkpoints_secs is not None:
            raise ValueError(
                f"save_checkpoints_steps={self.save_checkpoints_steps} and save_checkpoints_secs="
                f"{self.save_checkpoints_secs} are both given: give one of them."
            )
        for name in _REFUSED:
            if getattr(self, name) is not None:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} cannot be used: leave it out, and describe the cluster of ps and "
                    "workers by TF_CONFIG. Workers without ps, as in MultiWorkerMirroredStrategy, train with "
                    'job={"ps_on_workers": True, "update": "sync"}.'
                )
        _check_job(self.job)


_SAVES = (
    ("save_checkpoints_steps", "save_checkpoints_secs"),
    ("save_checkpoints_secs", "save_checkpoints_steps"),
)


def _plain_path(path: Any) -> str | None:
    return os.fsdecode(path) if isinstance(path, bytes | os.PathLike) else path


def _joined_model_dir(given: Any, of_tf_config: str | None) -> str | None:
    given = _plain_path(given)
    if given and of_tf_config and given != of_tf_config:
        raise ValueError(f"model_dir={given} differs from TF_CONFIG's, {of_tf_config}: give one of them.")
    return of_tf_config if given is None else given


def _check_job(job: Mapping[str, Any] | None) -> None:
    names = [field.name for field in job_fields(Job)]
    for name in job or {}:
        if name not in names:
            hint = nearest(str(name), names, "use {}", "`python -m ps_train --helpfull` shows all flags")
            raise ValueError(f"job has the name {name!r}, which is not a flag of ps_train: {hint}.")


def _filtered_session_config(cluster: ClusterConfig) -> v1.ConfigProto | None:
    """Returns a session config in which a task sees only the ps and itself; None for a task that does not train."""
    filters = {
        "chief": ["/job:ps", "/job:chief"],
        "master": ["/job:ps", "/job:master"],
        "worker": ["/job:ps", f"/job:worker/task:{cluster.task_id}"],
        "ps": ["/job:ps", "/job:worker", "/job:chief", "/job:master"],
    }
    if not cluster.cluster_spec or cluster.task_type not in filters:
        return None
    config = v1.ConfigProto(
        allow_soft_placement=True,
        device_filters=filters[cluster.task_type],
    )
    rewriting = config.graph_options.rewrite_options
    rewriting.meta_optimizer_iterations = rewriting.ONE
    return config
