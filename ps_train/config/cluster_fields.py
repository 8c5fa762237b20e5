"""Fields of the Job about processes: the cluster, a cluster on one machine, and timeouts."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from ps_train.config.fault_spec import FORMS
from ps_train.config.fields import LOCAL, job_field
from ps_train.config.validators import Check, above, at_least, one_of, optional, weights

HOST_LISTS = ("ps_hosts", "worker_hosts", "chief_hosts")

_MOST_TASKS = 60_000
"""Most ps or workers of one machine: each has a port of its own."""

_HOSTS = "Comma-separated host:port list; the order is the task index and must be the same everywhere."
_LABEL = re.compile(r"(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_RACK = re.compile(r"[A-Za-z0-9._-]{1,63}")
CLUSTER_SOURCES = ("auto", "tf_config", "slurm", "kubernetes", "mpi", "none")


def is_rack(text: str) -> bool:
    """Returns whether a text is the name of a rack."""
    return _RACK.fullmatch(text) is not None


rack_or_none = Check("letters, digits, '.', '_' and '-', at most 63", lambda text: text == "" or is_rack(text))


@dataclasses.dataclass(frozen=True)
class ClusterFields:
    """Fields about processes; each has its help and its check."""

    ps_hosts: tuple[str, ...] = job_field((), "cluster", _HOSTS, page="hosts#by-hand", shared=True, common=True)
    worker_hosts: tuple[str, ...] = job_field(
        (),
        "cluster",
        _HOSTS + "  An entry may be INDEX=host:port where a task does not know all workers; dns:NAME:PORT*N means the "
        "N addresses of a name.",
        page="hosts#by-hand",
        shared=True,
        common=True,
    )
    chief_hosts: tuple[str, ...] = job_field(
        (), "cluster", "host:port of the chief; without one, worker 0 is the chief.", page="hosts#by-hand", shared=True
    )
    cluster_file: str = job_field(
        "",
        "cluster",
        "JSON file with the host lists, as in TF_CONFIG; running tasks follow its changes.",
        page="hosts#when-a-ps-dies",
        path=LOCAL,
    )
    cluster_from: str = job_field(
        "auto",
        "cluster",
        "Source of the cluster and the task.  auto: TF_CONFIG if it is set.",
        one_of(CLUSTER_SOURCES),
        page="hosts#from-the-environment",
    )
    port: int = job_field(
        2222,
        "cluster",
        "First port of each host, for a cluster from Slurm, Kubernetes or an MPI hostfile.",
        Check("a number from 1 to 65535", lambda port: 1 <= port <= 65535),
        page="hosts#from-the-environment",
    )
    allow_public_ports: bool = job_field(
        False,
        "cluster",
        "Start although this machine has a public address, at which any client that reaches the task's port can run "
        "code.",
        page="SECURITY#public-addresses",
    )
    hostfile: str = job_field(
        "", "cluster", "Hostfile of mpirun, for --cluster_from=mpi.", page="hosts#from-the-environment"
    )
    k8s_service: str = job_field(
        "", "cluster", "Headless service of the pods, for --cluster_from=kubernetes.", page="hosts#kubernetes"
    )
    ps_on_workers: bool = job_field(
        False,
        "cluster",
        "Start no ps: each worker also holds a share of the variables.  Give worker_hosts (and chief_hosts) without "
        "ps_hosts.",
        page="speed#ps-on-the-workers",
        shared=True,
    )
    ps_weights: str = job_field(
        "",
        "cluster",
        "Relative shares of the variables on each ps, as in 1,1,0.5.  auto: by the speed of the network to each ps, "
        "which the chief measures when the job starts. [even]",
        weights,
        page="speed#how-many-ps",
        shared=True,
    )
    min_workers: int = job_field(
        1,
        "cluster",
        "End the job with an error when fewer workers remain.",
        at_least(1),
        page="hosts#workers-that-come-and-go",
    )
    max_workers: int = job_field(
        0,
        "cluster",
        "Elastic job: further workers may join, up to this number of workers, and workers may leave.  0: only the "
        "workers of the host lists.",
        at_least(0),
        page="hosts#workers-that-come-and-go",
        shared=True,
    )
    rack: str = job_field(
        "",
        "cluster",
        "rack of this task.  The workers of a rack add up their gradients, and one of them pushes the sum.  slurm: the "
        "switch next to the node.  kubernetes: the node's label --k8s_rack_label.",
        rack_or_none,
        page="hosts#racks",
    )
    k8s_rack_label: str = job_field(
        "topology.kubernetes.io/zone",
        "cluster",
        "Label of the nodes that names their rack, for --rack=kubernetes.",
        Check("a label, such as topology.kubernetes.io/zone", lambda text: _LABEL.fullmatch(text) is not None),
        page="hosts#racks",
    )
    rack_port: int = job_field(
        0,
        "cluster",
        "Port on which a rack's workers meet; the second worker of a host takes the next port, and so on.  0: a free "
        "port.",
        Check("a number from 0 to 65535", lambda port: 0 <= port <= 65535),
        page="hosts#racks",
    )
    rack_file: str = job_field(
        "",
        "cluster",
        "JSON file with the rack of each host, instead of --rack at each worker.",
        page="hosts#racks",
        path=LOCAL,
    )
    ps_placement: str = job_field(
        "spread",
        "cluster",
        "Place of the variables.  spread: on all ps.  near: on the ps in the rack with the most workers (--rack_file).",
        one_of(("spread", "near")),
        page="hosts#racks",
        shared=True,
    )

    num_ps: int | None = job_field(
        None,
        "local mode",
        "Number of ps; 0: as --ps_on_workers. [1]",
        optional(at_least(0, _MOST_TASKS)),
        page="speed#how-many-ps",
        common=True,
    )
    num_workers: int | None = job_field(
        None,
        "local mode",
        "Number of workers. [2]  With INDEX=host:port lists: number of workers of the job.",
        optional(at_least(1, _MOST_TASKS)),
        page="speed#learning-rate-and-batch-size-with-more-workers",
        common=True,
    )
    max_restarts: int = job_field(
        0, "local mode", "Restarts of each failed process.", at_least(0), page="troubleshoot#a-task-died"
    )
    inject_fault: tuple[str, ...] = job_field(
        (), "local mode", f"Faults to cause: {FORMS}.", page="troubleshoot#a-task-died"
    )

    startup_timeout_secs: float = job_field(
        120.0, "timeouts", "Longest wait of a starting task for the other tasks.", above(0), page="hosts#timeouts"
    )
    recovery_timeout_secs: float = job_field(
        60.0,
        "timeouts",
        "Longest wait of the job for a ps or chief that does not answer.",
        above(0),
        page="hosts#timeouts",
    )
    heartbeat_timeout_secs: float = job_field(
        10.0,
        "timeouts",
        "A worker without a heartbeat for this long is left out until it is back.",
        above(0),
        page="hosts#timeouts",
    )
    finish_timeout_secs: float = job_field(
        60.0, "timeouts", "Longest wait of the chief for the other workers at the end.", above(0), page="hosts#timeouts"
    )

    def __post_init__(self) -> None:
        if self.num_ps == 0:
            object.__setattr__(self, "ps_on_workers", True)


PS_FLAGS = ("num_ps", "ps_on_workers")
"""The flags of `asked_ps`."""


def asked_ps(given: Mapping[str, Any], default: Any = None) -> Any:
    """Returns the number of processes for ps that flags ask for, 0 where the workers are the ps.

    Args:
      given: flags by name.
      default: the number where no flag tells one.
    """
    number = 0 if given.get("ps_on_workers") else given.get("num_ps")
    return default if number is None else number
