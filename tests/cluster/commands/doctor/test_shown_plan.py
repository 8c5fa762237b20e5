"""The sizes of a plan against what a job really writes and holds."""

from __future__ import annotations

from typing import Any

import pytest

from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.addresses.local_hosts import with_local_hosts
from ps_train.commands.doctor.shown_plan import PlannedJob, plan_job
from ps_train.config.job import Job

MODEL = "ps_train.models.digits:Digits"
VARIABLE_BYTES = 4 * (64 * 256 + 256 + 256 * 10 + 10)


def planned(**fields: Any) -> PlannedJob:
    job = with_local_hosts(Job(**fields))
    return plan_job(job, Cluster.of(job))


@pytest.mark.parametrize(("optimizer", "slots"), [("sgd", 0), ("momentum", 1), ("adam", 2)])
@pytest.mark.parametrize("num_ps", [1, 3])
@pytest.mark.usual(2)
def test_slots_are_counted(optimizer, slots, num_ps):
    found = planned(model=MODEL, optimizer=optimizer, num_ps=num_ps)
    assert sum(found.plan.bytes_per_ps()) == VARIABLE_BYTES
    state = VARIABLE_BYTES * (1 + slots)
    assert 0 <= sum(found.state_bytes) - state < 5000 * num_ps  # counters, and powers of Adam
    assert 0 <= found.checkpoint_bytes - state < 500
    assert len(found.ps_memory) == num_ps and min(found.ps_memory) > 100 << 20
    assert found.needs(["ps:0", "worker:1"]) == {"ps:0": found.ps_memory[0], "worker:1": found.worker_memory}
    assert found.findings()[0].level == "ok"


def test_workers_that_are_the_ps_need_the_memory_of_both():
    apart = planned(model=MODEL, num_ps=2, num_workers=2)
    here = planned(model=MODEL, ps_on_workers=True, num_workers=2)
    assert here.state_bytes == apart.state_bytes, "variables of the worker's own are not those of its ps"
    assert here.needs(["worker:1"]) == {"worker:1": here.worker_memory + here.ps_memory[1]}
    assert max(here.ps_memory) < min(apart.ps_memory) - (100 << 20), "one process for both"
    assert here.traffic.whole == apart.traffic.whole // 2


def test_ps_that_hold_nothing_are_a_warning():
    found = planned(model="tests.support.models.small:Linear", num_ps=40).findings()[0]
    assert found.level == "warn" and "hold no variable" in found.text
