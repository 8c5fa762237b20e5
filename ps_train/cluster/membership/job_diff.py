"""Comparison of two processes' descriptions of a job, with the differences in words.  Pure.

diff_configs({"max_steps": 100}, {"max_steps": 200}, their_name="the chief", my_name="worker:1")
# ['max_steps: 100 at the chief, 200 at worker:1']
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ps_train.cluster.addresses.cluster import Cluster
from ps_train.config.cluster_fields import HOST_LISTS
from ps_train.config.job import Job

USES = "uses of variables"
"""Key of the marks of how a model uses its variables (`engine/variables/variable_uses.py`), by name."""

EXAMPLES = "examples of data('train')"
"""Key of their number.  Example i of Arrays or a dataset goes to worker i mod n, so all must see the same examples."""

CLUSTER_FIELDS = (*HOST_LISTS, "max_workers")


def diff_configs(theirs: Mapping[str, Any], mine: Mapping[str, Any], their_name: str, my_name: str) -> list[str]:
    """Returns one line for each field that differs.

    Worker lists with gaps, and those of elastic jobs, are compared only at the indices that both name.

    Args:
      theirs: description of the other task's job.
      mine: description of this task's job.
      their_name: name of the other task, for the lines.
      my_name: name of this task, for the lines.
    """
    lines = []
    for name in sorted({*theirs, *mine} - {USES}):
        left, right = theirs.get(name), mine.get(name)
        if left == right or (name == "worker_hosts" and _compatible(left, right, bool(mine.get("max_workers")))):
            continue
        lines.append(f"{name}: {_text_of(left)} at {their_name}, {_text_of(right)} at {my_name}")
        if name == EXAMPLES:
            lines[-1] += " (data() must return the same examples in every process: each trains on its share of them)"
    exchanged = exchanged_uses(theirs.get(USES) or {}, mine.get(USES) or {})
    for name, others in exchanged.items():
        lines.append(f"variable {name}: at {their_name} what {' or '.join(others)} is at {my_name}")
    if exchanged:
        lines[-1] += " (make variables in the same order in every process, from a sorted list and not from a set)"
    return lines


def exchanged_uses(theirs: Mapping[str, Sequence[str]], mine: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Returns the names that mean other variables in two models, each with the names that it may have in the other.

    That is so if some names have the same marks in another order.  Other differences between models are none.
    """
    if theirs.keys() != mine.keys() or len(theirs) < 2:
        return {}
    ours = [mine[name] for name in theirs]
    for distance in zip(zip(*theirs.values(), strict=True), zip(*ours, strict=True), strict=True):
        left, right = (dict(zip(theirs, marks, strict=True)) for marks in distance)
        wrong = [name for name in left if left[name] != right[name]]
        found = {name: others for name in wrong if (others := [one for one in wrong if right[one] == left[name]])}
        if found and sorted(left[name] for name in found) == sorted(right[name] for name in found):
            return found
    return {}


def job_fingerprint(job: Job) -> dict[str, Any]:
    """Returns the settings on which all tasks must agree, in a form that survives JSON unchanged.

    The number of workers is included.  A task may know only some workers' addresses, and that number decides its share
    of the data.
    """
    return {**job.shared_fields(), "number of workers": Cluster.of(job).num_workers}


def cluster_fields(shared: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields that describe the cluster; a ps compares only these."""
    return {name: shared[name] for name in CLUSTER_FIELDS}


def _compatible(left: Any, right: Any, elastic: bool) -> bool:
    if not elastic and not any("=" in host for host in [*(left or []), *(right or [])]):
        return False
    ours, others = _by_index(left or []), _by_index(right or [])
    return all(ours[index] == others[index] for index in ours.keys() & others.keys())


def _by_index(hosts: list[str]) -> dict[str, str]:
    pairs = (host.partition("=") if "=" in host else (str(i), "=", host) for i, host in enumerate(hosts))
    return {index: address for index, _, address in pairs}


def _text_of(value: Any) -> str:
    if value is None:
        return "missing"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
