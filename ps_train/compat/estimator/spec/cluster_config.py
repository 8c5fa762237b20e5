"""Cluster of a RunConfig, and this process's place in it, from the environment variable `TF_CONFIG`.

cluster = read_cluster_config(os.environ.get("TF_CONFIG", ""))      # cluster.task_type, cluster.is_chief
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from typing import Any

import tensorflow as tf

from ps_train.base.errors import ConfigError
from ps_train.base.untrusted import parse_json
from ps_train.config.tf_config import parse_tf_config

_CHIEFS = ("chief", "master")
_TRAINERS = (*_CHIEFS, "worker", "ps")


@dataclasses.dataclass(frozen=True)
class ClusterConfig:
    """The cluster as a RunConfig shows it; the default is a process without a cluster.

    Attributes:
      cluster_spec: the cluster; empty without one, and for an evaluator.
      task_type: "chief", "master", "worker", "ps" or "evaluator".
      task_id: index of the task.
      master: `grpc://host:port` of this task; "" without a cluster, or in a cluster of one task.
      evaluation_master: the session target of evaluations.
      is_chief: True for the chief; without a chief in the cluster, worker 0 is the chief.
      num_ps_replicas: number of ps.
      num_worker_replicas: number of workers, the chief included.
      global_id_in_cluster: index among all tasks: chief, workers, ps; None for an evaluator.
      service: the dict `service` of TF_CONFIG.
      model_dir: model_dir of TF_CONFIG.
    """

    cluster_spec: tf.train.ClusterSpec = dataclasses.field(default_factory=lambda: tf.train.ClusterSpec({}))
    task_type: str = "worker"
    task_id: int = 0
    master: str = ""
    evaluation_master: str = ""
    is_chief: bool = True
    num_ps_replicas: int = 0
    num_worker_replicas: int = 1
    global_id_in_cluster: int | None = 0
    service: dict[str, Any] | None = None
    model_dir: str | None = None


def read_cluster_config(text: str) -> ClusterConfig:
    """Returns the cluster that a `TF_CONFIG` describes.

    Raises:
      ValueError: the text is invalid.
      TypeError: `service` is not a dict.
    """
    try:
        parse_tf_config(_without_further_task(text))
    except ConfigError as error:
        raise ValueError(str(error)) from None
    config = json.loads(text) if text.strip() else {}
    model_dir, service = config.get("model_dir"), config.get("service")
    if model_dir == "":
        raise ValueError("TF_CONFIG model_dir is '': use the path of a directory, or leave it out.")
    if service is not None and not isinstance(service, dict):
        raise TypeError(f"TF_CONFIG service is {service!r}: use a JSON object.")
    given = config.get("cluster", config.get("sparseCluster", {}))
    hosts = {job: _indexed(addresses) for job, addresses in given.items() if job != "evaluator"}
    task = config.get("task", {})
    found = _in_cluster(hosts, task, config) if hosts else _alone(task, config)
    return dataclasses.replace(found, service=service, model_dir=model_dir)


def _without_further_task(text: str) -> str:
    """Returns a TF_CONFIG without its task, if this is one of a job of the cluster that does not train."""
    with contextlib.suppress(AttributeError, LookupError, TypeError, ValueError):
        config = parse_json(text)
        name = config["task"].get("type")
        if name in config.get("cluster", {}) and name not in (*_TRAINERS, "evaluator"):
            return json.dumps({key: value for key, value in config.items() if key != "task"})
    return text


def _indexed(addresses: Any) -> dict[int, str]:
    pairs = addresses.items() if isinstance(addresses, dict) else enumerate(addresses)
    return {int(index): address for index, address in pairs}


def _alone(task: dict[str, Any], config: dict[str, Any]) -> ClusterConfig:
    name, index = task.get("type", "worker"), int(task.get("index", 0))
    if (name, index) != ("worker", 0):
        raise ValueError(
            f"TF_CONFIG task {name}:{index} needs a cluster, and TF_CONFIG has none: add the cluster, or use worker 0."
        )
    return ClusterConfig(
        master=config.get("session_master", ""), evaluation_master=config.get("eval_session_master", "")
    )


def _in_cluster(hosts: dict[str, dict[int, str]], task: dict[str, Any], config: dict[str, Any]) -> ClusterConfig:
    shown = ", ".join(f"{job} {sorted(tasks)}" for job, tasks in hosts.items())
    chief = _chief_of(hosts, shown)
    for key in ("type", "index"):
        if task.get(key) is None:
            raise ValueError(f"TF_CONFIG task has no {key}, but TF_CONFIG has a cluster ({shown}): add it.")
    name, index = task["type"], int(task["index"])
    if name == "evaluator":
        if "master" in hosts:
            raise ValueError("TF_CONFIG task is an evaluator, but a master evaluates itself: use chief for master.")
        return ClusterConfig(
            tf.train.ClusterSpec({}),
            name,
            index,
            evaluation_master=config.get("eval_session_master", ""),
            is_chief=False,
            num_worker_replicas=0,
            global_id_in_cluster=None,
        )
    if index not in hosts.get(name, {}):
        raise ValueError(f"TF_CONFIG task {name}:{index} is not in the cluster of TF_CONFIG ({shown}): use one of it.")
    single = sum(map(len, hosts.values())) == 1
    between = sorted({"worker", *hosts} - {*_CHIEFS, "ps"})
    order = [(job, i) for job in (*_CHIEFS, *between, "ps") for i in sorted(hosts.get(job, {}))]
    return ClusterConfig(
        tf.train.ClusterSpec(hosts),
        name,
        index,
        master=config.get("session_master", "" if single else f"grpc://{hosts[name][index]}"),
        is_chief=(name, index) == chief,
        num_ps_replicas=len(hosts.get("ps", {})),
        num_worker_replicas=sum(len(hosts.get(job, {})) for job in (*_CHIEFS, "worker")),
        global_id_in_cluster=order.index((name, index)),
    )


def _chief_of(hosts: dict[str, dict[int, str]], shown: str) -> tuple[str, int]:
    for job in _CHIEFS:
        if len(hosts.get(job, {})) > 1:
            raise ValueError(f"TF_CONFIG cluster has {len(hosts[job])} tasks of {job} ({shown}): use one.")
        if hosts.get(job):
            return job, 0
    if 0 not in hosts.get("worker", {}):
        raise ValueError(f"TF_CONFIG cluster has no chief and no worker 0 ({shown}): add a chief.")
    return "worker", 0
