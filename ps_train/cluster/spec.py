"""Addresses: what `ps_hosts`, `worker_hosts` and `TF_CONFIG` say, checked, and which of them is me.

    cluster = Cluster.of(job)
    cluster.address(Task("worker", 1))      # Address(host='b', port=2222)

Knows nothing of TensorFlow and never touches the network.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any

from ps_train.config import Job, Task, described
from ps_train.errors import ConfigError
from ps_train.options import source_of

_LISTS = {"ps": "ps_hosts", "worker": "worker_hosts", "chief": "chief_hosts", "master": "chief_hosts"}


@dataclasses.dataclass(frozen=True)
class Address:
    host: str
    port: int

    @classmethod
    def parse(cls, text: str, where: str) -> Address:
        """`host:port` or `[ipv6]:port`; `where` says where the text came from."""
        host, colon, port = text.strip().rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        bare = host[1:-1] if bracketed else host
        if not colon or not bare or (":" in bare and not bracketed) or any(c in "/,[]" or c.isspace() for c in bare):
            raise ConfigError(f'"{text}" in {where} is not an address: use host:port or [ipv6]:port.')
        if not _is_number(port) or not 1 <= int(port) <= 65535:
            raise ConfigError(f'port "{port}" of "{text}" in {where} is out of range: use 1 to 65535.')
        return cls(bare, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclasses.dataclass(frozen=True)
class Cluster:
    """Every task's address.  `workers` may have gaps: a task need not know all other workers."""

    ps: tuple[Address, ...]
    workers: Mapping[int, Address]
    chief_host: Address | None
    num_workers: int

    @classmethod
    def of(cls, job: Job) -> Cluster:
        """The cluster that a job describes; raises ConfigError for what is wrong with it."""
        ps = tuple(Address.parse(text, _where(job, "ps_hosts")) for text in job.ps_hosts)
        workers, sparse = _indexed(job.worker_hosts, _where(job, "worker_hosts"))
        chiefs = [Address.parse(text, _where(job, "chief_hosts")) for text in job.chief_hosts]
        if not ps:
            raise ConfigError("ps_hosts is empty: name at least one ps, for example --ps_hosts=a:2222.")
        if not workers and not chiefs:
            raise ConfigError("worker_hosts is empty: name at least one worker, for example --worker_hosts=b:2222.")
        if len(chiefs) > 1:
            raise ConfigError(
                f"chief_hosts names {len(chiefs)} addresses{source_of(job.sources, 'chief_hosts')}: use one."
            )
        cluster = cls(ps, workers, chiefs[0] if chiefs else None, _count(job, workers, sparse))
        cluster._refuse_duplicates()
        cluster._refuse_what_needs_more_workers(job)
        return cluster

    def tasks(self) -> dict[str, Address]:
        """All known tasks, `{"ps:0": Address, ...}`."""
        found = {f"ps:{index}": address for index, address in enumerate(self.ps)}
        if self.chief_host:
            found["chief:0"] = self.chief_host
        return found | {f"worker:{index}": address for index, address in sorted(self.workers.items())}

    @property
    def chief(self) -> Task:
        return Task("chief", 0) if self.chief_host else Task("worker", 0)

    @property
    def num_replicas(self) -> int:
        """How many processes compute gradients: the workers, and the chief where one is named."""
        return self.num_workers + (1 if self.chief_host else 0)

    def replicas(self) -> list[Task]:
        """All training tasks in the order of their replica index; the chief is always the first."""
        named = [Task("chief", 0)] if self.chief_host else []
        return named + [Task("worker", index) for index in range(self.num_workers)]

    def replica_index(self, task: Task) -> int:
        return self.replicas().index(task)

    def address(self, task: Task) -> Address:
        """The address of one task; raises ConfigError when the cluster has no such task."""
        try:
            return self.tasks()[str(task)]
        except KeyError:
            raise ConfigError(self._no_such(task)) from None

    def _no_such(self, task: Task) -> str:
        known = {name: address for name, address in self.tasks().items() if name.startswith(task.job_name + ":")}
        if not known:
            return f"there is no job {task.job_name!r} in this cluster, which has {', '.join(self.tasks())}."
        listed = ", ".join(str(address) for address in known.values())
        valid = ", ".join(name.partition(":")[2] for name in known)
        return (
            f'task_index={task.task_index} is out of range for job "{task.job_name}", which has '
            f"{len(known)} task{'s' if len(known) > 1 else ''} ({listed}): use {valid}."
        )

    def _refuse_duplicates(self) -> None:
        seen: dict[Address, str] = {}
        for name, address in self.tasks().items():
            if address in seen:
                raise ConfigError(
                    f"{address} is the address of both {seen[address]} and {name}: every task needs its own."
                )
            seen[address] = name

    def _refuse_what_needs_more_workers(self, job: Job) -> None:
        for name, most in (("backup_workers", self.num_replicas - 1), ("min_workers", self.num_replicas)):
            if getattr(job, name) > most:
                raise ConfigError(
                    f"{described(job, name)} is too much for a job of {self.num_replicas} workers: use at most {most}."
                )


def _indexed(texts: Iterable[str], where: str) -> tuple[dict[int, Address], bool]:
    """Worker addresses by index, and whether they were written INDEX=host:port."""
    texts = list(texts)
    if not any("=" in text for text in texts):
        return {index: Address.parse(text, where) for index, text in enumerate(texts)}, False
    found: dict[int, Address] = {}
    for text in texts:
        index, equals, address = text.partition("=")
        if not equals or not _is_number(index.strip()):
            raise ConfigError(f'"{text}" in {where} is not INDEX=host:port, but other entries are: write all alike.')
        if int(index) in found:
            raise ConfigError(f"worker {int(index)} stands twice in {where}: every index once.")
        found[int(index)] = Address.parse(address, where)
    return found, True


def _count(job: Job, workers: Mapping[int, Address], sparse: bool) -> int:
    """How many workers the job has.  Shares of the data depend on it, so a guess would be a silent error."""
    if not sparse:
        if job.num_workers is not None and job.num_workers != len(workers):
            raise ConfigError(
                f"num_workers={job.num_workers}{source_of(job.sources, 'num_workers')} but "
                f"worker_hosts{source_of(job.sources, 'worker_hosts')} has {len(workers)}: "
                "leave num_workers out, or make them agree."
            )
        return len(workers)
    if job.num_workers is None:
        if sorted(workers) == list(range(len(workers))):
            return len(workers)
        raise ConfigError(
            f"worker_hosts{source_of(job.sources, 'worker_hosts')} has only the workers {sorted(workers)}: "
            "say with --num_workers how many the job has."
        )
    if max(workers) >= job.num_workers:
        raise ConfigError(
            f"worker_hosts has worker {max(workers)}, but "
            f"num_workers={job.num_workers}{source_of(job.sources, 'num_workers')}: "
            f"use 0 to {job.num_workers - 1}."
        )
    return job.num_workers


def _where(job: Job, name: str) -> str:
    return name + source_of(job.sources, name)


def parse_tf_config(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """`TF_CONFIG` as (fields of the Job, fields of the Task); both empty where it describes no cluster.

    Understood: `cluster` (or `sparseCluster`) with `ps`, `worker`, and `chief` or the older `master`; lists of
    addresses or maps of index to address; `task` with `type` and `index`; `model_dir`.  `environment`, `rpc_layer`
    and the like say nothing that is needed here.  An `evaluator` list is ignored: it is never a cluster member.
    """
    if not text.strip():
        return {}, {}
    try:
        config = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"TF_CONFIG is not JSON ({error}): {_short(text)}") from None
    config = _mapping(config, "TF_CONFIG")
    cluster = _mapping(config.get("cluster") or config.get("sparseCluster") or {}, "TF_CONFIG cluster")
    if not cluster:
        return {}, {}
    job_fields = _hosts_from(cluster)
    if "model_dir" in config:
        job_fields["model_dir"] = str(config["model_dir"])
    return job_fields, _task_from(_mapping(config.get("task") or {}, "TF_CONFIG task"))


def _hosts_from(cluster: Mapping[str, Any]) -> dict[str, Any]:
    if "chief" in cluster and "master" in cluster:
        raise ConfigError("TF_CONFIG cluster has both chief and master: they mean the same; use chief.")
    fields: dict[str, Any] = {}
    for name, hosts in cluster.items():
        if name == "evaluator":
            continue
        if name not in _LISTS:
            raise ConfigError(f"TF_CONFIG cluster has the unknown job {name!r}: use ps, worker, chief (or master).")
        if isinstance(hosts, dict):
            if not all(_is_number(str(index)) for index in hosts):
                raise ConfigError(f"TF_CONFIG cluster {name} has the indices {sorted(hosts)}: use whole numbers.")
            ordered = sorted((int(index), host) for index, host in hosts.items())
            if name == "worker":
                hosts = [f"{index}={host}" for index, host in ordered]
            elif [index for index, _ in ordered] != list(range(len(ordered))):
                raise ConfigError(f"TF_CONFIG cluster {name} has gaps: only worker may be a map with gaps.")
            else:
                hosts = [host for _, host in ordered]
        if not isinstance(hosts, list) or not all(isinstance(host, str) for host in hosts):
            raise ConfigError(f"TF_CONFIG cluster {name} is {_short(hosts)}: use a list of host:port.")
        fields[_LISTS[name]] = tuple(hosts)
    return fields


def _task_from(task: Mapping[str, Any]) -> dict[str, Any]:
    if not task:
        return {}
    kind, index = task.get("type"), task.get("index", 0)
    kind = "chief" if kind == "master" else kind
    if kind not in ("ps", "worker", "chief", "evaluator"):
        raise ConfigError(f"TF_CONFIG task type is {kind!r}: use ps, worker, chief (or master) or evaluator.")
    if isinstance(index, bool) or not _is_number(str(index)):
        raise ConfigError(f"TF_CONFIG task index is {index!r}: use a whole number from 0.")
    return {"job_name": kind, "task_index": int(index)}


def _is_number(text: str) -> bool:
    """Whether int() takes it and it is not negative; nine digits are enough for ports and indices."""
    return text.isascii() and text.isdigit() and len(text) <= 9


def _mapping(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{what} is {_short(value)}: use a JSON object.")
    return value


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."
