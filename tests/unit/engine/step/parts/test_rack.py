"""A worker of a rack: the ps see the rack in its place."""

from __future__ import annotations

import pytest

from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.topology import Topology
from ps_train.config.job import Job, Task
from ps_train.engine.step.parts.rack import Rack, racks_of
from ps_train.engine.updates.modes.base import Replica
from tests.support.graphs.steps import spec_of
from tests.support.models.small import Linear

WORKERS = tuple(f"w{number}:1" for number in range(5))
CLUSTER = Cluster.of(Job(ps_hosts=("p:1",), worker_hosts=WORKERS))


@pytest.mark.parametrize(("worker", "rack"), [(0, 0), (1, 1), (3, 0), (4, 1)])
def test_the_ps_see_as_many_replicas_as_racks_and_the_rack_of_the_worker(worker: int, rack: int) -> None:
    named = {f"worker:{number}": ("a", "b")[number % 2 if number < 3 else number - 3] for number in range(5)}
    spec = spec_of(Linear(), replica=Replica(worker, 5, 5))
    (part,) = racks_of(spec, Topology.of(named, CLUSTER), Task("worker", worker))
    assert isinstance(part, Rack)
    assert part.pusher(spec.replica) == Replica(rack, 2, 2)


def test_a_job_without_racks_has_no_such_part() -> None:
    assert racks_of(spec_of(Linear()), Topology.of({}, CLUSTER), Task("worker", 0)) == []
