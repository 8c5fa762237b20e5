"""Records of the key-value store: their kinds, their keys and their wire form.

    store.set(IDENTITY, Identity(..., task="ps:0").to_json())

Plain values; this module imports no TensorFlow and does not depend on the store.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import os
import socket
import uuid
from collections.abc import Mapping
from typing import Any, TypeVar

from ps_train.base import process_ids
from ps_train.base.untrusted import read_record
from ps_train.config.job import Job, Task

T = TypeVar("T", bound="Record")

IDENTITY = "identity"
"""Key of `Identity`.  A ps writes it to its own store before anything else."""

DESCRIPTION = "description"
"""Key of the job, the variables and the plan that every worker must share.  The chief writes it."""

READY = "ready"
"""Key of `ModelReady`.  The chief writes it to every ps when the model is initialised or restored.

A restarted ps has none.
"""

PS_WEIGHTS = "ps_weights"
"""Key of the weights of the ps that the chief has measured, on every ps; see `--ps_weights=auto`."""

STOP = "stop"
"""Key of `StopRequest`.  A task that got a signal writes it; the chief then saves and ends the job."""

TRAINED = "trained"
"""Key of the name of the hook that ended the training.  The chief writes it; no task then makes further steps."""

ENDING = "ending"
"""Key that the chief writes when training is over, before its own hooks are told the end.

Hooks of all tasks are told at the same time, since they may wait for each other.
"""

SCORING = "scoring"
"""Key of `EvalAssignment`.  The chief writes it when training is over."""

TOLD = "told"
"""Key of what the chief's model tells the models of the other tasks at the end, as text."""

OUTCOME = "outcome"
"""Key of `Outcome`.  The first one written counts."""

TELEMETRY = "telemetry"
"""Key of the measurements of a ps, which it writes to its own store; see `cluster/membership/telemetry.py`."""


class TaskState(str, enum.Enum):
    """A state of a training task.  Members equal their texts, which is what a record holds.

    A preparing task has not joined yet.  A recovering task has lost a ps.  A waiting task has no more steps.  A leaving
    task has read the outcome.  The job goes on without a task that has left, or whose script has failed.  A serving
    task of a script does work of other tasks only.
    """

    PREPARING = "preparing"
    STARTING = "starting"
    TRAINING = "training"
    RECOVERING = "recovering"
    WAITING = "waiting"
    INPUT_ENDED = "input ended"
    LEAVING = "leaving"
    LEFT = "left"
    SERVING = "serving"
    FAILED = "failed"


class OutcomeKind(str, enum.Enum):
    """The ways in which a job ends.  Members equal their texts."""

    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"


def task_key(task: str) -> str:
    """Returns the key of a training task's status."""
    return f"seat/{task}"


def preparing_key(task: str) -> str:
    """Returns the key of the status of a training task that has not joined yet."""
    return f"preparing/{task}"


def eval_result_key(share: int) -> str:
    """Returns the key under which a task writes that it has scored a share."""
    return f"scored/{share}"


@dataclasses.dataclass(frozen=True)
class Record:
    """A value of the store with a JSON form."""

    def to_json(self) -> str:
        """Returns the fields as one JSON object."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls: type[T], text: str) -> T:
        """Makes a record from its JSON form; raises RefusedError for another form, such as another version's."""
        return read_record(cls, text)


@dataclasses.dataclass(frozen=True)
class Identity(Record):
    """The process that runs as a ps.

    Attributes:
      task: its name, such as "ps:0".
      incarnation: unique to the process.
      host, pid: where the process runs.
      shared: the job's fields that all tasks share.
      rack: the ps's own `--rack`; "" for none.
    """

    task: str
    incarnation: str
    host: str
    pid: int
    shared: dict[str, Any]
    rack: str = ""


@dataclasses.dataclass(frozen=True)
class TaskStatus(Record):
    """The last published status of a training task.

    Attributes:
      task: its name, such as "worker:1".
      process_id: unique to the process.
      host, pid: where the process runs.
      state: a `TaskState`; an unknown text in a record is kept, and equals none of them.
      heartbeat: a counter that grows while the task lives.
      telemetry: measurements (`telemetry.py`), on ps 0 only.
      rack: the task's own `--rack`; "" for none.
      machine, started: identify the process that the pid means (`base/process_ids.py`).
    """

    task: str
    process_id: str
    host: str
    pid: int
    state: str = TaskState.STARTING
    heartbeat: int = 0
    machine: str = ""
    started: str = ""
    telemetry: dict[str, Any] = dataclasses.field(default_factory=dict)
    rack: str = ""

    @property
    def sign_of_life(self) -> tuple[str, int]:
        """The process and its counter: a pair that changes while the task lives."""
        return self.process_id, self.heartbeat

    def location(self) -> str:
        """Returns the task, host and pid for a message."""
        return f"{self.task} on {self.host}, pid {self.pid}"


def task_statuses(items: Mapping[str, str]) -> list[TaskStatus]:
    """Returns the status of every training task that has a record in a store, as joined or as preparing.

    Args:
      items: the keys and values of the store.
    """
    preparing, joined = (
        {key.removeprefix(prefix): TaskStatus.from_json(text) for key, text in items.items() if key.startswith(prefix)}
        for prefix in (preparing_key(""), task_key(""))
    )
    return [*(preparing | joined).values()]


@dataclasses.dataclass(frozen=True)
class ModelReady(Record):
    """The state of an initialised model.

    Attributes:
      step: the global step at which it was initialised or restored.
      by: the chief's process.
      generation: new whenever state was lost and restored.  A worker in another generation must begin again.
      run_id: of the run; it stays the same while the run's checkpoints are continued.
    """

    step: int
    by: str
    generation: str
    run_id: str


@dataclasses.dataclass(frozen=True)
class StopRequest(Record):
    """A request to end the job early, with a last checkpoint.

    Attributes:
      by: the task that got the signal.
      signum: the signal.
    """

    by: str
    signum: int


@dataclasses.dataclass(frozen=True)
class EvalAssignment(Record):
    """The assignment of shares of the test data to tasks.

    Attributes:
      token: unique to the assignment.
      shares: each task's share.  Share 0 is the chief's and is not listed.
      count: the number of shares.
      least_examples: examples of a share after which scoring may end, if the data do not.
      field: the field of the features by whose values there are metrics of parts of the data; "" for none.
      values: the values that have a part of their own.
      examples: number of examples of the test data, of which a task must see the same; negative: it is not known.
    """

    token: str
    shares: dict[str, int]
    count: int
    least_examples: int = 0
    field: str = ""
    values: list[str] = dataclasses.field(default_factory=list)
    examples: int = -1


@dataclasses.dataclass(frozen=True)
class Outcome(Record):
    """The end of a job.

    Attributes:
      kind: an `OutcomeKind`: done, failed (see `cause`) or stopped (see `signum`); an unknown text counts as done.
      by: the task that ended it.
      cause: why it failed.
      signum: the signal that stopped it.
      config: whether the configuration was at fault, so that a restart cannot help.
    """

    kind: str
    by: str
    cause: str = ""
    signum: int = 0
    config: bool = False


def new_task_status(task: str, rack: str = "") -> TaskStatus:
    """Makes the first status of a task that runs in this process, in the rack that it was given."""
    host, pid, machine = socket.gethostname(), os.getpid(), process_ids.host_identity()
    return TaskStatus(
        task, uuid.uuid4().hex, host, pid, machine=machine, started=process_ids.start_time(pid), rack=rack
    )


def status_of(job: Job, task: Task) -> TaskStatus:
    """Makes the first status of a task of a job, with the place that it was given."""
    return new_task_status(str(task), job.rack)


def identity_of(job: Job, task: Task) -> Identity:
    """Makes the identity of a ps of a job, with the place that it was given."""
    return new_identity(str(task), job.shared_fields(), job.rack)


def new_identity(task: str, shared: dict[str, Any], rack: str = "") -> Identity:
    """Makes the identity of a ps that runs in this process, in the rack that it was given."""
    return Identity(task, uuid.uuid4().hex, socket.gethostname(), os.getpid(), shared, rack)
