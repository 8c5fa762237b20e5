"""The rack of this task as its platform knows it: `--rack=slurm` and `--rack=kubernetes`.

    with_own_rack(job, task, os.environ)        # the job with rack="leaf3" (from SLURM_TOPOLOGY_ADDR)

Slurm's topology plugin tells each task the switches above its node.  On Kubernetes the rack is a label of the pod's
node, which the API server knows.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping

from ps_train.base.errors import ConfigError
from ps_train.cluster.addresses.slurm import expand_nodes
from ps_train.config.cluster_fields import is_rack, rack_or_none
from ps_train.config.fields import shown
from ps_train.config.job import Job, Task
from ps_train.config.job_values import described

_SECRETS = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")
_OTHERWISE = "or give each worker --rack=NAME, or the job --rack_file"


def with_own_rack(job: Job, task: Task, environ: Mapping[str, str], secrets: pathlib.Path = _SECRETS) -> Job:
    """Returns the job with the name of this task's rack in the place of the platform's.

    Args:
      job: the job; any other `rack` stays.
      task: this task; an evaluator has no rack.
      environ: the environment.
      secrets: the directory of the pod's service account.

    Raises:
      ConfigError: the platform does not tell the rack, or it is not the name of one.
      UnreachableError: the API server does not answer within `startup_timeout_secs`.
    """
    if job.rack not in ("slurm", "kubernetes"):
        return job
    if task.job_name == "evaluator":
        return dataclasses.replace(job, rack="")
    if job.rack == "slurm":
        rack, source = slurm_rack(job, environ), "SLURM_TOPOLOGY_ADDR"
    else:
        from ps_train.cluster.addresses.kubernetes_node import label_of_node

        rack, source = label_of_node(job, environ, secrets), f"the label {job.k8s_rack_label}"
    if not is_rack(rack):
        raise ConfigError(
            f"{described(job, 'rack')}, but the rack {shown(rack)} (from {source}) is not valid: use "
            f"{rack_or_none.allowed}, {_OTHERWISE}."
        )
    return dataclasses.replace(job, rack=rack, sources={**job.sources, "rack": source})


def slurm_rack(job: Job, environ: Mapping[str, str]) -> str:
    """Returns the switch, or the block, next to this task's node.

    The address names the parts above the node from the top down, and then the node, with a period after each part, as
    in `spine.leaf3.node07`; the pattern `switch.switch.node` tells what each one is.  A part is empty where the node
    has no such switch, and a compressed list where it has several.

    Raises:
      ConfigError: there is no address, or no switch in it.
    """
    address, pattern = (environ.get(f"SLURM_TOPOLOGY_{name}", "") for name in ("ADDR", "ADDR_PATTERN"))
    if not address:
        raise ConfigError(
            f"{described(job, 'rack')}, but SLURM_TOPOLOGY_ADDR is not set: start the tasks with srun, {_OTHERWISE}."
        )
    above = pattern.split(".")[:-1]  # a node's own name may have periods too
    parts = address.split(".", len(above))
    switches = [part for part in parts[:-1] if part]
    if len(parts) != len(above) + 1 or not switches:
        raise ConfigError(
            f"{described(job, 'rack')}, but SLURM_TOPOLOGY_ADDR={shown(address)} (SLURM_TOPOLOGY_ADDR_PATTERN="
            f"{shown(pattern)}) names no switch above the node: Slurm needs a topology plugin, {_OTHERWISE}."
        )
    return "_".join(expand_nodes(switches[-1], "SLURM_TOPOLOGY_ADDR"))
