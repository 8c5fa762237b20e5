"""What stands on a board: the kinds of notice, their keys and their wire form.

    board.put(IDENTITY, Identity(task="ps:0", ...).to_json())

Plain values; this module knows neither TensorFlow nor how a board works.
"""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import uuid
from typing import Any, TypeVar

from ps_train.runtime import process_ids

T = TypeVar("T", bound="Record")

IDENTITY = "identity"
"""Written by a ps on its own board before anything else."""

DESCRIPTION = "description"
"""Written by the chief: the job, the variables and the plan that every worker must share."""

READY = "ready"
"""Written by the chief on every ps when the model is initialised or restored.  A ps that was restarted has none."""

STOP = "stop"
"""Written by a task that got a signal: the chief is to save and end the job."""

SCORING = "scoring"
"""Written by the chief when training is over: who scores which share of the test data."""

OUTCOME = "outcome"
"""How the job ended.  The first one written counts."""


STARTING, TRAINING, RECOVERING = "starting", "training", "recovering"
WAITING, INPUT_ENDED, LEAVING, LEFT = "waiting", "input ended", "leaving", "left"
"""What a training task says of itself; it is recovering when it has lost a ps, waiting when there are no more steps,
leaving when it has read the outcome, and has left when the job goes on without it."""


def task_key(task: str) -> str:
    """The key of a training task's own notice."""
    return f"seat/{task}"


def eval_result_key(share: int) -> str:
    """The key under which whoever scores a share says that it is done."""
    return f"scored/{share}"


@dataclasses.dataclass(frozen=True)
class Record:
    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls: type[T], text: str) -> T:
        return cls(**json.loads(text))


@dataclasses.dataclass(frozen=True)
class Identity(Record):
    """A ps: which task, of which job (the fields that all tasks share), and which incarnation of it."""

    task: str
    incarnation: str
    host: str
    pid: int
    shared: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class TaskStatus(Record):
    """A training task, as it last said.

    `state` is one of those above; `beat` grows while the task lives; `holder` is unique to the process.  `machine` and
    `started` say which process the pid means (`process_ids.py`).
    """

    task: str
    process_id: str
    host: str
    pid: int
    state: str = STARTING
    heartbeat: int = 0
    machine: str = ""
    started: str = ""

    def location(self) -> str:
        return f"{self.task} on {self.host}, pid {self.pid}"


@dataclasses.dataclass(frozen=True)
class ModelReady(Record):
    """The model is initialised, at this global step.

    `world` is new whenever state was lost and restored: who trains in another one must begin anew.  `run` is the job's,
    the same for as long as its checkpoints are; `by` is the chief's process.
    """

    step: int
    by: str
    generation: str
    run_id: str


@dataclasses.dataclass(frozen=True)
class StopRequest(Record):
    """A request to end the job early, with a last checkpoint."""

    by: str
    signum: int


@dataclasses.dataclass(frozen=True)
class EvalAssignment(Record):
    """Of `count` shares of the test data, the task of each but share 0, which is the chief's.  `mark` is unique."""

    token: str
    shares: dict[str, int]
    count: int


@dataclasses.dataclass(frozen=True)
class Outcome(Record):
    """`kind` is done, failed (see `cause`) or stopped (see `signum`)."""

    kind: str
    by: str
    cause: str = ""
    signum: int = 0
    config: bool = False


def new_task_status(task: str) -> TaskStatus:
    host, pid = socket.gethostname(), os.getpid()
    return TaskStatus(
        task, uuid.uuid4().hex, host, pid, machine=process_ids.host_identity(), started=process_ids.start_time(pid)
    )


def new_identity(task: str, shared: dict[str, Any]) -> Identity:
    return Identity(task, uuid.uuid4().hex, socket.gethostname(), os.getpid(), shared)
