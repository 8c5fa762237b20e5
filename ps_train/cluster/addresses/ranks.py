"""Tasks of numbered processes: the first ranks are ps, the others are workers.

found = cluster_of_ranks(["a:2222", "b:2222", "b:2223"], rank=2, given={"num_ps": 1}, source="Slurm")
found.task          # {"job_name": "worker", "task_index": 1}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ps_train.base.errors import ConfigError
from ps_train.config.cluster_fields import HOST_LISTS, asked_ps
from ps_train.config.tf_config import FoundCluster
from ps_train.config.validators import is_number


def number_in(environ: Mapping[str, str], name: str) -> int:
    """Returns the whole number in an environment variable; raises ConfigError if it is missing or another text."""
    text = environ.get(name, "")
    if not is_number(text):
        problem = f"is {text[:40]!r}" if text else "is not set"
        raise ConfigError(f"the environment variable {name} {problem}: it must be a whole number from 0.")
    return int(text)


def check_agreement(environ: Mapping[str, str], name: str, expected: int, why: str) -> None:
    """Raises ConfigError if a variable is set and has another value than the computed one."""
    if name in environ and number_in(environ, name) != expected:
        raise ConfigError(f"the environment variable {name} is {environ[name]}, but {expected} was expected: {why}.")


def refuse_host_lists(given: Mapping[str, Any], source: str) -> None:
    """Raises ConfigError if host lists are given as flags too."""
    for name in (*HOST_LISTS, "cluster_file"):
        if given.get(name):
            raise ConfigError(f"{name} and the cluster from {source} are both given: drop --{name} or --cluster_from.")


def cluster_of_ranks(addresses: Sequence[str], rank: int, given: Mapping[str, Any], source: str) -> FoundCluster:
    """Returns the cluster and the task of a rank.

    Args:
      addresses: address of each rank.
      rank: of this process.
      given: the flags; 1 rank is a ps where they do not tell the number.
      source: the origin of the ranks, for error texts.

    Raises:
      ConfigError: the numbers do not fit.
    """
    num_ps, size = asked_ps(given, default=1), len(addresses)
    if rank >= size:
        raise ConfigError(f"the rank {rank} (from {source}) is out of range: use 0 to {size - 1}.")
    if num_ps >= size:
        raise ConfigError(
            f"{source} has {size} task{'s' if size > 1 else ''}, and {num_ps} would be ps, so no worker is left: "
            "start more tasks, or use a smaller --num_ps."
        )
    job = {"ps_hosts": tuple(addresses[:num_ps]), "worker_hosts": tuple(addresses[num_ps:])}
    name, index = ("ps", rank) if rank < num_ps else ("worker", rank - num_ps)
    return FoundCluster(job, {"job_name": name, "task_index": index}, source)
