"""Topology: the rack of each task, from `--rack_file` or from the `--rack` that each worker was given.

    racks = racks_of_file(job, cluster)                 # {"ps:0": "a", "worker:0": "a", "worker:1": "b"}
    topology = Topology.of(racks, cluster)
    topology.place(Task("worker", 1))                   # RackPlace(name="b", index=1, count=2, rank=0, size=1)
    rack_port_of(job, cluster, Task("worker", 1))       # the port on which it would serve its rack

Imports no TensorFlow and never uses the network.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence

from ps_train.base.errors import ConfigError
from ps_train.base.network_interfaces import is_loopback
from ps_train.base.untrusted import UntrustedError, parse_json, read_text
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.config.cluster_fields import is_rack, rack_or_none
from ps_train.config.fields import shown, source_of
from ps_train.config.job import Job, Task
from ps_train.config.job_values import described

_EXAMPLE = 'for example {"host1": "a", "host2": "b"}'


@dataclasses.dataclass(frozen=True)
class RackPlace:
    """The place of a worker among the racks.

    Attributes:
      name: name of its rack.
      index: index of its rack among the racks with workers.
      count: number of these racks.
      rank: index of the worker in its rack.
      size: number of workers in the rack.
    """

    name: str
    index: int
    count: int
    rank: int
    size: int


@dataclasses.dataclass(frozen=True)
class Topology:
    """The racks of a job's workers; without names for a job without racks.

    Attributes:
      names: names of the racks with workers, in the order of their first worker.
      workers: for each of them its workers, in the order of their replica index.
      racks: task name to rack, of the ps too where they are known.
    """

    names: tuple[str, ...]
    workers: tuple[tuple[str, ...], ...]
    racks: Mapping[str, str]

    @classmethod
    def of(cls, racks: Mapping[str, str], cluster: Cluster) -> Topology:
        """Returns the topology in which each task has that rack; every worker of the cluster must have one."""
        tasks = [str(task) for task in cluster.replicas()]
        names = tuple(dict.fromkeys(racks[task] for task in tasks))
        return cls(names, tuple(tuple(task for task in tasks if racks[task] == name) for name in names), dict(racks))

    @property
    def is_flat(self) -> bool:
        """True for a job without racks, and where they are not known."""
        return not self.names

    def place(self, task: Task) -> RackPlace:
        """Returns the place of a worker."""
        index = self.names.index(self.racks[str(task)])
        workers = self.workers[index]
        return RackPlace(self.names[index], index, len(self.names), workers.index(str(task)), len(workers))

    def neighbours(self, task: Task) -> tuple[str, str]:
        """Returns the workers before and after a worker in the ring of its rack; itself where it is alone."""
        place = self.place(task)
        workers = self.workers[place.index]
        return workers[place.rank - 1], workers[(place.rank + 1) % place.size]

    def knows_ps(self, num_ps: int) -> bool:
        """Returns whether the racks of all ps are known."""
        return all(f"ps:{index}" in self.racks for index in range(num_ps))

    def ps_for(self, placement: str, num_ps: int) -> Sequence[int]:
        """Returns the ps that hold variables with this --ps_placement, of `num_ps`."""
        return self.ps_of_largest(num_ps) if placement == "near" and not self.is_flat else range(num_ps)

    def ps_of_largest(self, num_ps: int) -> list[int]:
        """Returns the ps in the rack with the most workers, of the racks that have ps; the first rack of equal ones.

        Args:
          num_ps: number of ps, of which the racks must be known.
        """
        of_ps = [self.racks[f"ps:{index}"] for index in range(num_ps)]
        sizes = {name: len(workers) for name, workers in zip(self.names, self.workers, strict=True)}
        largest = max(dict.fromkeys([*self.names, *of_ps]), key=lambda name: (name in of_ps, sizes.get(name, 0)))
        return [index for index, name in enumerate(of_ps) if name == largest]

    def core_bytes(self, ps_bytes: Sequence[int]) -> tuple[int, int]:
        """Returns the bytes of values and gradients that cross from rack to rack in a step, both ways together.

        Args:
          ps_bytes: bytes of the variables on each ps, of which the racks must be known.

        Returns:
          The bytes with the sums of racks, and those of flat pushes.
        """
        crossing = [
            2 * sum(count for ps, count in enumerate(ps_bytes) if self.racks[f"ps:{ps}"] != name) for name in self.names
        ]
        return sum(crossing), sum(count * len(workers) for count, workers in zip(crossing, self.workers, strict=True))

    def described(self) -> dict[str, str]:
        """Returns the rack of each task, as a part of the description on which all tasks agree."""
        return {f"rack of {task}": name for task, name in sorted(self.racks.items())}


def racks_of_file(job: Job, cluster: Cluster) -> dict[str, str]:
    """Returns the rack of each ps and worker from the `rack_file`.

    It is a JSON object of racks by host; a task's name, such as worker:1, stands before its host.

    Raises:
      ConfigError: the file cannot be read, is not such an object, or lacks a task.
    """
    named = described(job, "rack_file")
    try:
        found = parse_json(read_text(job.rack_file))
    except OSError as error:
        raise ConfigError(f"{named} cannot be read: {error.strerror}.") from None
    except UntrustedError as error:
        raise ConfigError(f"{named} is not a JSON file: {error}; use {_EXAMPLE}.") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{named} is not a JSON object: use {_EXAMPLE}.")
    for key, rack in found.items():
        if not isinstance(rack, str) or not is_rack(rack):
            text = rack if isinstance(rack, str) else json.dumps(rack)
            raise ConfigError(f"{named} has the rack {shown(text)} for {shown(key)}: use {rack_or_none.allowed}.")
    racks: dict[str, str] = {}
    for task, address in cluster.tasks().items():
        keys = (task, str(address), address.host, f"[{address.host}]")  # an IPv6 address with or without brackets
        place = next((found[key] for key in keys if key in found), None)
        if place is None:
            if is_loopback(address.host):  # all tasks are on it, and the ports of a local job are not chosen yet
                raise ConfigError(f'{named} has no rack for {task}: add "{task}": "NAME".')
            raise ConfigError(f"{named} has no rack for {task} at {address}: add {address.host} or {task}.")
        racks[task] = place
    return racks


FLAT = Topology((), (), {})
"""No racks."""


def known_topology(job: Job, task: Task, cluster: Cluster) -> Topology:
    """Returns the topology of a job with a `rack_file`; FLAT without one.

    Raises:
      ConfigError: the file is not valid, lacks a task, or contradicts the task's own `rack`.
    """
    if not job.rack_file:
        return FLAT
    racks = racks_of_file(job, cluster)
    if job.rack and racks.get(str(task), job.rack) != job.rack:
        raise ConfigError(
            f"{described(job, 'rack')}, but rack_file{source_of(job.sources, 'rack_file')} has the rack "
            f"{racks[str(task)]} for {task}: leave one of them out."
        )
    return Topology.of(racks, cluster)


def rack_port_of(job: Job, cluster: Cluster, task: Task) -> int:
    """Returns the port on which a worker serves as the aggregator of its rack: `rack_port` for the first one of a host.

    Args:
      job: has `rack_port`.
      cluster: its tasks.
      task: any of them.

    Returns:
      The port; 0 for one that the system chooses, and where the task does not serve a rack.

    Raises:
      ConfigError: it is out of range, or another task's own port.
    """
    if not job.has_racks or not job.rack_port or task.job_name == "ps":
        return 0
    own, tasks = cluster.address(task), cluster.tasks()
    beside = [name for name, address in tasks.items() if address.host == own.host]
    port = job.rack_port + [name for name in beside if not name.startswith("ps:")].index(str(task))
    taken = next((name for name in beside if tasks[name].port == port), "")
    if port > 65535 or taken:
        why = f"the port of {taken}" if taken else "out of range"
        raise ConfigError(f"{described(job, 'rack_port')} gives {task} the port {port}, which is {why}: use another.")
    return port
