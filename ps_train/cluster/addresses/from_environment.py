"""The flags of a process, with the cluster that its environment describes.

    parsed = parse_flags(sys.argv[1:], os.environ)

`--cluster_from` names the source.  Only `TF_CONFIG` is read without being named, because no other program sets it by
chance; the variables of Slurm and MPI are in every interactive shell of theirs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ps_train.base.errors import ConfigError
from ps_train.cluster.addresses import kubernetes, mpi, slurm
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.addresses.dns import resolve_dns
from ps_train.cluster.addresses.own_rack import with_own_rack
from ps_train.config import flags
from ps_train.config.cluster_fields import HOST_LISTS
from ps_train.config.job import Job, Task
from ps_train.config.tf_config import FoundCluster, from_tf_config

_RESOLVERS: dict[str, Callable[[Mapping[str, Any], Mapping[str, str]], FoundCluster]] = {
    "slurm": slurm.resolve,
    "kubernetes": kubernetes.resolve,
    "mpi": mpi.resolve,
}


def parse_flags(arguments: Sequence[str], environ: Mapping[str, str]) -> flags.ParsedFlags:
    """Parses the command line and the environment, and looks up the DNS names of host lists and the task's rack.

    Raises:
      ConfigError: something is invalid; the text is one line.
      UnreachableError: a DNS name has no addresses, or the platform does not tell the rack in time.
    """
    parsed = flags.parse(arguments, environ, _resolve)
    job, task = resolve_dns(parsed.job, parsed.task)
    return dataclasses.replace(parsed, job=with_own_rack(job, task, environ), task=task)


def _resolve(given: Mapping[str, Any], environ: Mapping[str, str]) -> FoundCluster:
    source = given.get("cluster_from", "auto")
    if source in _RESOLVERS:
        return _RESOLVERS[source]({"port": Job.port, **given}, environ)
    if source == "none":
        return FoundCluster({}, {}, "")
    if source == "tf_config" and not environ.get("TF_CONFIG", "").strip():
        raise ConfigError("cluster_from=tf_config, but the environment variable TF_CONFIG is not set: set it.")
    found = from_tf_config(given, environ)
    if source == "tf_config" and not any(found.job.get(name) or given.get(name) for name in HOST_LISTS):
        raise ConfigError('cluster_from=tf_config, but TF_CONFIG names no hosts: give it a "cluster".')
    return found


def origin(job: Job, task: Task) -> str:
    """Returns a line about a cluster or task that comes from the environment; "" if flags describe both."""
    known = (slurm.SOURCE, kubernetes.SOURCE, mpi.SOURCE, flags.TF_CONFIG)
    source = next((s for s in (job.sources.get("ps_hosts"), job.sources.get("job_name")) if s in known), None)
    if source is None:
        return ""
    if not job.ps_hosts:
        return f"{task} from {source}"
    cluster = Cluster.of(job)
    return f"cluster from {source}: {len(cluster.ps)} ps, {cluster.num_replicas} workers; this process is {task}"


def unused_ranks(job: Job, environ: Mapping[str, str]) -> str:
    """Returns a warning if this local job is one of several tasks of Slurm or MPI, else ""."""
    slurm_names = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "")
    for name, (rank, size, _) in (("slurm", slurm_names), *(("mpi", names) for names in mpi.RANKS)):
        if job.cluster_from == "auto" and rank in environ and environ.get(size, "1") not in ("", "0", "1"):
            return (
                f"{rank}={environ[rank]} of {size}={environ[size]} is not used: this process starts a cluster of its "
                f"own on this machine; --cluster_from={name} makes one cluster of all tasks, --cluster_from=none is "
                "silent."
            )
    return ""
