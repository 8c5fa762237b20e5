"""The sizes of a plan against what a job really writes and holds."""

from __future__ import annotations

import pytest

from ps_train.commands.doctor.network import local_cluster
from ps_train.commands.doctor.shown_plan import plan_job
from ps_train.config.job import Job

MODEL = "ps_train.models.digits:Digits"
VARIABLE_BYTES = 4 * (64 * 256 + 256 + 256 * 10 + 10)


@pytest.mark.parametrize(("optimizer", "slots"), [("sgd", 0), ("momentum", 1), ("adam", 2)])
@pytest.mark.parametrize("num_ps", [1, 3])
@pytest.mark.usual(2)
def test_slots_are_counted(optimizer, slots, num_ps):
    job, cluster = local_cluster(Job(model=MODEL, optimizer=optimizer, num_ps=num_ps))
    planned = plan_job(job, cluster)
    assert sum(planned.plan.bytes_per_ps()) == VARIABLE_BYTES
    state = VARIABLE_BYTES * (1 + slots)
    assert 0 <= sum(planned.state_bytes) - state < 5000 * num_ps  # counters, and powers of Adam
    assert 0 <= planned.checkpoint_bytes - state < 500
    assert len(planned.ps_memory) == num_ps and min(planned.ps_memory) > 100 << 20
    assert planned.needs(["ps:0", "worker:1"]) == {"ps:0": planned.ps_memory[0], "worker:1": planned.worker_memory}
    assert planned.findings()[0].level == "ok"


def test_workers_that_are_the_ps_need_the_memory_of_both():
    apart = plan_job(*local_cluster(Job(model=MODEL, num_ps=2, num_workers=2)))
    here = plan_job(*local_cluster(Job(model=MODEL, ps_on_workers=True, num_workers=2)))
    assert here.state_bytes == apart.state_bytes, "variables of the worker's own are not those of its ps"
    assert here.needs(["worker:1"]) == {"worker:1": here.worker_memory + here.ps_memory[1]}
    assert max(here.ps_memory) < min(apart.ps_memory) - (100 << 20), "one process for both"
    assert here.traffic.whole == apart.traffic.whole // 2


def test_ps_that_hold_nothing_are_a_warning():
    job, cluster = local_cluster(Job(model="tests.support.models:Linear", num_ps=40))
    found = plan_job(job, cluster).findings()[0]
    assert found.level == "warn" and "hold no variable" in found.text
