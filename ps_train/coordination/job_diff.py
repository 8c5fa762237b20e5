"""Do two processes describe the same job?  Pure comparisons with the difference in words.

differences({"max_steps": 100}, {"max_steps": 200}, theirs="the chief", mine="worker:1")
# ['max_steps: 100 at the chief, 200 at worker:1']
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ps_train.cluster.spec import Cluster
from ps_train.config.job import HOST_LISTS, Job

CLUSTER_FIELDS = (*HOST_LISTS, "elastic")


def diff_configs(theirs: Mapping[str, Any], mine: Mapping[str, Any], their_name: str, my_name: str) -> list[str]:
    """One line for each field that differs; worker lists with gaps, and those of elastic jobs, are compared where both
    name a worker."""
    lines = []
    for name in sorted({*theirs, *mine}):
        left, right = theirs.get(name), mine.get(name)
        if left == right or (name == "worker_hosts" and _compatible(left, right, bool(mine.get("elastic")))):
            continue
        lines.append(f"{name}: {_shown(left)} at {their_name}, {_shown(right)} at {my_name}")
    return lines


def job_fingerprint(job: Job) -> dict[str, Any]:
    """What all tasks must agree on, in a form that survives JSON unchanged.  The number of workers is in it because a
    task may know only some of their addresses, and takes its share of the data by that number."""
    return {**job.shared_fields(), "number of workers": Cluster.of(job).num_workers}


def cluster_fields(shared: Mapping[str, Any]) -> dict[str, Any]:
    """What says who the others are: all that matters to a ps."""
    return {name: shared[name] for name in CLUSTER_FIELDS}


def _compatible(left: Any, right: Any, elastic: bool) -> bool:
    if not elastic and not any("=" in host for host in [*(left or []), *(right or [])]):
        return False
    ours, others = _by_index(left or []), _by_index(right or [])
    return all(ours[index] == others[index] for index in ours.keys() & others.keys())


def _by_index(hosts: list[str]) -> dict[str, str]:
    pairs = (host.partition("=") if "=" in host else (str(i), "=", host) for i, host in enumerate(hosts))
    return {index: address for index, _, address in pairs}


def _shown(value: Any) -> str:
    if value is None:
        return "missing"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
