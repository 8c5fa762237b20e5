"""The cluster of Kubernetes pods, whose names end with a number: a StatefulSet, or an indexed Job.

    # pods train-ps-0, train-worker-0, train-worker-1 behind the headless service `train`
    python -m ps_train --cluster_from=kubernetes --k8s_service=train --num_ps=1 --num_workers=2

In two sets, the names end with `ps-N` and `worker-N`.  In one set or indexed Job, the first `num_ps` pods are ps.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from typing import Any

from ps_train.base.errors import ConfigError
from ps_train.cluster.addresses.ranks import check_agreement, cluster_of_ranks, refuse_host_lists
from ps_train.config.cluster_fields import asked_ps
from ps_train.config.tf_config import FoundCluster

SOURCE = "Kubernetes"
_POD = re.compile(r"((?:[a-z0-9.-]*-)?)(ps|worker)-([0-9]{1,6})")
_NUMBERED = re.compile(r"([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)-([0-9]{1,6})")
_MOST_PODS = 100_000
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_SERVICE = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")


def resolve(given: Mapping[str, Any], environ: Mapping[str, str]) -> FoundCluster:
    """Returns the cluster and task of this pod; raises ConfigError if something is missing or wrong."""
    refuse_host_lists(given, SOURCE)
    given = {**given, "num_ps": asked_ps(given)}
    for name in ("k8s_service", "num_ps", "num_workers"):
        if given.get(name) in (None, ""):
            raise ConfigError(
                f"cluster_from=kubernetes, but {name} is not given: give --k8s_service (the headless service), "
                "--num_ps and --num_workers (numbers of pods)."
            )
        if given[name] and name != "k8s_service" and given[name] > _MOST_PODS:
            raise ConfigError(f"{name}={given[name]} is out of range: use at most {_MOST_PODS}.")
    service, port = given["k8s_service"], given["port"]
    if not _SERVICE.fullmatch(service):
        raise ConfigError(f"k8s_service={service[:80]!r} is not the name of a service: use for example train.")
    pod = (environ.get("HOSTNAME") or socket.gethostname()).partition(".")[0]
    numbers = {"ps": given["num_ps"], "worker": given["num_workers"]}
    if found := _POD.fullmatch(pod):
        check_agreement(environ, "JOB_COMPLETION_INDEX", int(found[3]), f"the pod's host name is {pod}")
        return _of_two_sets(found, numbers, f".{service}:{port}")
    numbered = _NUMBERED.fullmatch(pod)
    if numbered is None:
        raise ConfigError(
            f"the pod's host name {pod[:80]!r} does not end with a number, such as train-worker-0: use a StatefulSet, "
            "or a Job with completionMode: Indexed and a subdomain."
        )
    rank = int(numbered[2])
    check_agreement(environ, "JOB_COMPLETION_INDEX", rank, f"the pod's host name is {pod}")
    addresses = [f"{numbered[1]}-{index}.{service}:{port}" for index in range(sum(numbers.values()))]
    return cluster_of_ranks(addresses, rank, given, SOURCE)


def _of_two_sets(pod: re.Match[str], numbers: Mapping[str, int], ending: str) -> FoundCluster:
    """Returns the cluster of a set for each job; the pod belongs to one of them."""
    name, index = pod[2], int(pod[3])
    if index >= numbers[name]:
        raise ConfigError(
            f"the pod {pod[0]} is out of range: num_{'ps' if name == 'ps' else 'workers'}={numbers[name]}; "
            f"make it the number of replicas."
        )
    job = {
        f"{name}_hosts": tuple(f"{pod[1]}{name}-{i}{ending}" for i in range(count)) for name, count in numbers.items()
    }
    return FoundCluster(job, {"job_name": name, "task_index": index}, SOURCE)
