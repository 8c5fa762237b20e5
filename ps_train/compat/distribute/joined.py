"""Tasks that serve until the program of their launcher is over: each ps, and workers that join a `Server`.

    ask(directory, arguments)           # the chief, at each fit
    join(Task("ps", 0), given)          # another task: returns when the program is over

A ps needs nothing but the cluster.  A worker that joins a server has no model: it trains one that the chief has traced,
and that the arguments name.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ps_train.base import malloc
from ps_train.base.console import Console, quiet_console
from ps_train.base.errors import EXIT_DONE, ConfigError
from ps_train.base.whole_file import write_whole
from ps_train.cluster.addresses.from_environment import parse_flags
from ps_train.cluster.sessions.server import forget_jobs
from ps_train.compat.scripts.coordinated import DIRECTORY_VARIABLE, asks_workers, is_over
from ps_train.config import flags
from ps_train.config.job import Job, Task
from ps_train.training.tasks import ps, worker

_LOOK_SECS = 0.1

Role = Callable[[Job, Task, Console], int]
"""The work of a task; returns its exit code."""


def asked_directory() -> str:
    """Returns the directory in which the chief asks other tasks; "" without a launcher."""
    return os.environ.get(DIRECTORY_VARIABLE, "")


def directory_of_workers() -> str:
    """Returns the directory in which the chief asks workers for a model that it has traced; "" if they call `fit`."""
    directory = asked_directory()
    return directory if asks_workers(directory) else ""


def ask(directory: str, arguments: Sequence[str]) -> None:
    """Asks the other tasks to train.

    Args:
      directory: that of the launcher.
      arguments: the flags of the job, with a model that other processes can make.
    """
    number = sum(name.startswith("fit-") for name in os.listdir(directory))
    write_whole(_path(directory, number), json.dumps([*arguments]))


def _path(directory: str, number: int) -> str:
    return os.path.join(directory, f"fit-{number}.json")


def join(task: Task, given: Mapping[str, Any], roles: Mapping[str, Role] | None = None) -> int:
    """Takes part in every `fit` of the chief; returns the exit code when the program is over.

    Args:
      task: of this process.
      given: the flags of the cluster.
      roles: the work of a task by the name of its job; None for that of ps_train.

    Raises:
      PsTrainError: the training failed, or a worker has no launcher that tells it what to train.
    """
    roles = roles or {"ps": ps.run, "worker": worker.run}
    directory = asked_directory()
    if not directory and task.job_name == "ps":
        return _run(roles["ps"], flags.as_arguments(dict(given)), task)
    if not directory:
        raise ConfigError(
            f"{task} calls Server.join() and waits for a model, which comes only from a chief on the same machine: "
            "start the program with python -m ps_train run --num_ps=N --num_workers=N, or let every worker make the "
            "model and call fit.",
            page="keras#programs-of-tfdistribute",
        )
    for number in itertools.count():
        while not os.path.exists(_path(directory, number)):
            if is_over(directory):
                return EXIT_DONE
            time.sleep(_LOOK_SECS)
        with open(_path(directory, number)) as file:
            arguments = [*json.load(file), *flags.as_arguments(dict(given))]
        if code := _run(roles[task.job_name], arguments, task):
            return code
        forget_jobs()  # or a worker that comes first would read the outcome of this job as that of the next
    raise AssertionError("the count has no end")


def _run(role: Role, arguments: Sequence[str], task: Task) -> int:
    malloc.tune_malloc(os.environ)
    parsed = parse_flags([*arguments, f"--job_name={task.job_name}", f"--task_index={task.task_index}"], os.environ)
    return role(parsed.job, flags.with_task(parsed.task), quiet_console())
