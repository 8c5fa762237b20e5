"""The task of an MPI rank, and its cluster from a hostfile or from host lists.

    mpirun -n 4 --hostfile hosts python -m ps_train --cluster_from=mpi --hostfile=hosts --num_ps=1
    mpirun -n 3 python -m ps_train --cluster_from=mpi --ps_hosts=a:2222 --worker_hosts=b:2222,c:2222

Only the rank is used; no MPI library is.  Hosts are filled slot by slot, as `mpirun` does by default.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from ps_train.base.errors import ConfigError
from ps_train.base.untrusted import read_text
from ps_train.cluster.addresses.cluster import consecutive_ports
from ps_train.cluster.addresses.ranks import check_agreement, cluster_of_ranks, number_in
from ps_train.config.tf_config import FoundCluster, read_cluster_file

SOURCE = "MPI"
RANKS = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    ("PMIX_RANK", "PMIX_SIZE", "PMIX_LOCAL_RANK"),
)
"""Names of rank, size and local rank: Open MPI, MPICH and Intel MPI, PMIx (which need not set the others)."""

_MOST_SLOTS, _PIPE_SECS = 100_000, 10.0
_LINE = re.compile(r"([^\s:\[\]]+|\[[0-9A-Fa-f:]+\])(?::([1-9][0-9]{0,4}))?((?:\s+\w+\s*=\s*\w+)*)")
_SLOTS = re.compile(r"\bslots\s*=\s*(\w+)")


def resolve(given: Mapping[str, Any], environ: Mapping[str, str]) -> FoundCluster:
    """Returns the cluster and task of this rank; raises ConfigError if something is missing or wrong."""
    names = next((names for names in RANKS if names[0] in environ), None)
    if names is None:
        raise ConfigError(
            f"cluster_from=mpi, but none of {', '.join(rank for rank, _, _ in RANKS)} is set: start the tasks with "
            "mpirun or mpiexec."
        )
    rank, size_name, local_name = number_in(environ, names[0]), names[1], names[2]
    if given.get("cluster_file"):
        given = {**given, **read_cluster_file(given["cluster_file"])}
    if given.get("ps_hosts") or given.get("worker_hosts"):
        return _of_lists(given, rank, environ, size_name)
    if not given.get("hostfile"):
        raise ConfigError("cluster_from=mpi, but no hosts are given: add --hostfile, or --ps_hosts and --worker_hosts.")
    hosts = _read_hostfile(given["hostfile"])
    size = number_in(environ, size_name) if size_name in environ else len(hosts)
    if size > len(hosts):
        raise ConfigError(f"hostfile={given['hostfile']} has {len(hosts)} slots for {size_name}={size} tasks.")
    hosts = hosts[:size]
    if rank < size:
        why = f"slots of hostfile={given['hostfile']}; use mpirun --map-by slot with the same file"
        check_agreement(environ, local_name, hosts[:rank].count(hosts[rank]), why)
    return cluster_of_ranks(consecutive_ports(hosts, given["port"]), rank, given, SOURCE)


def _of_lists(given: Mapping[str, Any], rank: int, environ: Mapping[str, str], size_name: str) -> FoundCluster:
    """Returns the task of a rank in given host lists: the ps, then the chief, then the workers."""
    if given.get("hostfile"):
        raise ConfigError("hostfile and host lists are both given: drop one of them.")
    lists = (("ps", "ps_hosts"), ("chief", "chief_hosts"), ("worker", "worker_hosts"))
    tasks = [(name, index) for name, hosts in lists for index in range(len(given.get(hosts, ())))]
    check_agreement(environ, size_name, len(tasks), "it is the number of tasks in the host lists")
    if rank >= len(tasks):
        raise ConfigError(f"the rank {rank} (from MPI) is out of range: the host lists have {len(tasks)} tasks.")
    return FoundCluster({}, dict(zip(("job_name", "task_index"), tasks[rank], strict=True)), SOURCE)


def _read_hostfile(path: str) -> list[str]:
    """Returns the host of each slot of a hostfile; a line is `HOST`, `HOST slots=N` or `HOST:N`."""
    try:
        lines = read_text(os.path.expanduser(path), pipe_secs=_PIPE_SECS).splitlines()
    except (OSError, ValueError) as error:
        cause = getattr(error, "strerror", None) or error
        raise ConfigError(f"hostfile={path} cannot be read ({cause}): use the path of a file.") from None
    hosts: list[str] = []
    for number, line in enumerate((line.partition("#")[0].strip() for line in lines), 1):
        if not line:
            continue
        found = _LINE.fullmatch(line)
        slots = _SLOTS.search(found[3]) if found else None
        count = (slots[1] if slots else found[2] or "1") if found else ""
        if found is None or not re.fullmatch("[1-9][0-9]{0,4}", count) or (slots and found[2]):
            raise ConfigError(f"hostfile {path}:{number} is {line[:80]!r}: use HOST, HOST slots=N or HOST:N.")
        hosts += [found[1]] * int(count)
        if len(hosts) > _MOST_SLOTS:
            raise ConfigError(f"hostfile {path}:{number} is beyond {_MOST_SLOTS} slots: use fewer.")
    return hosts
