"""The ways inside a rack and between racks, as measured, and the bytes that racks save there.

rack_findings(job, cluster, Task("worker", 0), found, planned.plan.bytes_per_ps(), measure)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ps_train.base.console import human_bytes
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.topology import Topology, known_topology
from ps_train.commands.doctor.findings import OK, WARN, Finding
from ps_train.commands.doctor.transport import PsMeasurement
from ps_train.config.job import Job, Task


def rack_findings(
    job: Job,
    cluster: Cluster,
    task: Task,
    found: Iterable[PsMeasurement],
    ps_bytes: Sequence[int] | None,
    measure: Callable[[str, str], PsMeasurement | None],
) -> list[Finding]:
    """Returns the findings about the rack of a worker; the first worker of a rack compares its ways with the others.

    Args:
      job: its racks are known here only by a `rack_file`.
      cluster: the host lists.
      task: the worker.
      found: its measurements of the ps.
      ps_bytes: bytes of the variables on each ps; None where the plan is not known.
      measure: measures the way to a worker, its second argument, while the first one measures the way to this one.
    """
    topology = known_topology(job, task, cluster)
    if topology.is_flat:
        return []
    before, after = topology.neighbours(task)
    neighbour = measure(before, after) if after != str(task) else None
    findings = [] if neighbour is None else [neighbour_finding(neighbour, str(task))]
    if ps_bytes is not None and topology.place(task).rank == 0:
        findings.append(rack_finding(topology, str(task), found, neighbour, ps_bytes))
    return findings


def neighbour_finding(one: PsMeasurement, task: str) -> Finding:
    """Returns the finding about the way of a worker to another one of its rack.

    Args:
      one: its measurements.
      task: the worker that has measured.
    """
    subject = f"{one.name} ({one.address})"
    if one.round_trip is None or not one.pull or not one.push:
        text = f"{subject}, of the same rack: {one.refused or one.problem or one.text}".rstrip(".")
        return Finding(WARN, "neighbour", text, f"run the doctors of {one.name} and {task} at the same time")
    rates = f"pull {human_bytes(one.pull)}/s, push {human_bytes(one.push)}/s"
    return Finding(OK, "neighbour", f"{subject}, of the same rack: round trip {1e3 * one.round_trip:.2f} ms; {rates}")


def rack_finding(
    topology: Topology,
    task: str,
    found: Iterable[PsMeasurement],
    neighbour: PsMeasurement | None,
    ps_bytes: Sequence[int],
) -> Finding:
    """Returns the finding about the ways of a worker inside its rack and to ps in others.

    Without racks, the workers of a rack share its way to the other racks, and each sends and gets all bytes.  With
    racks, one of them does, and it passes the values on inside the rack and gets the gradients of the others.

    Args:
      topology: the racks, of the ps too.
      task: the worker.
      found: its measurements of the ps.
      neighbour: its measurement of another worker of its rack, the way that gradients and values take inside it; the
        ways to the ps of the rack stand for it without one.
      ps_bytes: bytes of the variables on each ps.
    """
    own, size = topology.racks[task], len(topology.workers[topology.names.index(topology.racks[task])])
    near, of_workers, far = _Ways(), _Ways(), _Ways()
    for one in [*found, *([neighbour] if neighbour is not None else [])]:
        if one.round_trip is None or not one.pull or not one.push:
            continue
        ways = of_workers if one is neighbour else near if topology.racks[one.name] == own else far
        ways.add(one.round_trip, one.pull, one.push)
    near = of_workers if of_workers.count else near
    crossing = sum(count for ps, count in enumerate(ps_bytes) if topology.racks[f"ps:{ps}"] != own)
    subject = f"rack {own}"
    flat_text = f"a step moves {human_bytes(2 * size * crossing)} over its way to other racks without racks, "
    bytes_text = f"{flat_text}{human_bytes(2 * crossing)} with them"
    if not crossing:
        return Finding(OK, subject, "all variables are in this rack, so its workers send nothing to others")
    if not far.count or not (near.count or size == 1):
        where = "inside this rack" if far.count else "to a ps in another rack"
        return Finding(OK, subject, f"{bytes_text}; no way {where} was measured")
    if size == 1:
        return Finding(OK, subject, f"{bytes_text}; to other racks {far}; a rack of one worker gains nothing itself")
    text = f"inside {near}, to other racks {far}; {bytes_text}"
    if far.secs_per_byte <= near.secs_per_byte:
        return Finding(WARN, subject, text, "leave the racks out, the network between them is as fast as inside")
    return Finding(OK, subject, text)


class _Ways:
    """The slowest of some ways."""

    def __init__(self) -> None:
        self.count, self._round_trip, self._pull, self._push = 0, 0.0, float("inf"), float("inf")

    def add(self, round_trip: float, pull: float, push: float) -> None:
        self.count += 1
        self._round_trip = max(self._round_trip, round_trip)
        self._pull, self._push = min(self._pull, pull), min(self._push, push)

    @property
    def secs_per_byte(self) -> float:
        """Seconds to pull a byte and push one."""
        return 1 / self._pull + 1 / self._push

    def __str__(self) -> str:
        return f"{human_bytes(self._pull)}/s, {1e3 * self._round_trip / 2:.2f} ms"
