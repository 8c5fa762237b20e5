"""Cluster layout: the checked addresses of `ps_hosts`, `worker_hosts` and `chief_hosts`.

    cluster = Cluster.of(job)
    cluster.address(Task("worker", 1))      # Address(host='b', port=2222)

Imports no TensorFlow and never uses the network.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from ps_train.base.errors import ConfigError, cut
from ps_train.config.fields import source_of
from ps_train.config.job import Job, Task
from ps_train.config.job_values import described
from ps_train.config.validators import is_number, parse_weights

_MOST_WORKERS = 100_000
_LONGEST_NAME = 253
"""Characters of a host name in DNS (RFC 1035)."""


@dataclasses.dataclass(frozen=True)
class Address:
    """A host and a port.

    Attributes:
      host: a name or an IP address, without brackets.
      port: 1 to 65535.
    """

    host: str
    port: int

    @classmethod
    def parse(cls, text: str, where: str) -> Address:
        """Parses an address; raises ConfigError for an invalid one.

        Args:
          text: `host:port` or `[ipv6]:port`.
          where: the origin of the text, for errors.
        """
        host, colon, port = text.strip().rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        bare = host[1:-1] if bracketed else host
        if not colon or not bare or (":" in bare and not bracketed) or any(c in "/,[]=" or c.isspace() for c in bare):
            raise ConfigError(f'"{_shown(text)}" in {where} is not an address: use host:port or [ipv6]:port.')
        if not _is_name(bare):
            raise ConfigError(
                f'the host of "{_shown(text)}" in {where} is not a name: use labels of 1 to 63 characters between '
                f"single dots, at most {_LONGEST_NAME} in all."
            )
        if not is_number(port) or not 1 <= int(port) <= 65535:
            raise ConfigError(f'port "{_shown(port)}" of "{_shown(text)}" in {where} is out of range: use 1 to 65535.')
        return cls(bare, int(port))

    @property
    def target(self) -> str:
        """The target by which TensorFlow reaches a server there."""
        return f"grpc://{self}"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclasses.dataclass(frozen=True)
class Cluster:
    """Every task's address.

    Attributes:
      ps: in the order of their task index.
      workers: by task index.  There may be gaps: a task need not know all other workers.
      chief_host: of the chief, where one is named; else None, and worker 0 is the chief.
      num_workers: the number of declared workers, with which the job begins.
      max_workers: the largest number of workers at a time; above `num_workers` only in an elastic job.
      ps_tasks: the task whose process is each ps: that ps itself, or a replica that is also a ps.
    """

    ps: tuple[Address, ...]
    workers: Mapping[int, Address]
    chief_host: Address | None
    num_workers: int
    max_workers: int
    ps_tasks: tuple[Task, ...]

    @classmethod
    def of(cls, job: Job) -> Cluster:
        """Returns the cluster that a job describes; raises ConfigError for an invalid one."""
        ps = tuple(Address.parse(text, _flag_of_addresses(job, "ps_hosts")) for text in job.ps_hosts)
        workers, sparse = _by_task_index(job.worker_hosts, _flag_of_addresses(job, "worker_hosts"))
        chiefs = [Address.parse(text, _flag_of_addresses(job, "chief_hosts")) for text in job.chief_hosts]
        if not ps and not job.ps_on_workers:
            where = source_of(job.sources, "ps_hosts") or source_of(job.sources, "worker_hosts")
            raise ConfigError(
                f"ps_hosts is empty{where}: name at least one ps, for example --ps_hosts=a:2222, or let the workers "
                "hold the variables with ps_on_workers."
            )
        if not workers and not chiefs:
            raise ConfigError("worker_hosts is empty: name at least one worker, for example --worker_hosts=b:2222.")
        if len(chiefs) > 1:
            raise ConfigError(
                f"chief_hosts names {len(chiefs)} addresses{source_of(job.sources, 'chief_hosts')}: use one."
            )
        num_workers = _num_workers(job, workers, sparse)
        max_workers = _max_workers(job, workers, num_workers)
        if max_workers > _MOST_WORKERS:
            raise ConfigError(f"the job has {max_workers} workers, which is out of range: use at most {_MOST_WORKERS}.")
        ps_tasks = tuple(Task("ps", index) for index in range(len(ps)))
        cluster = cls(ps, workers, chiefs[0] if chiefs else None, num_workers, max_workers, ps_tasks)
        if job.ps_on_workers:
            ps = (*chiefs, *_all_workers(job, workers, num_workers))
            cluster = dataclasses.replace(cluster, ps=ps, ps_tasks=tuple(cluster.replicas()))
        cluster._refuse_duplicates()
        weights = parse_weights(job.ps_weights)
        if weights and len(weights) != len(ps):
            raise ConfigError(
                f"{described(job, 'ps_weights')} has {len(weights)} numbers for {len(ps)} ps: give one for each ps."
            )
        cluster._refuse_settings_for_more_workers(job)
        return cluster

    def tasks(self) -> dict[str, Address]:
        """Returns all known tasks, `{"ps:0": Address, ...}`; a ps on a worker is not a task of its own."""
        found = {str(task): address for task, address in zip(self.ps_tasks, self.ps, strict=False)}
        if self.chief_host:
            found["chief:0"] = self.chief_host
        return found | {f"worker:{index}": address for index, address in sorted(self.workers.items())}

    @property
    def chief(self) -> Task:
        """The task that is the chief."""
        return Task("chief", 0) if self.chief_host else Task("worker", 0)

    @property
    def num_replicas(self) -> int:
        """The number of processes that compute gradients: the declared workers, and the chief where one is named."""
        return self.num_workers + (1 if self.chief_host else 0)

    def replicas(self) -> list[Task]:
        """Returns all declared training tasks in the order of their replica index; the chief is always first."""
        return self.possible_replicas()[: self.num_replicas]

    def possible_replicas(self) -> list[Task]:
        """Returns `replicas()` followed by the tasks that may join in an elastic job."""
        named = [Task("chief", 0)] if self.chief_host else []
        return named + [Task("worker", index) for index in range(self.max_workers)]

    def replica_index(self, task: Task) -> int:
        """Returns the replica index of a training task."""
        return self.possible_replicas().index(task)

    def ps_of(self, task: Task) -> int | None:
        """Returns the index of the ps that is in the process of a task; None where there is none."""
        return self.ps_tasks.index(task) if task in self.ps_tasks else None

    def address(self, task: Task) -> Address:
        """Returns the address of one task; raises ConfigError when the cluster has no such task."""
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

    def _refuse_settings_for_more_workers(self, job: Job) -> None:
        for name, value, most in (
            ("backup_workers", job.backup_limits(self.num_replicas).upper, self.num_replicas - 1),
            ("min_workers", job.min_workers, self.num_replicas),
        ):
            if value > most:
                raise ConfigError(
                    f"{described(job, name)} is too much for a job of {self.num_replicas} workers: use at most {most}."
                )


def consecutive_ports(hosts: Iterable[str], first: int) -> list[str]:
    """Returns the address of each task: tasks on the same host have consecutive ports."""
    used: dict[str, int] = {}
    addresses = []
    for host in hosts:
        used[host] = used.get(host, first - 1) + 1
        addresses.append(f"{host}:{used[host]}")
    return addresses


def _by_task_index(texts: Iterable[str], where: str) -> tuple[dict[int, Address], bool]:
    """Returns worker addresses by index, and whether they were written INDEX=host:port."""
    texts = list(texts)
    if not any("=" in text for text in texts):
        return {index: Address.parse(text, where) for index, text in enumerate(texts)}, False
    found: dict[int, Address] = {}
    for text in texts:
        index, equals, address = text.partition("=")
        if not equals or not is_number(index.strip()):
            raise ConfigError(f'"{text}" in {where} is not INDEX=host:port, but other entries are: write all alike.')
        if int(index) in found:
            raise ConfigError(f"worker {int(index)} is listed twice in {where}: use every index once.")
        found[int(index)] = Address.parse(address, where)
    return found, True


def _num_workers(job: Job, workers: Mapping[int, Address], sparse: bool) -> int:
    """Returns the number of declared workers.  Shares of the data depend on it, so a guess would be a silent error."""
    if not sparse:
        if job.is_elastic and job.num_workers is not None and job.num_workers < len(workers):
            return job.num_workers
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
            "give the number of workers with --num_workers."
        )
    if max(workers) >= job.num_workers and not job.is_elastic:
        raise ConfigError(
            f"worker_hosts has worker {max(workers)}, but "
            f"num_workers={job.num_workers}{source_of(job.sources, 'num_workers')}: "
            f"use 0 to {job.num_workers - 1}, or --max_workers for workers that join."
        )
    return job.num_workers


def _all_workers(job: Job, workers: Mapping[int, Address], num_workers: int) -> list[Address]:
    """Returns the addresses of all workers; raises ConfigError where one is unknown, since each is a ps."""
    missing = [str(index) for index in range(num_workers) if index not in workers]
    if missing:
        raise ConfigError(
            f"{described(job, 'ps_on_workers')} needs the address of every worker, but "
            f"{_flag_of_addresses(job, 'worker_hosts')} lacks worker {', '.join(missing[:5])}: list all workers."
        )
    return [workers[index] for index in range(num_workers)]


def _max_workers(job: Job, workers: Mapping[int, Address], declared: int) -> int:
    """Returns the largest number of workers at a time."""
    if not job.is_elastic:
        return declared
    named = max([declared - 1, *workers]) + 1
    if named > job.max_workers:
        raise ConfigError(
            f"{described(job, 'max_workers')} is too few: the job has {declared} workers, and worker_hosts"
            f"{source_of(job.sources, 'worker_hosts')} names worker {named - 1}: use at least {named}, everywhere."
        )
    return job.max_workers


def _flag_of_addresses(job: Job, name: str) -> str:
    return name + source_of(job.sources, name)


def _is_name(host: str) -> bool:
    """Returns whether the socket calls accept a host; they raise UnicodeError for an empty or overlong label."""
    try:
        encoded = host.encode("idna")
    except UnicodeError:
        return False
    return host.isprintable() and len(encoded) <= _LONGEST_NAME


def _shown(text: str) -> str:
    return cut(text if text.isprintable() else ascii(text)[1:-1], 100)
