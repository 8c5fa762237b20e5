"""Parser of clusters described in JSON: the environment variable `TF_CONFIG`, and the file of --cluster_file.

    job_fields, task_fields = parse_tf_config(os.environ["TF_CONFIG"])
    job_fields = read_cluster_file("/etc/job/cluster.json")

Both give fields of the Job, as flags do.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

from ps_train.base.errors import ConfigError, shown
from ps_train.base.untrusted import UntrustedError, parse_json, read_text
from ps_train.config.validators import is_number

log = logging.getLogger(__name__)

_LISTS = {"ps": "ps_hosts", "worker": "worker_hosts", "chief": "chief_hosts", "master": "chief_hosts"}

_EXAMPLE = '{"ps": ["a:2222"], "worker": ["b:2222", "c:2222"]}'


class FoundCluster(NamedTuple):
    """The part of a job that the environment describes: fields of the Job and of the Task, and their source."""

    job: Mapping[str, Any]
    task: Mapping[str, Any]
    source: str


def from_tf_config(given: Mapping[str, Any], environ: Mapping[str, str]) -> FoundCluster:
    """Returns the content of `TF_CONFIG`; other resolvers also need the given flags."""
    return FoundCluster(*parse_tf_config(environ.get("TF_CONFIG", "")), "TF_CONFIG")


def parse_tf_config(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parses the value of `TF_CONFIG`.

    It reads `cluster` (or `sparseCluster`) with `ps`, `worker`, and `chief` or the older `master`.  Each is a list of
    addresses or a map of index to address.  It also reads `task` with `type` and `index`, and `model_dir`.  Other keys
    such as `environment` and `rpc_layer` are ignored.  An `evaluator` list is ignored: an evaluator is never a cluster
    member.  So are further jobs, with a warning: they do not train.

    Returns:
      Fields of the Job and fields of the Task.

    Raises:
      ConfigError: the value is invalid.
    """
    if not text.strip():
        return {}, {}
    config = _parse_json(text, "TF_CONFIG")
    cluster = _mapping(config.get("cluster", config.get("sparseCluster", {})), "TF_CONFIG cluster")
    further = [name for name in cluster if name not in (*_LISTS, "evaluator")]
    if further:
        log.warning("the tasks of %s (from TF_CONFIG) do not train: they are left out", ", ".join(further))
    trains = {name: hosts for name, hosts in cluster.items() if name not in further}
    job_fields = _parse_hosts(trains, "TF_CONFIG cluster")
    if "model_dir" in config:
        if not isinstance(config["model_dir"], str):
            raise ConfigError(f"TF_CONFIG model_dir is {shown(config['model_dir'])}: use the path of a directory.")
        if not config["model_dir"].strip():
            raise ConfigError("TF_CONFIG model_dir is empty: give it the path of a directory, or leave it out.")
        job_fields["model_dir"] = config["model_dir"]
    return job_fields, _parse_task(_mapping(config.get("task", {}), "TF_CONFIG task"))


def read_cluster_file(path: str) -> dict[str, Any]:
    """Returns the host lists in a file.

    The file holds either the `cluster` of a `TF_CONFIG` or a whole `TF_CONFIG`.

    Raises:
      ConfigError: the file cannot be read, is invalid, or has no address.
    """
    where = f"cluster_file {path}"
    try:
        text = read_text(path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{where} cannot be read ({getattr(error, 'strerror', None) or error}).") from None
    found = _parse_json(text, where)
    fields = _parse_hosts(_mapping(found.get("cluster", found), where), where)
    if not fields:
        raise ConfigError(f"{where} has no address: use lists such as {_EXAMPLE}.")
    return fields


def _parse_json(text: str, where: str) -> dict[str, Any]:
    try:
        return _mapping(parse_json(text), where)
    except UntrustedError as error:
        raise ConfigError(f"{where}{str(error).removeprefix('it')}: {shown(text)}") from None


def _parse_hosts(cluster: Mapping[str, Any], where: str) -> dict[str, Any]:
    if "chief" in cluster and "master" in cluster:
        raise ConfigError(f"{where} has both chief and master: they mean the same; use chief.")
    fields: dict[str, Any] = {}
    for name, hosts in cluster.items():
        if name == "evaluator":
            continue
        if name not in _LISTS:
            raise ConfigError(f"{where} has the unknown job {shown(name)}: use ps, worker, chief (or master).")
        fields[_LISTS[name]] = _addresses(name, hosts, f"{where} {name}")
    if fields and not any(fields.values()):
        raise ConfigError(f"{where} has no address: use lists such as {_EXAMPLE}.")
    return fields


def _addresses(name: str, hosts: Any, where: str) -> tuple[str, ...]:
    given = list(hosts.values()) if isinstance(hosts, dict) else hosts
    if not isinstance(given, list) or not all(isinstance(host, str) for host in given):
        raise ConfigError(f"{where} is {shown(hosts)}: use a list of host:port.")
    if isinstance(hosts, dict):
        if not all(is_number(str(index)) for index in hosts):
            raise ConfigError(f"{where} has the indices {shown(sorted(hosts))}: use whole numbers.")
        ordered = sorted(((int(index), host) for index, host in hosts.items()), key=lambda pair: pair[0])
        if name == "worker":
            hosts = [f"{index}={host}" for index, host in ordered]
        elif [index for index, _ in ordered] != list(range(len(ordered))):
            raise ConfigError(f"{where} has gaps: only worker may be a map with gaps.")
        else:
            hosts = [host for _, host in ordered]
    return tuple(hosts)


def _parse_task(task: Mapping[str, Any]) -> dict[str, Any]:
    if not task:
        return {}
    kind, index = task.get("type"), task.get("index", 0)
    kind = "chief" if kind == "master" else kind
    if kind not in ("ps", "worker", "chief", "evaluator"):
        raise ConfigError(f"TF_CONFIG task type is {shown(kind)}: use ps, worker, chief (or master) or evaluator.")
    if isinstance(index, bool) or not is_number(str(index)):
        raise ConfigError(f"TF_CONFIG task index is {shown(index)}: use a whole number from 0.")
    return {"job_name": kind, "task_index": int(index)}


def _mapping(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{what} is {shown(value)}: use a JSON object.")
    return value
