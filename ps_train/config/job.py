"""The Job: one frozen, validated value that describes a run completely.

    job = Job(model="ps_train.models.digits:Digits", max_steps=500)

Every process of a run gets the same Job.  Its fields are in `cluster_fields.py`, `training_fields.py` and
`output_fields.py`.  The metadata of each field hold its help, the check of its value, and a mark if all processes must
agree on it.  `flags.py` makes one flag of each field.  This subsystem does not use TensorFlow, and only `flags.py`
uses absl.
"""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any

from ps_train.base.errors import ConfigError
from ps_train.config.fault_spec import parse
from ps_train.config.fields import LOCAL, check_fields, item_key, job_field, job_fields, path_fields, source_of
from ps_train.config.job_values import JobValues
from ps_train.config.optimizer_arguments import OptimizerName, Value, values_of
from ps_train.config.paths import local_path
from ps_train.config.refusals import refuse
from ps_train.config.validators import at_least, one_of, optional

JOB_NAMES = ("ps", "worker", "chief", "evaluator", "local")


@dataclasses.dataclass(frozen=True)
class Task:
    """Job name and task index of a process: `Task("ps", 0)` is written ps:0."""

    job_name: str = job_field(
        "local", "task", "Role of this process.", one_of(JOB_NAMES), page="hosts#by-hand", common=True
    )
    task_index: int | None = job_field(
        None, "task", "Which task of its job, counted from 0.", optional(at_least(0)), page="hosts#by-hand", common=True
    )

    @classmethod
    def named(cls, name: str) -> Task:
        """Returns the task of a name such as worker:1."""
        job_name, _, index = name.partition(":")
        return cls(job_name, int(index))

    def with_default_index(self) -> Task:
        """Returns the task with the index 0 if it has none."""
        return self if self.task_index is not None else dataclasses.replace(self, task_index=0)

    def __str__(self) -> str:
        return f"{self.job_name}:{self.task_index}"


HELD_PORT_VARIABLE = "PS_TRAIN_HELD_PORT_FD"
"""Environment variable: the socket, inherited from the launcher, that reserves the task's port."""

WATCH_STDIN_VARIABLE = "PS_TRAIN_WATCH_STDIN"
"""Environment variable: set if standard input is a pipe that closes when the launcher ends."""


@dataclasses.dataclass(frozen=True)
class Job(JobValues):
    """Complete description of a run.

    Raises:
      ConfigError: a value is not allowed; the text shows field, value and source.
    """

    def __post_init__(self) -> None:
        for name, place in path_fields(Job).items():
            given = getattr(self, name)
            path = os.fspath(given) if isinstance(given, os.PathLike) else given
            if not isinstance(path, str):
                raise ConfigError(f"{name}={path!r} is not valid: use a path.")
            object.__setattr__(self, name, local_path(name, path, source_of(self.sources, name), place == LOCAL))
        check_fields(self, self.sources)
        super().__post_init__()
        refuse(self)
        parse(self.inject_fault)
        self.model_arguments()
        self._check_optimizer_arguments()
        self.outer_arguments()

    def model_arguments(self) -> dict[str, str]:
        """Returns `model_arg` as a dict; the last value of a repeated key counts."""
        return self._as_dict("model_arg", "hidden=64")

    def optimizer_arguments(self) -> dict[str, str]:
        """Returns `optimizer_arg` as a dict; the last value of a repeated key counts."""
        return self._as_dict("optimizer_arg", "epsilon=1e-6")

    def outer_arguments(self) -> dict[str, Value]:
        """Returns the values of all arguments of the outer optimizer."""
        given = self._as_dict("outer_optimizer_arg", "momentum=0.8")
        return values_of(self.outer_optimizer or "sgd", given, self.sources, "outer_optimizer_arg")

    def optimizer_name(self, default: str) -> OptimizerName:
        """Returns the name of the optimizer, with its arguments.

        Args:
          default: the name without --optimizer.
        """
        return OptimizerName(self.optimizer or default, self.optimizer_arguments(), self.sources)

    def _as_dict(self, name: str, example: str) -> dict[str, str]:
        arguments = {}
        for text in getattr(self, name):
            key, equals, value = text.partition("=") if isinstance(text, str) else ("", "", "")
            if not equals or not key.isidentifier():
                source = source_of(self.sources, item_key(name, text)) or source_of(self.sources, name)
                raise ConfigError(
                    f"{name}={text}{source} is not of the form key=value: use for example --{name}={example}."
                )
            arguments[key] = value
        return arguments

    def _check_optimizer_arguments(self) -> None:
        given = self.optimizer_arguments()
        if "learning_rate" in given:
            text = given["learning_rate"]
            raise ConfigError(
                f"optimizer_arg learning_rate={text}"
                f"{source_of(self.sources, item_key('optimizer_arg', f'learning_rate={text}'))} is not an argument of "
                f"its own: use --learning_rate={text}."
            )
        if self.optimizer is not None:
            values_of(self.optimizer, given, self.sources)

    def shared_fields(self) -> dict[str, Any]:
        """Returns the fields on which all tasks must agree, in a form that JSON leaves unchanged."""
        shared = {f.name: getattr(self, f.name) for f in job_fields(Job) if f.metadata["shared"]}
        for name in ("model_arg", "optimizer_arg", "outer_optimizer_arg"):  # the last value of a repeated key counts
            shared[name] = sorted(f"{key}={value}" for key, value in self._as_dict(name, "").items())
        for name in ("max_steps_ahead", "backup_workers", "local_steps"):  # a number or its text
            shared[name] = str(shared[name])
        if self.batch_sizes.is_range:  # otherwise workers may have different ones
            shared["batch_size"] = self.batch_size
        if self.cluster_file:  # the addresses in the file may change later
            shared |= {"worker_hosts": (), "ps_hosts": len(self.ps_hosts), "chief_hosts": len(self.chief_hosts)}
        return json.loads(json.dumps(shared))
