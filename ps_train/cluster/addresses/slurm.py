"""The cluster of a Slurm job step, from the variables that `srun` sets; no program of Slurm is called.

    srun --ntasks=4 python -m ps_train --cluster_from=slurm --num_ps=1 --model_dir=/shared/run

Rank r of the step runs on the node that the block distribution, `srun`'s default, gives it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ps_train.base.errors import ConfigError
from ps_train.cluster.addresses.cluster import consecutive_ports
from ps_train.cluster.addresses.ranks import check_agreement, cluster_of_ranks, number_in, refuse_host_lists
from ps_train.config.fields import shown
from ps_train.config.tf_config import FoundCluster

SOURCE = "Slurm"
_MOST_NODES = _MOST_TASKS = 100_000
_COUNT = re.compile(r"([1-9][0-9]{0,5})(?:\(x([1-9][0-9]{0,5})\))?")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_NAME = re.compile(r"[^\s\[\],/:]*")


def resolve(given: Mapping[str, Any], environ: Mapping[str, str]) -> FoundCluster:
    """Returns the cluster and task of this process; raises ConfigError if the variables are missing or wrong."""
    refuse_host_lists(given, SOURCE)
    if "SLURM_PROCID" not in environ:
        raise ConfigError(
            "cluster_from=slurm, but SLURM_PROCID is not set: start the tasks with srun, for example "
            "srun --ntasks=4 python -m ps_train --cluster_from=slurm --num_ps=1."
        )
    rank = number_in(environ, "SLURM_PROCID")
    nodes_name = _first(environ, "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST")
    counts_name = _first(environ, "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE")
    nodes = expand_nodes(environ[nodes_name], nodes_name)
    counts = expand_counts(environ[counts_name], counts_name)
    given_counts = f"{counts_name}={shown(environ[counts_name])}"
    if len(nodes) != len(counts):
        raise ConfigError(
            f"{nodes_name}={shown(environ[nodes_name])} has {len(nodes)} nodes, but {given_counts} has "
            f"{len(counts)}: start the tasks with srun."
        )
    total = _first(environ, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS")
    check_agreement(environ, total, sum(counts), given_counts)
    places = [(node, local) for node, count in enumerate(counts) for local in range(count)]
    if rank < len(places):
        why = f"rank {rank} of {given_counts}; use srun --distribution=block"
        check_agreement(environ, "SLURM_NODEID", places[rank][0], why)
        check_agreement(environ, "SLURM_LOCALID", places[rank][1], why)
    addresses = consecutive_ports([nodes[node] for node, _ in places], given["port"])
    return cluster_of_ranks(addresses, rank, given, SOURCE)


def _first(environ: Mapping[str, str], *names: str) -> str:
    """Returns the first name that is set; raises ConfigError if there is none."""
    for name in names:
        if name in environ:
            return name
    raise ConfigError(f"cluster_from=slurm, but {names[-1]} is not set: start the tasks with srun.")


def expand_counts(text: str, where: str) -> list[int]:
    """Returns the tasks of each node: [2, 2, 2, 1] for "2(x3),1"."""
    counts: list[int] = []
    for part in text.split(","):
        found = _COUNT.fullmatch(part)
        if found is None or len(counts) + int(found[2] or 1) > _MOST_NODES:
            raise ConfigError(f"{where}={text[:80]!r} is not a list of tasks per node: it must be like 2(x3),1.")
        if sum(counts) + int(found[1]) * int(found[2] or 1) > _MOST_TASKS:
            raise ConfigError(f"{where}={text[:80]!r} has more than {_MOST_TASKS} tasks: use fewer.")
        counts += [int(found[1])] * int(found[2] or 1)
    return counts


def expand_nodes(text: str, where: str) -> list[str]:
    """Returns the names in a compressed list: "n01", "n02", "m" for "n[01-02],m"."""
    nodes: list[str] = []
    for item in re.split(r",(?![^\[]*\])", text):
        names = [""]
        for part in re.split(r"(\[[^\[\]]*\])", item):
            ends = _numbers(part[1:-1]) if part.startswith("[") and part.endswith("]") else [part]
            if not _NAME.fullmatch(part if ends == [part] else "") or len(names) * len(ends) > _MOST_NODES:
                ends = []
            names = [name + end for name in names for end in ends]
        if not names or not names[0] or len(nodes) + len(names) > _MOST_NODES:
            raise ConfigError(f"{where}={text[:80]!r} is not a list of nodes: it must be like node[01-03,07],other.")
        nodes += names
    return nodes


def _numbers(text: str) -> list[str]:
    """Returns the numbers of a bracket, "01", "02", "07" for "01-02,07"; [] for anything else."""
    found: list[str] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if match is None or high < low or len(found) + high - low >= _MOST_NODES:
            return []
        found += [f"{number:0{len(match[1])}d}" for number in range(low, high + 1)]
    return found
