"""The prediction of a job's speed: the event model, fitted to a sample of the job.

    places = Places.of(cluster, cores_of, here)
    rate = predicted_pushes(sample, places, lockstep, here_cores, network)

A push stands for `accumulate` batches.  Pure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ps_train.base.console import human_bytes
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.commands.doctor.findings import OK, WARN, Finding
from ps_train.commands.doctor.sample import Sample
from ps_train.config.codec_spec import NONE
from ps_train.config.job import Job
from ps_train.observe.status.event_model import (
    MOST_WORKERS,
    Costs,
    Traffic,
    fit,
    recommended_ps,
    steps_per_sec,
    steps_per_sec_on,
    workers_at_saturation,
)

_ROUND_TRIPS = 2
"""Of a step: the pull and the push."""

_WIRE_SHARE, _FEWER = 0.3, 0.9
"""Share of a step from which on its bytes are the limit; share of their time that a proposed codec takes at most."""

_CODECS = (("bfloat16", "bfloat16"), ("bfloat16", "int8"), ("int8", "int8"), ("bfloat16", "top_k:0.01"))
"""Codecs of pull and push to propose, the one that loses least first."""

_LOCAL_BYTES_PER_SEC = 1 << 30
"""Speed of a transfer within one machine, which the sample includes."""


@dataclasses.dataclass(frozen=True)
class Places:
    """The machines of the tasks.

    Attributes:
      workers, servers: machine of each worker and of each ps.
      cores: of each machine.
    """

    workers: tuple[str, ...]
    servers: tuple[str, ...]
    cores: dict[str, int]

    @classmethod
    def of(cls, cluster: Cluster, own: Sequence[str], here: int, known: dict[str, int]) -> Places:
        """Returns the places of a cluster.

        Args:
          cluster: the host lists.
          own: the tasks on this machine.
          here: cores of this machine.
          known: cores of other tasks' machines; those of unknown ones count as `here`.
        """
        tasks = cluster.tasks()
        machines = {name: "" if name in own else address.host for name, address in tasks.items()}
        cores = {"": here} | dict.fromkeys(machines.values(), here)
        cores |= {machines[name]: count for name, count in known.items() if machines[name]}
        listed = [machines[name] for name in tasks if not name.startswith("ps:")]
        missing = range(len(listed), cluster.num_replicas)  # workers that the lists do not name
        cores |= {f"worker {index}": here for index in missing}
        workers = (*listed[: cluster.num_replicas], *(f"worker {index}" for index in missing))
        servers = [str(cluster.process_of_ps(index)) for index in range(len(cluster.ps))]
        return cls(workers, tuple(machines[name] for name in servers), cores)

    @property
    def is_one_machine(self) -> bool:
        """True if all tasks share a machine."""
        return len({*self.workers, *self.servers}) == 1


@dataclasses.dataclass(frozen=True)
class Network:
    """The slowest measured way between a worker and a ps.

    Attributes:
      round_trip: seconds more than within one machine.
      pull, push: bytes a second; 0 if not measured.
      traffic: the values that a step pulls, and pushes.
      codecs: of the pull and of the push.
    """

    round_trip: float = 0.0
    pull: float = 0.0
    push: float = 0.0
    traffic: Traffic = dataclasses.field(default_factory=Traffic)
    codecs: tuple[str, str] = (NONE, NONE)

    def secs(self) -> float:
        """Returns the seconds of a step on the way, beyond those within one machine."""
        return _ROUND_TRIPS * max(0.0, self.round_trip) + self.transfer_secs()

    def transfer_secs(self) -> float:
        """Returns the part of these seconds that the bytes take."""
        total = 0.0
        for speed, count in zip((self.pull, self.push), self.traffic.on_wire(self.codecs), strict=True):
            if speed:
                total += max(0.0, count / speed - count / _LOCAL_BYTES_PER_SEC)
        return total


def fitted_costs(sample: Sample, cores: int, lockstep: bool) -> Costs:
    """Returns the costs with which the event model gives the rate of a sample on a machine of so many cores."""
    first = Costs(pause=0.0, latency=0.0, worker_cpu=sample.worker_cpu, ps_cpu=sample.ps_cpu)
    return fit(
        first, lambda costs: steps_per_sec(costs, sample.workers, sample.num_ps, cores, lockstep), sample.pushes_per_sec
    )


def predicted_pushes(costs: Costs, places: Places, network: Network, lockstep: bool) -> float:
    """Returns the pushes a second of a job."""
    latency = costs.latency + (0.0 if places.is_one_machine else network.secs())
    costs = dataclasses.replace(costs, latency=latency)
    return steps_per_sec_on(costs, places.workers, places.servers, places.cores, lockstep)


def prediction_findings(job: Job, sample: Sample, places: Places, network: Network, cores: int) -> list[Finding]:
    """Returns the findings about the speed: examples a second, and the number of workers that saturates the ps.

    Args:
      job: the job.
      sample: the sample of the job on this machine.
      places: the machines of the tasks.
      network: between them.
      cores: of this machine.
    """
    lockstep = job.update == "sync"
    costs = fitted_costs(sample, cores, lockstep)
    workers, servers = len(places.workers), len(places.servers)
    rate = predicted_pushes(costs, places, network, lockstep)
    where = "on this machine" if places.is_one_machine else "on their machines"
    others = ", which are the ps," if job.ps_on_workers else f" and {servers} ps"
    on_ps = "" if job.ps_on_workers else f", {1e3 * sample.ps_cpu:.1f} ms on the ps"
    text = (
        f"about {rounded(rate * job.min_batch_size * job.accumulate)} examples/s with "
        f"{_several(workers, 'worker')}{others} {where} "
        f"(a step: {1e3 * sample.worker_cpu:.1f} ms of CPU on a worker{on_ps})"
    )
    found = [Finding(OK, "predict", text)]
    if not places.is_one_machine and network.transfer_secs():
        found.append(_wire_finding(job, costs, places, network, rate))
    if job.ps_on_workers:  # no ps of their own can be too few
        return found
    apart = dataclasses.replace(costs, latency=costs.latency + network.secs())
    ps_cores = min(places.cores[name] for name in places.servers)
    full, fewest = workers_at_saturation(apart, servers, ps_cores), recommended_ps(apart, workers, ps_cores)
    limit = f"{full} workers" if full < MOST_WORKERS else f"more than {MOST_WORKERS} workers"
    saturation = f"{servers} ps of {_several(ps_cores, 'core')} saturate at {limit} on machines of their own"
    if workers >= full and not places.is_one_machine:
        return [*found, Finding(WARN, "saturate", saturation, f"use --num_ps={fewest} for {workers} workers")]
    return [*found, Finding(OK, "saturate", f"{saturation}; num_ps={fewest} is enough for {workers}")]


def _wire_finding(job: Job, costs: Costs, places: Places, network: Network, rate: float) -> Finding:
    """Returns the finding about the bytes of a step; names codecs where these bytes are the limit.

    The CPU time of another codec is not known here, so gains are upper bounds.
    """
    pull, push = network.traffic.on_wire(network.codecs)
    secs, step = network.transfer_secs(), len(places.workers) / rate
    text = f"a step pulls {human_bytes(pull)} and pushes {human_bytes(push)}: {1e3 * secs:.1f} of {1e3 * step:.1f} ms"
    if secs < _WIRE_SHARE * step:
        return Finding(OK, "wire", text)
    gains = []
    for codecs in _CODECS:
        other = dataclasses.replace(network, codecs=codecs)
        if other.transfer_secs() < _FEWER * secs:
            examples = predicted_pushes(costs, places, other, job.update == "sync") * job.min_batch_size
            flags = f"--pull_codec={codecs[0]} --push_codec={codecs[1]}"
            gains.append(f"{flags} would make up to {rounded(examples * job.accumulate)} examples/s")
    return Finding(
        WARN, "wire", text, "; ".join([*gains, "a larger --batch_size or --accumulate=4 moves less an example"])
    )


def rounded(value: float) -> str:
    """Returns a number with two significant digits, since a prediction has no more."""
    if value <= 0:
        return "0"
    text = f"{float(f'{value:.2g}'):,.1f}"
    return text.removesuffix(".0")


def _several(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
