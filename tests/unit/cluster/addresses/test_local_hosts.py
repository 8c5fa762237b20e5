"""The host lists of a job whose tasks all run on this machine."""

from __future__ import annotations

import itertools

import pytest

from ps_train.cluster.addresses.local_hosts import with_local_hosts
from ps_train.config.job import Job


@pytest.mark.parametrize(
    ("job", "ps", "workers"),
    [
        (Job(), 1, 2),
        (Job(num_ps=3, num_workers=1), 3, 1),
        (Job(num_ps=0), 0, 2),
        (Job(ps_on_workers=True, num_workers=4), 0, 4),
    ],
)
def test_each_task_has_an_address_of_its_own(job: Job, ps: int, workers: int) -> None:
    found = with_local_hosts(job)
    assert (len(found.ps_hosts), len(found.worker_hosts)) == (ps, workers)
    assert len({*found.ps_hosts, *found.worker_hosts}) == ps + workers
    assert found.ps_on_workers == (ps == 0)
    assert with_local_hosts(found) is found, "it has host lists already"


def test_the_addresses_are_those_that_are_reserved_for_the_tasks() -> None:
    ports = itertools.count(4000)
    found = with_local_hosts(Job(num_workers=1), lambda: f"localhost:{next(ports)}")
    assert (found.ps_hosts, found.worker_hosts) == (("localhost:4000",), ("localhost:4001",))
