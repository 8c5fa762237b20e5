"""The page shows which worker is which ps, and says nothing of the CPU of such a ps."""

from __future__ import annotations

from typing import Any

from ps_train.cluster.addresses.cluster import Cluster
from ps_train.config.job import Job, Task
from ps_train.training.tasks.hosted_ps import HostedPsDisplay, hosted_ps

HOSTED = Job(worker_hosts=("a:1", "b:1"), ps_on_workers=True)
APART = Job(ps_hosts=("c:1",), worker_hosts=("a:1", "b:1"))
PLAN: Any = None


def test_workers_show_the_ps_that_they_are() -> None:
    display = HostedPsDisplay()
    display.planned(PLAN, Cluster.of(HOSTED))
    found = {task: display.of_worker(task, None, "training")["ps"] for task in ("worker:0", "worker:1", "worker:2")}
    assert found == {"worker:0": "ps:0", "worker:1": "ps:1", "worker:2": None}
    assert display.exempt == ["ps_cpu"]


def test_ps_of_their_own_are_shown_by_no_worker() -> None:
    display = HostedPsDisplay()
    display.planned(PLAN, Cluster.of(HOSTED))
    display.planned(PLAN, Cluster.of(APART))  # another plan
    assert display.of_worker("worker:0", None, "training") == {"ps": None} and display.exempt == []


def test_a_worker_beside_ps_of_their_own_serves_nothing() -> None:
    with hosted_ps(APART, Task("worker", 0), Cluster.of(APART)) as server:
        assert server is None
